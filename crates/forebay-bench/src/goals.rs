//! The goals: what the engine has to reach in this bench, as ratios within one run where the
//! machine sets the scale. One table; the bench prints it with what was measured.

use crate::contender::{Percentiles, Phase, Who};
use crate::contenders::forebay::IDLE_WHILE_THROTTLED;
use crate::results::{Figure, Name, Results};
use std::fmt;

/// Which side of the limit is good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn is_met(self, measured: f64) -> bool {
        match self {
            Limit::AtMost(most) => measured <= most,
            Limit::AtLeast(least) => measured >= least,
        }
    }

    /// What became of a goal, in a word.
    pub(crate) fn verdict(self, measured: Option<f64>) -> &'static str {
        match measured.map(|measured| self.is_met(measured)) {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(most) => write!(f, "at most {most}"),
            Limit::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

/// One goal.
struct Goal {
    phase: Phase,
    text: &'static str,
    unit: &'static str,
    limit: Limit,
    /// The same of any contender, as far as it has a meaning for it.
    measure: fn(&Numbers<'_>) -> Option<f64>,
}

/// A goal with what was measured.
pub(crate) struct Verdict {
    goal: &'static Goal,
    /// By contender; nothing where this run could not measure it.
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
    /// What became of the goal for Forebay, in a word.
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
        let (phase, text, unit) = (self.goal.phase.name(), self.goal.text, self.goal.unit);
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

/// The results as one contender's goals ask for them.
struct Numbers<'a> {
    results: &'a Results,
    who: Who,
}

impl Numbers<'_> {
    fn figure_of(&self, who: Who, phase: Phase, metric: &str, load: (u32, u32)) -> Option<Figure> {
        let name = Name {
            phase,
            metric: metric.to_owned(),
            threads: load.0,
            depth: load.1,
        };
        self.results.find(&name, who)
    }

    fn figure(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<Figure> {
        self.figure_of(self.who, phase, metric, load)
    }

    /// The contender's own value.
    fn own(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        self.figure(phase, metric, load).map(|f| f.value)
    }

    /// The value of the floor.
    fn floor(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        self.figure_of(Who::Floor, phase, metric, load)
            .map(|f| f.value)
    }

    /// The contender's value over the floor's.
    fn over_floor(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        Some(self.own(phase, metric, load)? / self.floor(phase, metric, load)?)
    }

    /// How much more two threads do than one, from the time a page takes each.
    fn scaling(&self, phase: Phase, one: &str, two: &str) -> Option<f64> {
        Some(2.0 * self.own(phase, one, ONE)? / self.own(phase, two, TWO)?)
    }

    /// Percentiles of the contender's writes, in microseconds.
    fn write(&self, phase: Phase, writers: (u32, u32)) -> Option<Percentiles> {
        self.figure(phase, "write", writers)?.percentiles
    }

    /// The worst part of the throttled time in which the disk was idle, of the loads whose writers
    /// were throttled.
    fn idle_while_throttled(&self, phase: Phase, loads: &[(u32, u32)]) -> Option<f64> {
        let idle = |&load| self.own(phase, IDLE_WHILE_THROTTLED, load);
        loads.iter().filter_map(idle).reduce(f64::max)
    }

    /// The worst round of 1 and of 4 writers.
    fn longest_gap_ms(&self) -> Option<f64> {
        let of = |writers| Some(self.figure(Phase::Stream, "longest gap", writers)?.highest);
        worse(of(ONE), of(FOUR))
    }
}

const ONE: (u32, u32) = (1, 1);
const TWO: (u32, u32) = (2, 2);
const FOUR: (u32, u32) = (4, 4);
const DEEP: (u32, u32) = (1, 32);

/// The worse of two measured values where less is better.
fn worse(of_one: Option<f64>, of_four: Option<f64>) -> Option<f64> {
    Some(of_one?.max(of_four?))
}

const GOALS: &[Goal] = &[
    Goal {
        phase: Phase::Hit,
        text: "a copy, against the plain copy of a page",
        unit: "x",
        limit: Limit::AtMost(1.25),
        measure: |n| n.over_floor(Phase::Hit, "copy", ONE),
    },
    Goal {
        phase: Phase::Hit,
        text: "the kernel's pread, against a copy",
        unit: "x",
        limit: Limit::AtLeast(2.0),
        measure: |n| {
            let pread = n.figure_of(Who::Kernel, Phase::Hit, "copy", ONE)?.value;
            Some(pread / n.own(Phase::Hit, "copy", ONE)?)
        },
    },
    Goal {
        phase: Phase::Hit,
        text: "a page of a vectored read, against the plain copy",
        unit: "x",
        limit: Limit::AtMost(0.9),
        measure: |n| Some(n.own(Phase::Hit, "vectored", ONE)? / n.floor(Phase::Hit, "copy", ONE)?),
    },
    Goal {
        phase: Phase::Hit,
        text: "2 threads, against 1",
        unit: "x",
        limit: Limit::AtLeast(1.8),
        measure: |n| n.scaling(Phase::Hit, "copy", "copy"),
    },
    Goal {
        phase: Phase::Hit,
        text: "a guard, over touching the page by plain index",
        unit: "ns",
        limit: Limit::AtMost(25.0),
        measure: |n| Some(n.own(Phase::Hit, "guard", ONE)? - n.floor(Phase::Hit, "guard", ONE)?),
    },
    Goal {
        phase: Phase::Dirty,
        text: "an overwrite, against the plain copy of a page",
        unit: "x",
        limit: Limit::AtMost(1.4),
        measure: |n| n.over_floor(Phase::Dirty, "overwrite", ONE),
    },
    Goal {
        phase: Phase::Dirty,
        text: "2 threads on one file, against 1",
        unit: "x",
        limit: Limit::AtLeast(1.8),
        measure: |n| n.scaling(Phase::Dirty, "overwrite", "overwrite"),
    },
    Goal {
        phase: Phase::Dirty,
        text: "2 threads on a file each, against 1",
        unit: "x",
        limit: Limit::AtLeast(1.8),
        measure: |n| n.scaling(Phase::Dirty, "overwrite", "overwrite, own files"),
    },
    Goal {
        phase: Phase::Miss,
        text: "reads at depth 32, against raw O_DIRECT",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| n.over_floor(Phase::Miss, "rate", DEEP),
    },
    Goal {
        phase: Phase::Miss,
        text: "processor time of a miss at depth 32",
        unit: "us",
        limit: Limit::AtMost(5.0),
        measure: |n| n.own(Phase::Miss, "processor", DEEP),
    },
    Goal {
        phase: Phase::Stream,
        text: "1 writer, against the raw sequential rate",
        unit: "x",
        limit: Limit::AtLeast(0.97),
        measure: |n| n.over_floor(Phase::Stream, "rate", ONE),
    },
    Goal {
        phase: Phase::Stream,
        text: "4 writers, against the raw sequential rate",
        unit: "x",
        limit: Limit::AtLeast(0.97),
        measure: |n| n.over_floor(Phase::Stream, "rate", FOUR),
    },
    Goal {
        phase: Phase::Stream,
        text: "p99.9 of a write, against p50, 1 or 4 writers",
        unit: "x",
        limit: Limit::AtMost(4.0),
        measure: |n| {
            let of = |writers| {
                let write = n.write(Phase::Stream, writers)?;
                Some(write.p999 / write.p50)
            };
            worse(of(ONE), of(FOUR))
        },
    },
    Goal {
        phase: Phase::Stream,
        text: "the longest write, 1 or 4 writers",
        unit: "ms",
        limit: Limit::AtMost(200.0),
        measure: |n| {
            let of = |writers| Some(n.write(Phase::Stream, writers)?.max / 1e3);
            worse(of(ONE), of(FOUR))
        },
    },
    Goal {
        phase: Phase::Stream,
        text: "longest time without progress, 1 or 4 writers",
        unit: "ms",
        limit: Limit::AtMost(200.0),
        measure: |n| n.longest_gap_ms(),
    },
    Goal {
        phase: Phase::Stream,
        text: "disk idle while writers are throttled, 1 or 4",
        unit: "%",
        limit: Limit::AtMost(1.0),
        measure: |n| n.idle_while_throttled(Phase::Stream, &[ONE, FOUR]),
    },
    Goal {
        phase: Phase::Slow,
        text: "rate, against the disk's 30 MB/s",
        unit: "x",
        limit: Limit::AtLeast(0.97),
        measure: |n| n.own(Phase::Slow, "rate", FOUR).map(|rate| rate / 30.0),
    },
    Goal {
        phase: Phase::Slow,
        text: "p99.9 of a write",
        unit: "ms",
        limit: Limit::AtMost(50.0),
        measure: |n| Some(n.write(Phase::Slow, FOUR)?.p999 / 1e3),
    },
    Goal {
        phase: Phase::Slow,
        text: "the longest write",
        unit: "ms",
        limit: Limit::AtMost(200.0),
        measure: |n| Some(n.write(Phase::Slow, FOUR)?.max / 1e3),
    },
    Goal {
        phase: Phase::Slow,
        text: "mean dirty level, off the setpoint by",
        unit: "%",
        limit: Limit::AtMost(10.0),
        measure: |n| {
            let level = n.own(Phase::Slow, "mean dirty level", FOUR)?;
            let setpoint = n.own(Phase::Slow, "setpoint", FOUR)?;
            Some(100.0 * (level - setpoint).abs() / setpoint)
        },
    },
    Goal {
        phase: Phase::Slow,
        text: "farthest writer from the mean share",
        unit: "%",
        limit: Limit::AtMost(5.0),
        measure: |n| n.own(Phase::Slow, "farthest share from the mean", FOUR),
    },
    Goal {
        phase: Phase::Slow,
        text: "most above the hard limit, less writers x interval",
        unit: "pages",
        limit: Limit::AtMost(0.0),
        measure: |n| n.own(Phase::Slow, "most over the allowance", FOUR),
    },
    Goal {
        phase: Phase::Slow,
        text: "disk idle while writers are throttled",
        unit: "%",
        limit: Limit::AtMost(1.0),
        measure: |n| n.idle_while_throttled(Phase::Slow, &[FOUR]),
    },
    Goal {
        phase: Phase::Mix,
        text: "reader beside a writer, against alone",
        unit: "x",
        limit: Limit::AtLeast(0.85),
        measure: |n| {
            let alone = n.own(Phase::Mix, "reader rate, alone", ONE)?;
            Some(n.own(Phase::Mix, "reader rate, beside a writer", ONE)? / alone)
        },
    },
    Goal {
        phase: Phase::Mix,
        text: "hit ratio of the reader alone",
        unit: "%",
        limit: Limit::AtLeast(86.5),
        measure: |n| n.own(Phase::Mix, "hit ratio", ONE),
    },
    Goal {
        phase: Phase::Memory,
        text: "a page beside its 4 KiB, all in",
        unit: "bytes",
        limit: Limit::AtMost(64.0),
        measure: |n| n.own(Phase::Memory, "beside each page", ONE),
    },
    Goal {
        phase: Phase::Memory,
        text: "reclaim, for each page scanned",
        unit: "ns",
        limit: Limit::AtMost(30.0),
        measure: |n| n.own(Phase::Memory, "reclaim", ONE),
    },
];

#[cfg(test)]
#[path = "goals_tests.rs"]
mod tests;
