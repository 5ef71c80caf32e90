//! What `forebay-lab reproduce` prints: each published figure beside ours, then the tests.

use super::figures::{Agreement, Figure, Values, agreement};
use super::judge::{Judgement, Verdict};
use super::plan::policy;
use super::{Change, Position};
use crate::report::table::{grid, number};
use serde::{Deserialize, Serialize};

/// All results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The published figures that the lab measures.
    pub figures: Vec<Figure>,
    /// The tests.
    pub judgements: Vec<Judgement>,
}

impl Findings {
    /// Only the results of `changes`.
    #[must_use]
    pub fn only(mut self, changes: &[Change]) -> Findings {
        let of_test = |test: &str| {
            changes
                .iter()
                .any(|change| test.starts_with(change.letter()))
        };
        self.figures
            .retain(|figure| changes.contains(&figure.change));
        self.judgements
            .retain(|judgement| of_test(&judgement.target.test));
        self
    }

    /// The required tests that do not hold, including those that could not be tested.
    pub fn required_unmet(&self) -> Vec<&str> {
        let unmet = |judgement: &&Judgement| {
            judgement.target.required && judgement.verdict != Verdict::Holds
        };
        let tests = self.judgements.iter().filter(unmet);
        tests
            .map(|judgement| judgement.target.test.as_str())
            .collect()
    }

    /// How many tests have a verdict, and of them the required ones.
    pub fn count(&self, verdict: Verdict) -> (usize, usize) {
        let same: Vec<&Judgement> = self
            .judgements
            .iter()
            .filter(|judgement| judgement.verdict == verdict)
            .collect();
        let required = same
            .iter()
            .filter(|judgement| judgement.target.required)
            .count();
        (same.len(), required)
    }

    /// How many figures agree: those of the authors, and all.
    pub fn agreements(&self) -> (Agreement, Agreement) {
        let of_authors = self.figures.iter().filter(|figure| figure.of_the_author);
        (agreement(of_authors), agreement(self.figures.iter()))
    }
}

/// Everything as text.
pub fn render(findings: &Findings) -> String {
    let mut text = String::new();
    for change in Change::ALL {
        let rows: Vec<&Figure> = findings
            .figures
            .iter()
            .filter(|figure| figure.change == change && figure.ours.is_some())
            .collect();
        if !rows.is_empty() {
            text.push_str(&of_change(change, &rows));
            text.push('\n');
        }
    }
    text.push_str("Tests\n");
    let mut lines = vec![test_head()];
    lines.extend(findings.judgements.iter().map(test_line));
    text.push_str(&grid(&lines, 3));
    text.push('\n');
    for line in summary(findings) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The totals, one sentence each.
pub fn summary(findings: &Findings) -> Vec<String> {
    let of = |verdict| {
        let (all, required) = findings.count(verdict);
        format!("{all} ({required} of the required)")
    };
    let (authors, all) = findings.agreements();
    let agree = |agreement: Agreement, whose: &str| {
        format!(
            "{whose}: {} compared, ratio after / before within a factor of 2 in {}, change in \
             percent within a factor of 2 in {}",
            agreement.compared, agreement.ratio_within_2, agreement.change_within_2
        )
    };
    let mut lines = vec![
        format!(
            "{} tests: {} hold, {} do not, {} not tested",
            findings.judgements.len(),
            of(Verdict::Holds),
            of(Verdict::Fails),
            of(Verdict::NotTested)
        ),
        agree(authors, "figures of the authors"),
        agree(all, "with those published around them"),
    ];
    let unmet = findings.required_unmet();
    if !unmet.is_empty() {
        lines.push(format!("required and not shown: {}", unmet.join(", ")));
    }
    lines
}

/// The head of the table of figures.
pub fn figure_head() -> Vec<String> {
    [
        "row",
        "cell",
        "figure",
        "after is",
        "unit",
        "published",
        "",
        "",
        "ours",
        "",
        "",
        "factor 2",
    ]
    .map(String::from)
    .into()
}

/// One published figure beside ours.
pub fn figure_line(figure: &Figure) -> Vec<String> {
    let values = |values: Option<Values>| {
        let text = |value: Option<f64>| value.map_or_else(|| "-".into(), number);
        let values = values.unwrap_or_default();
        let change = values
            .change_percent
            .map(|percent| format!("{percent:+.1}%"));
        [
            text(values.before),
            text(values.after),
            change.unwrap_or_else(|| "-".into()),
        ]
    };
    let within = match (figure.ratio_within_2(), figure.change_within_2()) {
        (Some(true), Some(true)) => "ratio, change",
        (Some(true), _) => "ratio",
        (Some(false), _) => "no",
        (None, _) => "",
    };
    let mut line = vec![
        figure.id.clone(),
        figure.cell.clone(),
        figure.metric.clone(),
        figure.position.word().into(),
        figure.unit.clone(),
    ];
    line.extend(values(Some(figure.published)));
    line.extend(values(figure.ours));
    line.push(within.into());
    line
}

/// The head of the table of tests.
pub fn test_head() -> Vec<String> {
    [
        "test", "verdict", "claim", "form", "accepted", "original", "ours", "cells", "remark",
    ]
    .map(String::from)
    .into()
}

/// One test with what was found.
pub fn test_line(judgement: &Judgement) -> Vec<String> {
    let target = &judgement.target;
    let form = serde_json::to_value(target.form);
    let form = form.ok().and_then(|form| form.as_str().map(String::from));
    let inside = judgement.found.iter().filter(|found| found.inside).count();
    let required = if target.required { "*" } else { "" };
    vec![
        format!("{}{required}", target.test),
        judgement.verdict.word().into(),
        format!("{} {}", target.metric, target.param).trim().into(),
        form.unwrap_or_default(),
        target.bounds(),
        target.original.clone(),
        found_text(judgement),
        match judgement.found.len() {
            0 => String::new(),
            all => format!("{inside}/{all}"),
        },
        judgement.remark.clone(),
    ]
}

/// The one value, or the smallest and the largest.
fn found_text(judgement: &Judgement) -> String {
    let values = || judgement.found.iter().map(|found| found.value);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    match judgement.found.len() {
        0 => "-".into(),
        1 => three_digits(least),
        _ => format!("{} to {}", three_digits(least), three_digits(most)),
    }
}

fn three_digits(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        format!("{value:.3}")
    } else {
        number(value)
    }
}

