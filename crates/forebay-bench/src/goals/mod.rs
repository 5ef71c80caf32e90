//! The goals: what the engine must reach in this bench, as ratios within one run where the machine
//! sets the scale. There is one table; the bench prints it with the measured values.

mod goal;
mod limit;
mod numbers;
mod table;

pub(crate) use goal::{Goal, goal};

use crate::contender::{Phase, Who};
use crate::results::Results;
use numbers::Numbers;
use std::fmt;
use table::{GOALS, Measure};

/// A goal with its measured values.
pub(crate) struct Verdict {
    goal: &'static Goal<Phase, Measure>,
    /// By contender; `None` if this run could not measure it.
    measured: [Option<f64>; 3],
}

/// Each goal with its verdict, in the order of the phases.
pub(crate) fn verdicts(results: &Results) -> Vec<Verdict> {
    GOALS
        .iter()
        .map(|goal| Verdict {
            goal,
            measured: Who::ALL.map(|who| (goal.measure)(&Numbers { results, who })),
        })
        .collect()
}

/// The headings of the verdicts' columns.
pub(crate) fn columns() -> String {
    format!(
        "  {:<10}{:<51}{:>13}  {:<17}{:<13}{:>11}{:>11}",
        "", "", "forebay", "goal", "", "kernel", "floor"
    )
}

impl Verdict {
    /// The verdict on the goal for Forebay, in one word.
    fn word(&self) -> &'static str {
        self.goal.limit.verdict(self.measured[0])
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.word();
        let [forebay, kernel, floor] = self.measured.map(|measured| match measured {
            Some(number) => format!("{number:.2}"),
            None => "-".to_owned(),
        });
        let (phase, text, unit) = (self.goal.part.name(), self.goal.text, self.goal.unit);
        let ours = match self.measured[0] {
            Some(_) => format!("{forebay} {unit}"),
            None => forebay,
        };
        let goal = self.goal.limit.to_string();
        write!(
            f,
            "  {phase:<10}{text:<51}{ours:>13}  {goal:<17}{verdict:<13}{kernel:>11}{floor:>11}"
        )
    }
}

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
