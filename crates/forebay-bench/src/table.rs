//! The table on standard output: each number with its unit and its spread over the rounds, the
//! contenders side by side, the ratios of Forebay to the others, and the goals.

use crate::contender::{Percentiles, Phase, Who};
use crate::goals::{Goal, verdicts};
use crate::results::{Figure, Name, Results};
use std::fmt::Write;

/// Selects one value of a distribution.
type PartOf = fn(&Percentiles) -> f64;

/// The texts of the table beside the numbers, and the goals under them.
pub(crate) struct Heading {
    /// The machine and the budget, one line each.
    pub(crate) lines: Vec<String>,
    /// The title of each phase and its notes.
    phases: Vec<(Phase, Vec<String>)>,
    goals: &'static [Goal],
}

impl Heading {
    pub(crate) fn new(lines: Vec<String>, goals: &'static [Goal]) -> Heading {
        Heading {
            lines,
            phases: Vec::new(),
            goals,
        }
    }

    /// Adds a note about `phase` unless it is there. Remarks are indented and follow the titles.
    pub(crate) fn note(&mut self, phase: Phase, note: String) {
        let at = self.phases.iter().position(|(other, _)| *other == phase);
        let at = at.unwrap_or_else(|| {
            self.phases.push((phase, Vec::new()));
            self.phases.len() - 1
        });
        let notes = &mut self.phases[at].1;
        if !notes.contains(&note) {
            notes.push(note);
        }
        notes.sort_by_key(|note| note.starts_with(' '));
    }
}

/// The whole table as text.
pub(crate) fn render(heading: &Heading, results: &Results) -> String {
    let mut text = String::new();
    for line in &heading.lines {
        push(&mut text, line);
    }
    for (phase, notes) in &heading.phases {
        push(&mut text, "");
        for note in notes {
            push(&mut text, note);
        }
        let [forebay, second, third] = phase.contenders().map(Who::name);
        let (over_second, over_third) = (format!("f/{second}"), format!("f/{third}"));
        let names = [forebay, second, third, &over_second, &over_third];
        push(&mut text, &columns("", "", names));
        for name in results.names(*phase) {
            push_number(&mut text, results, name);
        }
    }
    push(&mut text, "");
    push(
        &mut text,
        "goals, as ratios within this run where the machine sets the scale",
    );
    let mut columns = String::new();
    for verdict in verdicts(heading.goals, results) {
        if verdict.columns() != columns {
            columns = verdict.columns();
            push(&mut text, &columns);
        }
        push(&mut text, &verdict.to_string());
    }
    text
}