fn of_change(change: Change, rows: &[&Figure]) -> String {
    let policies = format!(
        "{}: before is {}, after is {}\n",
        change.name(),
        policy(change, Position::Before),
        policy(change, Position::After)
    );
    let mut lines = vec![figure_head()];
    lines.extend(rows.iter().map(|figure| figure_line(figure)));
    policies + &grid(&lines, 5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::reproduction::evidence::Evidence;
    use crate::reproduction::figures::figures;
    use crate::reproduction::judge::judge_all;

    fn findings() -> Findings {
        let mut evidence = Evidence::default();
        let figures_of = [
            (Position::Before, 900.0, 5e5),
            (Position::After, 600.0, 0.0),
        ];
        for (position, elapsed_s, writes) in figures_of {
            let mut run = Outcome {
                elapsed_s,
                ..Outcome::default()
            };
            run.figures.insert("nr_vmscan_write".into(), writes);
            evidence.add("copy/fuse-ntfs", position, run);
        }
        Findings {
            figures: figures(&evidence),
            judgements: judge_all(&evidence),
        }
    }

    #[test]
    fn a_published_figure_stands_beside_ours_and_each_test_has_its_verdict() {
        let text = render(&findings());
        let line = |start: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(start));
            lines
                .next()
                .unwrap_or_else(|| panic!("{start} in {text}"))
                .to_owned()
        };
        assert!(
            line("PZ-165").contains("-33.6%") && line("PZ-165").contains("-33.3%"),
            "{text}"
        );
        assert!(
            line("C2.1*").contains("holds") && line("C2.1*").contains("0.667"),
            "{text}"
        );
        assert!(line("B1.1*").contains("not tested"), "{text}");
        assert!(
            text.contains("89 tests: 3 (3 of the required) hold"),
            "{text}"
        );
    }

    #[test]
    fn one_change_alone_is_judged_alone() {
        let findings = findings().only(&[Change::PerZoneDirty]);
        assert_eq!(findings.judgements.len(), 14);
        assert_eq!(findings.required_unmet(), ["C3.1", "C3.2"]);
    }
}
