//! The table of the fronts, in the style of the bench's own table.

use super::goals::verdicts;
use super::results::{Figure, Front, Name, Results, Who};
use crate::table::{cell, push, ratio};

/// The whole table as text, with `lines` at its head, and what was left out for each front.
pub(super) fn render(lines: &[String], left_out: &[(Front, String)], results: &Results) -> String {
    let mut text = String::new();
    for line in lines {
        push(&mut text, line);
    }
    for front in [Front::Nbd, Front::Mount, Front::Files] {
        push(&mut text, "");
        push(&mut text, title(front));
        for (_, reason) in left_out.iter().filter(|(of, _)| *of == front) {
            push(&mut text, &format!("  left out: {reason}"));
        }
        let names = results.names(front);
        if !names.is_empty() {
            push(&mut text, &columns(front));
        }
        for name in names {
            push_number(&mut text, results, &name);
        }
    }
    push(&mut text, "");
    push(
        &mut text,
        "goals, as ratios within this run where the machine sets the scale",
    );
    for verdict in verdicts(results) {
        push(&mut text, &verdict.to_string());
    }
    text
}

fn title(front: Front) -> &'static str {
    match front {
        Front::Nbd => "nbd: forebay serve nbd over a unix socket, fio's nbd engine",
        Front::Mount => "mount: forebay mount, fio by ordinary calls on a file",
        Front::Files => "files: forebay mount, files of 4 KiB in folders of 100",
    }
}

fn columns(front: Front) -> String {
    let [ours, second, third] = front.contenders().map(Who::name);
    format!(
        "  {:<58} {:<5} {ours:>15} {second:>15} {third:>15} {:>10} {:>10}",
        "",
        "",
        format!("f/{second}"),
        format!("f/{third}")
    )
}

fn push_number(text: &mut String, results: &Results, name: &Name) {
    let load = (name.jobs, name.depth);
    let of = |who| results.find(name.front, name.metric, load, who);
    let figures = name.front.contenders().map(of);
    let label = match load {
        _ if name.front == Front::Files => name.metric.to_owned(),
        (1, depth) => format!("{}, depth {depth}", name.metric),
        (jobs, _) => format!("{}, {jobs} jobs", name.metric),
    };
    let values = figures.map(|f| f.map(|f| (f.value, f.spread_percent, f.rounds)));
    push(text, &line(&label, name.unit, values));
    for (part, of) in [
        (
            "  p50",
            (|l| l.p50) as fn(&crate::contender::Percentiles) -> f64,
        ),
        ("  p99", |l| l.p99),
        ("  p99.9", |l| l.p999),
        ("  max", |l| l.max),
    ] {
        let part_of = |figure: Option<Figure>| Some((of(&figure?.latency_us?), 0.0, 1));
        let values = figures.map(part_of);
        if values.iter().any(Option::is_some) {
            push(text, &line(part, "us", values));
        }
    }
}

fn line(label: &str, unit: &str, values: [Option<(f64, f64, usize)>; 3]) -> String {
    let numbers = values.map(|value| value.map(|(number, _, _)| number));
    let [ours, second, third] = values.map(cell);
    format!(
        "  {label:<58} {unit:<5} {ours:>15} {second:>15} {third:>15} {:>10} {:>10}",
        ratio(numbers[0], numbers[1]),
        ratio(numbers[0], numbers[2])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fronts::goals::metric;
    use crate::fronts::results::tests::{named, sample};

    #[test]
    fn contenders_stand_side_by_side_and_who_is_missing_is_named() {
        let mut results = Results::default();
        for value in [90.0, 110.0, 100.0] {
            results.add(named(metric::READ, (1, 32)), Who::Forebay, sample(value));
        }
        results.add(named(metric::READ, (1, 32)), Who::QemuNbd, sample(40.0));
        let left_out = [(Front::Nbd, "nbdkit is not installed".to_owned())];
        let text = render(&["machine".to_owned()], &left_out, &results);
        assert!(text.contains("left out: nbdkit is not installed"));
        let row = text
            .lines()
            .find(|line| line.contains("depth 32  "))
            .unwrap();
        let row: Vec<&str> = row.split_ascii_whitespace().collect();
        assert_eq!(
            row.join(" "),
            "read of cached 4 KiB, depth 32 IOPS 100 +-10 % - 40.0 - 2.50 x"
        );
        assert!(text.lines().all(|line| line == line.trim_end()));
    }
}