fn push(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn columns(label: &str, unit: &str, cells: [&str; 5]) -> String {
    let [forebay, second, third, over_second, over_third] = cells;
    format!(
        "  {label:<48} {unit:<9} {forebay:>14} {second:>14} {third:>14} {over_second:>10} \
         {over_third:>10}"
    )
}

/// The line of one number, and the lines of its distribution if operations were timed one by one.
fn push_number(text: &mut String, results: &Results, name: &Name) {
    let figures = name.phase.contenders().map(|who| results.find(name, who));
    let unit = figures.iter().flatten().next().map_or("", |f| &f.unit);
    let value = |figure: &Figure| Some((figure.value, figure.spread_percent, figure.rounds));
    push(text, &line(&label(name), unit, &figures, value));
    // A distribution of the means of batches adds little to the spread.
    if unit.starts_with("ns") {
        return;
    }
    let parts: [(&str, PartOf); 4] = [
        ("p50", |p| p.p50),
        ("p99", |p| p.p99),
        ("p99.9", |p| p.p999),
        ("max", |p| p.max),
    ];
    if figures.iter().flatten().any(|f| f.percentiles.is_some()) {
        let unit = if unit == "IOPS" { "us" } else { unit };
        for (part, of) in parts {
            let value = |figure: &Figure| {
                let spread_percent = of(&figure.percentile_spreads_percent?);
                // The largest value is that of all rounds: it has no spread.
                let rounds = if part == "max" { 1 } else { figure.rounds };
                Some((of(&figure.percentiles?), spread_percent, rounds))
            };
            push(text, &line(&format!("  {part}"), unit, &figures, value));
        }
    }
}

fn label(name: &Name) -> String {
    let (metric, depth) = (&name.metric, name.load.depth);
    let is_served = matches!(name.phase, Phase::Nbd | Phase::Mount);
    match (name.load.threads, depth) {
        _ if name.phase == Phase::Files => metric.clone(),
        (1, _) if is_served => format!("{metric}, depth {depth}"),
        (jobs, _) if is_served => format!("{metric}, {jobs} jobs"),
        (1, 1) if name.phase != Phase::Miss => format!("{metric}, 1 thread"),
        (1, depth) => format!("{metric}, depth {depth}"),
        (threads, _) => format!("{metric}, {threads} threads"),
    }
}

fn line(
    label: &str,
    unit: &str,
    figures: &[Option<Figure>; 3],
    value: impl Fn(&Figure) -> Option<(f64, f64, usize)>,
) -> String {
    let values = figures.each_ref().map(|f| f.as_ref().and_then(&value));
    let [ours, second, third] = values.map(|v| v.map(|(number, _, _)| number));
    let [forebay, of_second, of_third] = values.map(cell);
    let ratios = [ratio(ours, second), ratio(ours, third)];
    columns(
        label,
        unit,
        [&forebay, &of_second, &of_third, &ratios[0], &ratios[1]],
    )
}

/// A number with its spread in percent over this many rounds.
fn cell(value: Option<(f64, f64, usize)>) -> String {
    match value {
        None => "-".to_owned(),
        Some((number, _, 1)) => show(number),
        Some((number, spread_percent, _)) => format!("{} +-{spread_percent:.0} %", show(number)),
    }
}

fn ratio(ours: Option<f64>, other: Option<f64>) -> String {
    match (ours, other) {
        (Some(ours), Some(other)) if other > 0.0 => format!("{:.2} x", ours / other),
        _ => "-".to_owned(),
    }
}

/// A number with three significant digits, or fewer if it has fewer.
fn show(number: f64) -> String {
    let mut text = String::new();
    let digits = match number.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    write!(text, "{number:.digits$}").expect("a string takes all that is written to it");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Concurrency, Sample};
    use crate::goals;

    fn rendered() -> String {
        let mut results = Results::default();
        let mut add = |phase, threads, depth, who, sample| {
            results.add(phase, Concurrency::new(threads, depth), who, vec![sample]);
        };
        let copy = |value| Sample::plain("copy", "ns a page", value);
        add(Phase::Hit, 2, 2, Who::Forebay, copy(300.0));
        add(Phase::Hit, 2, 2, Who::Forebay, copy(330.0));
        add(Phase::Hit, 2, 2, Who::Kernel, copy(600.0));
        let percentiles = Some(Percentiles {
            p50: 12.5,
            p99: 40.0,
            p999: 1_250.0,
            max: 2_000.0,
        });
        let timed = |sample| Sample {
            percentiles,
            ..sample
        };
        let write = timed(Sample::plain("write", "us", 15.0));
        add(Phase::Stream, 1, 1, Who::Kernel, write);
        for value in [90.0, 110.0, 100.0] {
            let read = Sample::plain("read", "IOPS", value);
            add(Phase::Nbd, 1, 32, Who::Forebay, timed(read));
        }
        let read = Sample::plain("read", "IOPS", 40.0);
        add(Phase::Nbd, 1, 32, Who::QemuNbd, read);
        let mut heading = Heading::new(vec!["machine".into()], goals::LIBRARY);
        heading.note(Phase::Hit, "hit: reads".into());
        heading.note(Phase::Stream, "stream: writes".into());
        heading.note(Phase::Nbd, "  left out: nbdkit".into());
        heading.note(Phase::Nbd, "nbd: a server".into());
        render(&heading, &results)
    }

    fn row<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        text.lines()
            .find(|line| line.trim_start().starts_with(start))
            .unwrap()
            .split_ascii_whitespace()
            .collect()
    }

    #[test]
    fn contenders_stand_side_by_side_with_units_spread_and_ratios() {
        let text = rendered();
        assert_eq!(
            row(&text, "copy, 2 threads").join(" "),
            "copy, 2 threads ns a page 300 +-5 % 600 - 0.50 x -"
        );
    }

    #[test]
    fn a_front_has_contenders_of_its_own_and_names_who_is_missing() {
        let text = rendered();
        assert!(text.contains("nbd: a server\n  left out: nbdkit\n"));
        assert_eq!(
            row(&text, "read, depth 32").join(" "),
            "read, depth 32 IOPS 100 +-10 % - 40.0 - 2.50 x"
        );
        let of_nbd = text.split_once("nbd: a server").unwrap().1;
        assert_eq!(row(of_nbd, "max").join(" "), "max us 2000 - - - -");
    }

    #[test]
    fn timed_operations_show_their_distribution() {
        let text = rendered();
        assert_eq!(row(&text, "p99.9").join(" "), "p99.9 us - 1250 - - -");
        assert_eq!(row(&text, "p50").join(" "), "p50 us - 12.5 - - -");
    }

    #[test]
    fn every_goal_has_a_line_and_no_line_ends_in_blanks() {
        let text = rendered();
        assert!(text.contains("goals"));
        assert!(row(&text, "miss").join(" ").contains("not measured"));
        assert!(text.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn numbers_have_the_digits_they_earn() {
        let shown = [0.0, 0.123, 9.876, 45.67, 312.7, 84_123.4].map(show);
        assert_eq!(shown, ["0", "0.12", "9.88", "45.7", "313", "84123"]);
    }
}
