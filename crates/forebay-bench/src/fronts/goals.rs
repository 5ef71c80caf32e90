//! What the fronts must reach, as ratios within one run where the machine sets the scale.

use super::results::Front::{self, Files, Mount, Nbd};
use super::results::{Figure, Results, Who};
use crate::goals::{Goal, goal};
use std::fmt;

/// How a goal is measured.
type Measure = fn(&Results) -> Option<f64>;

/// A goal and its measured value, if there is one.
pub(super) struct Verdict {
    goal: &'static Goal<Front, Measure>,
    measured: Option<f64>,
}

/// Each goal with its verdict.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    GOALS
        .iter()
        .map(|goal| Verdict {
            goal,
            measured: (goal.measure)(results),
        })
        .collect()
}

impl Verdict {
    /// The verdict in one word.
    fn word(&self) -> &'static str {
        self.goal.limit.verdict(self.measured)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = match self.measured {
            Some(number) => format!("{number:.2} {}", self.goal.unit),
            None => "-".to_owned(),
        };
        let (front, text, word) = (self.goal.part.name(), self.goal.text, self.word());
        let goal = self.goal.limit.to_string();
        write!(f, "  {front:<10}{text:<57}{measured:>13}  {goal:<17}{word}")
    }
}

const DEEP: (u32, u32) = (1, 32);
const ONE: (u32, u32) = (1, 1);
const TWO: (u32, u32) = (2, 1);
const FOUR: (u32, u32) = (4, 1);

/// Names of metrics, which goals use to find them.
pub(super) mod metric {
    pub(crate) const READ: &str = "read of cached 4 KiB";
    pub(crate) const WRITE: &str = "write of 4 KiB";
    pub(crate) const FLUSHED: &str = "write of 4 KiB and a flush";
    pub(crate) const PRESSURE: &str = "write of 4 KiB, four times the memory";
    pub(crate) const GAP: &str = "longest time without progress";
    pub(crate) const IDLE: &str = "processor time in an idle second";
    pub(crate) const SEQUENTIAL: &str = "write in order, fsync counted in";
    pub(crate) const MAKE: &str = "create + write + close";
    pub(crate) const OPEN: &str = "open + read + close";
    pub(crate) const REMOVE: &str = "remove all";
    pub(crate) const EXTRACT: &str = "tar x";
    pub(crate) const RM: &str = "rm -r";
    pub(crate) const STATUS: &str = "git status, a second later";
    pub(crate) const STATUS_AGAIN: &str = "git status, once more";
}

/// The value of Forebay divided by that of `other`.
fn over(
    results: &Results,
    front: Front,
    metric: &str,
    load: (u32, u32),
    other: Who,
) -> Option<f64> {
    let of = |who| results.find(front, metric, load, who);
    Some(of(Who::Forebay)?.value / of(other)?.value)
}

fn nbd_over(results: &Results, metric: &str, load: (u32, u32), other: Who) -> Option<f64> {
    over(results, Nbd, metric, load, other)
}

fn files_over_bindfs(results: &Results, metric: &str) -> Option<f64> {
    over(results, Files, metric, ONE, Who::Bindfs)
}

fn own(results: &Results, front: Front, metric: &str, load: (u32, u32)) -> Option<Figure> {
    results.find(front, metric, load, Who::Forebay)
}

