//! The goals of the bench of the fronts.

use super::numbers::{DEEP, FOUR, Numbers, ONE, TWO, named};
use super::{Goal, goal};
use crate::contender::Concurrency;
use crate::contender::Phase::{Files, Mount, Nbd};
use crate::contender::Who;

/// Names of metrics, which goals use to find them.
pub(crate) mod metric {
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

fn nbd_over(n: &Numbers<'_>, metric: &str, load: Concurrency, other: Who) -> Option<f64> {
    n.over(other, &named(Nbd, metric, load))
}

fn files_over_bindfs(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    n.over(Who::Bindfs, &named(Files, metric, ONE))
}

pub(crate) const GOALS: &[Goal] = &[
    goal(
        Nbd,
        "cached reads, depth 32, against nbdkit's memory plugin",
    )
    .at_least(1.0, "x", |n| nbd_over(n, metric::READ, DEEP, Who::Nbdkit)),
    goal(Nbd, "cached reads, depth 1, against nbdkit's memory plugin")
        .at_least(1.0, "x", |n| nbd_over(n, metric::READ, ONE, Who::Nbdkit)),
    goal(Nbd, "cached reads, depth 32, against qemu-nbd, writeback")
        .at_least(2.0, "x", |n| nbd_over(n, metric::READ, DEEP, Who::QemuNbd)),
    goal(Nbd, "cached reads, depth 1, against qemu-nbd, writeback")
        .at_least(2.0, "x", |n| nbd_over(n, metric::READ, ONE, Who::QemuNbd)),
    goal(Nbd, "writes, depth 32, against nbdkit's memory plugin")
        .at_least(0.9, "x", |n| nbd_over(n, metric::WRITE, DEEP, Who::Nbdkit)),
    goal(Nbd, "writes, depth 1, against nbdkit's memory plugin")
        .at_least(0.9, "x", |n| nbd_over(n, metric::WRITE, ONE, Who::Nbdkit)),
    goal(
        Nbd,
        "a flush after each write, 1 client, against nbdkit's file",
    )
    .at_least(1.0, "x", |n| nbd_over(n, metric::FLUSHED, ONE, Who::Nbdkit)),
    goal(
        Nbd,
        "a flush after each write, 4 clients, against nbdkit's file",
    )
    .at_least(1.0, "x", |n| {
        nbd_over(n, metric::FLUSHED, FOUR, Who::Nbdkit)
    }),
    goal(Nbd, "writes under pressure, depth 32, p99.9 over p50").at_most(10.0, "x", |n| {
        let latency = n.percentiles(Nbd, metric::PRESSURE, DEEP)?;
        Some(latency.p999 / latency.p50)
    }),
    goal(Nbd, "writes under pressure, longest time without progress")
        .at_most(1_000.0, "ms", |n| n.own(Nbd, metric::GAP, DEEP)),
    goal(
        Nbd,
        "processor time when nothing is asked or dirty, a second",
    )
    .at_most(0.0, "us", |n| n.own(Nbd, metric::IDLE, ONE)),
    goal(
        Mount,
        "cached reads, 1 job, against a mount that does nothing",
    )
    .at_least(0.9, "x", |n| {
        n.over(Who::Floor, &named(Mount, metric::READ, ONE))
    }),
    goal(
        Mount,
        "cached reads, 2 jobs, against a mount that does nothing",
    )
    .at_least(0.9, "x", |n| {
        n.over(Who::Floor, &named(Mount, metric::READ, TWO))
    }),
    goal(Mount, "writes in order with fsync, against the device").at_least(0.9, "x", |n| {
        n.over(Who::Device, &named(Mount, metric::SEQUENTIAL, ONE))
    }),
    goal(
        Mount,
        "processor time when nothing is asked or dirty, a second",
    )
    .at_most(0.0, "us", |n| n.own(Mount, metric::IDLE, ONE)),
    goal(Files, "create + write + close, against bindfs")
        .at_least(0.83, "x", |n| files_over_bindfs(n, metric::MAKE)),
    goal(Files, "open + read + close, against bindfs")
        .at_least(1.0, "x", |n| files_over_bindfs(n, metric::OPEN)),
    goal(Files, "remove all, against bindfs")
        .at_least(0.83, "x", |n| files_over_bindfs(n, metric::REMOVE)),
    goal(Files, "tar x, time against bindfs")
        .at_most(1.2, "x", |n| files_over_bindfs(n, metric::EXTRACT)),
    goal(Files, "rm -r, time against bindfs")
        .at_most(1.2, "x", |n| files_over_bindfs(n, metric::RM)),
    goal(Files, "git status a second later, time against bindfs")
        .at_most(1.2, "x", |n| files_over_bindfs(n, metric::STATUS)),
    goal(Files, "git status once more, time against bindfs")
        .at_most(1.2, "x", |n| files_over_bindfs(n, metric::STATUS_AGAIN)),
];
