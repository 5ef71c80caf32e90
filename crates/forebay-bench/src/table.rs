//! The table on standard output: each number with its unit and its spread over the rounds, the
//! contenders side by side, the ratios of Forebay to the others, and the goals.

use crate::contender::{Percentiles, Phase, Who};
use crate::goals::{self, verdicts};
use crate::results::{Figure, Name, Results};
use std::fmt::Write;

/// Selects one value of a distribution.
type PartOf = fn(&Percentiles) -> f64;

/// The texts of the table beside the numbers.
pub(crate) struct Heading {
    /// The machine and the budget, one line each.
    pub(crate) lines: Vec<String>,
    /// The title of each phase and its notes.
    pub(crate) phases: Vec<(Phase, Vec<String>)>,
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
        push(&mut text, &columns());
        for name in results.names(*phase) {
            push_number(&mut text, results, &name);
        }
    }
    push(&mut text, "");
    push(
        &mut text,
        "goals, as ratios within this run where the machine sets the scale",
    );
    push(&mut text, &goals::columns());
    for verdict in verdicts(results) {
        push(&mut text, &verdict.to_string());
    }
    text
}

pub(crate) fn push(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

fn columns() -> String {
    format!(
        "  {:<40} {:<9} {:>14} {:>14} {:>14} {:>9} {:>8}",
        "", "", "forebay", "kernel", "floor", "f/kernel", "f/floor"
    )
}

/// The line of one number, and the lines of its distribution if operations were timed one by one.
fn push_number(text: &mut String, results: &Results, name: &Name) {
    let figures = Who::ALL.map(|who| results.find(name, who));
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
    match (name.threads, name.depth) {
        (1, 1) if name.phase == Phase::Miss => format!("{}, depth 1", name.metric),
        (1, 1) => format!("{}, 1 thread", name.metric),
        (1, depth) => format!("{}, depth {depth}", name.metric),
        (threads, _) => format!("{}, {threads} threads", name.metric),
    }
}

fn line(
    label: &str,
    unit: &str,
    figures: &[Option<Figure>; 3],
    value: impl Fn(&Figure) -> Option<(f64, f64, usize)>,
) -> String {
    let values = figures.each_ref().map(|f| f.as_ref().and_then(&value));
    let [forebay, kernel, floor] = values.map(|v| v.map(|(number, _, _)| number));
    let cells = values.map(cell);
    format!(
        "  {label:<40} {unit:<9} {:>14} {:>14} {:>14} {:>9} {:>8}",
        cells[0],
        cells[1],
        cells[2],
        ratio(forebay, kernel),
        ratio(forebay, floor)
    )
}

/// A number with its spread in percent over this many rounds.
pub(crate) fn cell(value: Option<(f64, f64, usize)>) -> String {
    match value {
        None => "-".to_owned(),
        Some((number, _, 1)) => show(number),
        Some((number, spread_percent, _)) => format!("{} +-{spread_percent:.0} %", show(number)),
    }
}

pub(crate) fn ratio(ours: Option<f64>, other: Option<f64>) -> String {
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
    use crate::contender::{Load, Sample};
    use crate::results::tests::named_step;

    fn results() -> Results {
        let mut results = Results::default();
        let read = named_step(Phase::Hit, Load::ReadByCopy, 2, 2);
        let copy = |value| vec![Sample::plain("copy", "ns a page", value)];
        results.add(&read, Who::Forebay, copy(300.0));
        results.add(&read, Who::Forebay, copy(330.0));
        results.add(&read, Who::Kernel, copy(600.0));
        let write = named_step(Phase::Stream, Load::WriteStream, 1, 1);
        let timed = Sample {
            percentiles: Some(Percentiles {
                p50: 12.5,
                p99: 40.0,
                p999: 1_250.0,
                max: 2_000.0,
            }),
            ..Sample::plain("write", "us", 15.0)
        };
        results.add(&write, Who::Kernel, vec![timed]);
        results
    }

    fn rendered() -> String {
        let heading = Heading {
            lines: vec!["machine".into()],
            phases: vec![
                (Phase::Hit, vec!["hit: reads".into()]),
                (Phase::Stream, vec!["stream: writes".into()]),
            ],
        };
        render(&heading, &results())
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
