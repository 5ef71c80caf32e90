//! The table of goals.

use super::limit::Limit;
use super::numbers::{DEEP, FOUR, Numbers, ONE, SIXTEEN, least_of, most_of, worse};
use crate::contender::{Percentiles, Phase, Who};

/// One goal.
pub(super) struct Goal {
    pub(super) phase: Phase,
    pub(super) text: &'static str,
    pub(super) unit: &'static str,
    pub(super) limit: Limit,
    /// The same for any contender, if it is meaningful for it.
    pub(super) measure: fn(&Numbers<'_>) -> Option<f64>,
}

pub(super) const GOALS: &[Goal] = &[
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
    Goal {
        phase: Phase::Order,
        text: "by 4 KiB, against the kernel, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(1.0),
        measure: |n| order_over_kernel(n, "rate, 4 KiB a call"),
    },
    Goal {
        phase: Phase::Order,
        text: "by 4 KiB, against the raw rate, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| order_over_floor(n, "rate, 4 KiB a call"),
    },
    Goal {
        phase: Phase::Order,
        text: "by 64 KiB, against the kernel, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(1.0),
        measure: |n| order_over_kernel(n, "rate, 64 KiB a call"),
    },
    Goal {
        phase: Phase::Order,
        text: "by 64 KiB, against the raw rate, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| order_over_floor(n, "rate, 64 KiB a call"),
    },
    Goal {
        phase: Phase::Order,
        text: "by 1 MiB, against the kernel, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(1.0),
        measure: |n| order_over_kernel(n, "rate, 1 MiB a call"),
    },
    Goal {
        phase: Phase::Order,
        text: "by 1 MiB, against the raw rate, 1 or 4 readers",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| order_over_floor(n, "rate, 1 MiB a call"),
    },
    Goal {
        phase: Phase::Mixed,
        text: "reads, against the kernel, 1, 4 or 16 threads",
        unit: "x",
        limit: Limit::AtLeast(1.1),
        measure: |n| mixed_over_kernel(n, "read rate"),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99 of reads, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "read", |p| p.p99),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99.9 of reads, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "read", |p| p.p999),
    },
    Goal {
        phase: Phase::Mixed,
        text: "overwrites, against the kernel, 1, 4 or 16 threads",
        unit: "x",
        limit: Limit::AtLeast(1.1),
        measure: |n| mixed_over_kernel(n, "overwrite rate"),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99 of overwrites, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "overwrite", |p| p.p99),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99.9 of overwrites, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "overwrite", |p| p.p999),
    },
    Goal {
        phase: Phase::Mixed,
        text: "70/30, against the kernel, 1, 4 or 16 threads",
        unit: "x",
        limit: Limit::AtLeast(1.1),
        measure: |n| mixed_over_kernel(n, "70/30 rate"),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99 of 70/30, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "70/30", |p| p.p99),
    },
    Goal {
        phase: Phase::Mixed,
        text: "p99.9 of 70/30, against the kernel",
        unit: "x",
        limit: Limit::AtMost(1.0),
        measure: |n| mixed_part(n, "70/30", |p| p.p999),
    },
    Goal {
        phase: Phase::Commit,
        text: "p50 of overwrites, 1 thread, against raw ones",
        unit: "x",
        limit: Limit::AtMost(1.1),
        measure: |n| n.part_over(Who::Floor, |p| p.p50, (Phase::Commit, "overwrite", ONE)),
    },
    Goal {
        phase: Phase::Commit,
        text: "sleeps of overwrites, 1 thread",
        unit: "a commit",
        limit: Limit::AtMost(3.0),
        measure: |n| n.own(Phase::Commit, "overwrite sleeps", ONE),
    },
    Goal {
        phase: Phase::Commit,
        text: "overwrites of 1 file, 4 or 16 threads, against raw",
        unit: "x",
        limit: Limit::AtLeast(1.2),
        measure: |n| commits_over_floor(n, "overwrite rate"),
    },
    Goal {
        phase: Phase::Commit,
        text: "overwrites of own files, 4 or 16, against raw",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| commits_over_floor(n, "overwrite rate, own files"),
    },
    Goal {
        phase: Phase::Commit,
        text: "p50 of appends, 1 thread, against raw ones",
        unit: "x",
        limit: Limit::AtMost(1.1),
        measure: |n| n.part_over(Who::Floor, |p| p.p50, (Phase::Commit, "append", ONE)),
    },
    Goal {
        phase: Phase::Commit,
        text: "sleeps of appends, 1 thread",
        unit: "a commit",
        limit: Limit::AtMost(3.0),
        measure: |n| n.own(Phase::Commit, "append sleeps", ONE),
    },
    Goal {
        phase: Phase::Commit,
        text: "appends of 1 file, 4 or 16 threads, against raw",
        unit: "x",
        limit: Limit::AtLeast(1.2),
        measure: |n| commits_over_floor(n, "append rate"),
    },
    Goal {
        phase: Phase::Commit,
        text: "appends of own files, 4 or 16, against raw",
        unit: "x",
        limit: Limit::AtLeast(0.95),
        measure: |n| commits_over_floor(n, "append rate, own files"),
    },
];

fn order_over_kernel(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR], |readers| {
        n.over_kernel(Phase::Order, metric, readers)
    })
}

fn order_over_floor(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR], |readers| {
        n.over_floor(Phase::Order, metric, readers)
    })
}

fn mixed_over_kernel(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR, SIXTEEN], |threads| {
        n.over_kernel(Phase::Mixed, metric, threads)
    })
}

fn mixed_part(n: &Numbers<'_>, metric: &str, of: fn(&Percentiles) -> f64) -> Option<f64> {
    most_of(&[ONE, FOUR, SIXTEEN], |threads| {
        n.part_over(Who::Kernel, of, (Phase::Mixed, metric, threads))
    })
}

fn commits_over_floor(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[FOUR, SIXTEEN], |threads| {
        n.over_floor(Phase::Commit, metric, threads)
    })
}