const GOALS: &[Goal<Front, Measure>] = &[
    goal(
        Nbd,
        "cached reads, depth 32, against nbdkit's memory plugin",
    )
    .at_least(1.0, "x", |r| nbd_over(r, metric::READ, DEEP, Who::Nbdkit)),
    goal(Nbd, "cached reads, depth 1, against nbdkit's memory plugin")
        .at_least(1.0, "x", |r| nbd_over(r, metric::READ, ONE, Who::Nbdkit)),
    goal(Nbd, "cached reads, depth 32, against qemu-nbd, writeback")
        .at_least(2.0, "x", |r| nbd_over(r, metric::READ, DEEP, Who::QemuNbd)),
    goal(Nbd, "cached reads, depth 1, against qemu-nbd, writeback")
        .at_least(2.0, "x", |r| nbd_over(r, metric::READ, ONE, Who::QemuNbd)),
    goal(Nbd, "writes, depth 32, against nbdkit's memory plugin")
        .at_least(0.9, "x", |r| nbd_over(r, metric::WRITE, DEEP, Who::Nbdkit)),
    goal(Nbd, "writes, depth 1, against nbdkit's memory plugin")
        .at_least(0.9, "x", |r| nbd_over(r, metric::WRITE, ONE, Who::Nbdkit)),
    goal(
        Nbd,
        "a flush after each write, 1 client, against nbdkit's file",
    )
    .at_least(1.0, "x", |r| nbd_over(r, metric::FLUSHED, ONE, Who::Nbdkit)),
    goal(
        Nbd,
        "a flush after each write, 4 clients, against nbdkit's file",
    )
    .at_least(1.0, "x", |r| {
        nbd_over(r, metric::FLUSHED, FOUR, Who::Nbdkit)
    }),
    goal(Nbd, "writes under pressure, depth 32, p99.9 over p50").at_most(10.0, "x", |r| {
        let latency = own(r, Nbd, metric::PRESSURE, DEEP)?.latency_us?;
        Some(latency.p999 / latency.p50)
    }),
    goal(Nbd, "writes under pressure, longest time without progress").at_most(1_000.0, "ms", |r| {
        Some(own(r, Nbd, metric::GAP, DEEP)?.value)
    }),
    goal(
        Nbd,
        "processor time when nothing is asked or dirty, a second",
    )
    .at_most(0.0, "us", |r| Some(own(r, Nbd, metric::IDLE, ONE)?.value)),
    goal(
        Mount,
        "cached reads, 1 job, against a mount that does nothing",
    )
    .at_least(0.9, "x", |r| over(r, Mount, metric::READ, ONE, Who::Floor)),
    goal(
        Mount,
        "cached reads, 2 jobs, against a mount that does nothing",
    )
    .at_least(0.9, "x", |r| over(r, Mount, metric::READ, TWO, Who::Floor)),
    goal(Mount, "writes in order with fsync, against the device").at_least(0.9, "x", |r| {
        over(r, Mount, metric::SEQUENTIAL, ONE, Who::Device)
    }),
    goal(
        Mount,
        "processor time when nothing is asked or dirty, a second",
    )
    .at_most(0.0, "us", |r| Some(own(r, Mount, metric::IDLE, ONE)?.value)),
    goal(Files, "create + write + close, against bindfs")
        .at_least(0.83, "x", |r| files_over_bindfs(r, metric::MAKE)),
    goal(Files, "open + read + close, against bindfs")
        .at_least(1.0, "x", |r| files_over_bindfs(r, metric::OPEN)),
    goal(Files, "remove all, against bindfs")
        .at_least(0.83, "x", |r| files_over_bindfs(r, metric::REMOVE)),
    goal(Files, "tar x, time against bindfs")
        .at_most(1.2, "x", |r| files_over_bindfs(r, metric::EXTRACT)),
    goal(Files, "rm -r, time against bindfs")
        .at_most(1.2, "x", |r| files_over_bindfs(r, metric::RM)),
    goal(Files, "git status a second later, time against bindfs")
        .at_most(1.2, "x", |r| files_over_bindfs(r, metric::STATUS)),
    goal(Files, "git status once more, time against bindfs")
        .at_most(1.2, "x", |r| files_over_bindfs(r, metric::STATUS_AGAIN)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fronts::results::tests::{named, sample};

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let mut results = Results::default();
        results.add(named(metric::READ, DEEP), Who::Forebay, sample(150.0));
        results.add(named(metric::READ, DEEP), Who::Nbdkit, sample(100.0));
        results.add(named(metric::READ, DEEP), Who::QemuNbd, sample(100.0));
        let words: Vec<&str> = verdicts(&results).iter().map(Verdict::word).collect();
        assert_eq!(words[..3], ["met", "not measured", "MISSED"]);
        assert!(words[3..].iter().all(|word| *word == "not measured"));
        let line = verdicts(&results)[0].to_string();
        assert!(
            line.contains("1.50 x") && line.contains("at least 1"),
            "{line}"
        );
    }
}
