//! What a scenario expects of a run, in the terms of control: settling, overshoot, bounds, shares.

mod blames;
mod drain;
mod judge;
mod text;

pub(crate) use judge::judge;
pub(crate) use text::{ExpectationText, Names};

use blames::Blames;
use std::fmt;

/// What the rates of a group's processes are called, one a process; `bytes_per_s` is their sum.
pub(crate) const RATE_OF_EACH: &str = "per_process_bytes_per_s";

/// One expectation, checked.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    term: Term,
    /// The part of the run in which it is judged.
    window: Window,
}

/// A part of a run, seconds from its start.
#[derive(Clone, Copy, Debug)]
struct Window {
    from_s: f64,
    until_s: f64,
}

/// What is expected.
#[derive(Clone, Debug)]
enum Term {
    /// From some time before `by_s` on the level stays near a target.
    Settles {
        of: Level,
        near: Level,
        within_percent: f64,
        by_s: f64,
        smoothed_s: f64,
    },
    /// The level never exceeds a bound by more than this.
    Overshoots {
        of: Level,
        over: Level,
        at_most_percent: f64,
    },
    /// The level never exceeds a bound.
    NeverAbove { of: Level, limit: Level },
    /// The level never falls below a bound.
    NeverBelow { of: Level, limit: Level },
    /// The mean of the level.
    Mean { of: Level, bounds: Bounds<Level> },
    /// Each process's share of what its group moved.
    Shares { of: String, within_percent: f64 },
    /// A figure or a counter of the whole run.
    Figure { of: String, bounds: Bounds<f64> },
    /// A percentile of a distribution, ms.
    Latency {
        of: String,
        percentile: f64,
        bounds: Bounds<f64>,
    },
    /// What is dirty of a store is written within this time.
    Drain {
        of: String,
        at_most_s: f64,
        percent: f64,
    },
    /// No byte of it is older than this and not durable.
    Oldest { of: String, at_most_s: f64 },
    /// Who or what is to blame for a process's waits.
    Blames(Blames),
}

/// What a value lies between.
#[derive(Clone, Debug)]
struct Bounds<T> {
    at_least: Option<T>,
    at_most: Option<T>,
}

/// A sum of columns of the series, or a number.
#[derive(Clone, Debug)]
enum Level {
    Number(f64),
    Columns(Vec<String>),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Number(number) => write!(f, "{number}"),
            Level::Columns(columns) => f.write_str(&columns.join(" + ")),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Bounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.at_least, &self.at_most) {
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("anything"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Settles {
                of,
                near,
                within_percent,
                by_s,
                smoothed_s,
            } => write!(
                f,
                "{of} settles within {within_percent} percent of {near} by {by_s} s (means over \
                 {smoothed_s} s)"
            )?,
            Term::Overshoots {
                of,
                over,
                at_most_percent,
            } => write!(
                f,
                "{of} overshoots {over} by at most {at_most_percent} percent"
            )?,
            Term::NeverAbove { of, limit } => write!(f, "{of} is never above {limit}")?,
            Term::NeverBelow { of, limit } => write!(f, "{of} is never below {limit}")?,
            Term::Mean { of, bounds } => write!(f, "the mean of {of} is {bounds}")?,
            Term::Shares { of, within_percent } => {
                return write!(
                    f,
                    "each of {of} moves as much as the others, within {within_percent} percent"
                );
            }
            Term::Figure { of, bounds } => return write!(f, "{of} is {bounds}"),
            Term::Latency {
                of,
                percentile,
                bounds,
            } => return write!(f, "percentile {percentile} of {of} is {bounds} ms"),
            Term::Drain {
                of,
                at_most_s,
                percent,
            } => write!(
                f,
                "what is dirty of {of} is written within {at_most_s} s, in {percent} percent of \
                 the samples"
            )?,
            Term::Oldest { of, at_most_s } => {
                write!(
                    f,
                    "no byte of {of} is older than {at_most_s} s and not durable"
                )?;
            }
            Term::Blames(blames) => return write!(f, "{blames}"),
        }
        write!(f, ", {} to {} s", self.window.from_s, self.window.until_s)
    }
}
