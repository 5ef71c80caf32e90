//! The result of a demo: a table as text, and a page with two pictures.

use super::load::READS_PER_S;
use super::tick::{Record, Tick};
use forebay_chart::{Axis, Chart, Layer, Shape, document, escape, sheet};
use std::fmt::Write;

/// The shortest and the longest write on the axis, in ms; longer ones widen it.
const WRITE_MS: (f64, f64) = (1.0, 1_000.0);

/// The figures of all contenders as lines.
pub(super) fn summary(records: &[Record], flood_s: f64) -> String {
    let mut text = String::from(
        "                     reads per second       longest      99 %    median\n\
         \x20                   alone  with writers      write  of writes     write    written\n",
    );
    for record in records {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", record.summary_line(flood_s));
    }
    text
}

/// The whole page.
pub(super) fn render(records: &[Record], flood_s: f64) -> String {
    let table = summary(records, flood_s);
    let table = escape(&table);
    let body = format!(
        "<h1>Four writers flood a slow disk</h1>\n<p>Each contender has a disk of 30 MB/s. A \
         reader works on it; its data is cached before the start. Four writers join it after \
         {flood_s} s and write as fast as they can. The cache that stops at a limit holds every \
         writer once a fifth of its memory is dirty, and lets them go on at half of that. Direct \
         I/O has no cache.</p>\n{}{}<pre>{table}</pre>\n",
        reads(records, flood_s).render(),
        writes(records).render()
    );
    document("forebay demo", &body)
}

/// The pictures as a separate file.
pub(super) fn picture(records: &[Record], flood_s: f64) -> String {
    sheet(&[reads(records, flood_s), writes(records)])
}

fn points(record: &Record, value: impl Fn(&Tick) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |tick: &Tick| Some((tick.at_s, value(tick)?));
    record.ticks.iter().filter_map(point).collect()
}

fn reads(records: &[Record], flood_s: f64) -> Chart {
    let mut chart = Chart::new(
        "The reader: reads per second (higher is better)",
        Axis::linear("time, s"),
        Axis::linear("reads per second"),
    );
    chart.note = format!("Four writers begin to flood the disk of 30 MB/s at {flood_s} s.");
    let begins = vec![(flood_s, 0.0), (flood_s, READS_PER_S as f64)];
    chart.add(Layer::new("", 7, Shape::Dashed(begins)));
    for (colour, record) in records.iter().enumerate().rev() {
        let rates = points(record, |tick| Some(tick.reads_per_s));
        chart.add(Layer::new(record.kind.name(), colour, Shape::Line(rates)));
    }
    chart
}

fn writes(records: &[Record]) -> Chart {
    let mut chart = Chart::new(
        "The writers: the longest write of each tenth of a second (lower is better)",
        Axis::linear("time, s"),
        Axis::log("ms"),
    );
    chart.y.bounds = Some(WRITE_MS);
    let last = records.iter().filter_map(|record| record.ticks.last());
    let end_s = last.map(|tick| tick.at_s).fold(0.0, f64::max);
    chart.x.bounds = Some((0.0, end_s));
    for (colour, record) in records.iter().enumerate().rev() {
        let longest = points(record, |tick| tick.longest_ms);
        chart.add(Layer::new(record.kind.name(), colour, Shape::Dots(longest)));
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{Kind, Summary};

    #[test]
    fn a_page_has_both_pictures_and_a_line_for_each() {
        let tick = |at_s| Tick {
            at_s,
            reads_per_s: 5_000.0,
            longest_ms: Some(12.0),
        };
        let record = Record {
            kind: Kind::Forebay,
            ticks: vec![tick(0.1), tick(0.2)],
            summary: Summary::default(),
        };
        let page = render(std::slice::from_ref(&record), 0.1);
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("\nForebay "), "{page}");
        let picture = picture(&[record], 0.1);
        assert_eq!(picture.matches("<svg").count(), 3);
        assert!(picture.contains("<style>"));
    }
}
