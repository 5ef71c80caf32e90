//! The page of a demo: the longest write of each tenth of a second, and the dirty level.

use super::tick::{Record, Tick};
use forebay_chart::{Axis, Chart, Layer, Shape, document, escape};

/// The whole page.
pub(super) fn render(records: &[Record]) -> String {
    let lines: Vec<String> = records.iter().map(Record::summary_line).collect();
    let lines = lines.join("\n");
    let lines = escape(&lines);
    let body = format!(
        "<h1>Four writers on a slow disk</h1>\n{}\n{}\n<pre>{lines}</pre>\n",
        longest_writes(records).render(),
        levels(records).render()
    );
    document("forebay demo", &body)
}

/// The first picture as a separate file.
pub(super) fn picture(records: &[Record]) -> String {
    longest_writes(records).standalone()
}

fn points(record: &Record, value: impl Fn(&Tick) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |tick: &Tick| Some((tick.at_s, value(tick)?));
    record.ticks.iter().filter_map(point).collect()
}

fn longest_writes(records: &[Record]) -> Chart {
    let mut chart = Chart::new(
        "Longest write of 64 KiB in each tenth of a second",
        Axis::linear("time, s"),
        Axis::linear("ms"),
    );
    for (colour, record) in records.iter().enumerate() {
        // A tenth of a second in which no write ended has no point; the write that was under way
        // then counts in a later one.
        let longest = points(record, |tick| (tick.writes > 0).then_some(tick.longest_ms));
        chart.add(Layer::new(&record.name, colour, Shape::Line(longest)));
    }
    chart
}

fn levels(records: &[Record]) -> Chart {
    let mut chart = Chart::new(
        "Dirty pages, those on their way included",
        Axis::linear("time, s"),
        Axis::linear("MiB"),
    );
    for (colour, record) in records.iter().enumerate() {
        let dirty = points(record, |tick| tick.dirty_mib);
        chart.add(Layer::new(&record.name, colour, Shape::Line(dirty)));
        let setpoint = points(record, |tick| tick.setpoint_mib);
        let name = format!("setpoint of {}", record.name);
        chart.add(Layer::new(&name, colour, Shape::Dashed(setpoint)));
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::Summary;

    #[test]
    fn a_page_has_both_pictures_and_a_line_for_each() {
        let tick = |at_s| Tick {
            at_s,
            writes: 3,
            longest_ms: 12.0,
            dirty_mib: Some(43.0),
            setpoint_mib: Some(44.0),
            pauses: Some(1),
        };
        let record = Record {
            name: "forebay".into(),
            ticks: vec![tick(0.1), tick(0.2)],
            summary: Summary::default(),
        };
        let page = render(std::slice::from_ref(&record));
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("setpoint of forebay"));
        let picture = picture(&[record]);
        assert!(picture.starts_with("<svg") && picture.contains("<style>"));
    }
}
