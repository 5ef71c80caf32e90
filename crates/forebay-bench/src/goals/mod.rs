//! The goals: what the engine and its fronts must reach in a bench, as ratios within one run where
//! the machine sets the scale. The bench prints its table of them with the measured values.

mod fronts;
mod library;
mod numbers;

pub(crate) use fronts::{GOALS as FRONTS, metric};
pub(crate) use library::GOALS as LIBRARY;

use crate::contender::{Phase, Who};
use crate::results::Results;
use numbers::Numbers;
use std::fmt;

/// How a goal is measured, for any contender for which it has a meaning.
type Measure = fn(&Numbers<'_>) -> Option<f64>;

/// A goal of a phase.
pub(crate) struct Goal {
    phase: Phase,
    text: &'static str,
    unit: &'static str,
    limit: Limit,
    measure: Measure,
}

/// What a goal is about. A limit makes it a goal.
struct About(Phase, &'static str);

/// What a goal is about.
const fn goal(phase: Phase, text: &'static str) -> About {
    About(phase, text)
}

impl About {
    const fn at_most(self, most: f64, unit: &'static str, measure: Measure) -> Goal {
        self.within(Limit::AtMost(most), unit, measure)
    }

    const fn at_least(self, least: f64, unit: &'static str, measure: Measure) -> Goal {
        self.within(Limit::AtLeast(least), unit, measure)
    }

    const fn within(self, limit: Limit, unit: &'static str, measure: Measure) -> Goal {
        Goal {
            phase: self.0,
            text: self.1,
            unit,
            limit,
            measure,
        }
    }
}

/// Which side of the limit is good.
#[derive(Clone, Copy, Debug)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(most) => write!(f, "at most {most}"),
            Limit::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

/// A goal with its measured values.
pub(crate) struct Verdict {
    goal: &'static Goal,
    /// By contender; `None` if this run could not measure it.
    measured: [Option<f64>; 3],
}

/// Each goal with its verdict, in the order of the phases.
pub(crate) fn verdicts(goals: &'static [Goal], results: &Results) -> Vec<Verdict> {
    let verdict = |goal: &'static Goal| Verdict {
        goal,
        measured: (goal.phase.contenders()).map(|who| (goal.measure)(&Numbers { results, who })),
    };
    goals.iter().map(verdict).collect()
}

impl Verdict {
    /// The headings of the columns.
    pub(crate) fn columns(&self) -> String {
        let [forebay, second, third] = self.goal.phase.contenders().map(Who::name);
        format!(
            "  {:<10}{:<59}{forebay:>13}  {:<17}{:<13}{second:>11}{third:>11}",
            "", "", "goal", ""
        )
    }

    /// The verdict on the goal for Forebay, in one word.
    fn word(&self) -> &'static str {
        let is_met = self.measured[0].map(|measured| match self.goal.limit {
            Limit::AtMost(most) => measured <= most,
            Limit::AtLeast(least) => measured >= least,
        });
        match is_met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.word();
        let [forebay, second, third] = self.measured.map(|measured| match measured {
            Some(number) => format!("{number:.2}"),
            None => "-".to_owned(),
        });
        let (phase, text, unit) = (self.goal.phase.name(), self.goal.text, self.goal.unit);
        let ours = match self.measured[0] {
            Some(_) => format!("{forebay} {unit}"),
            None => forebay,
        };
        let goal = self.goal.limit.to_string();
        write!(
            f,
            "  {phase:<10}{text:<59}{ours:>13}  {goal:<17}{verdict:<13}{second:>11}{third:>11}"
        )
    }
}

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
