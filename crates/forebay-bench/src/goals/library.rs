//! The goals of the bench of the library.

use super::numbers::{DEEP, FOUR, Numbers, ONE, SIXTEEN, least_of, most_of, named};
use super::{Goal, goal};
use crate::contender::Phase::{Commit, Dirty, Hit, Memory, Miss, Mix, Mixed, Order, Slow, Stream};
use crate::contender::{Percentiles, Who};

pub(crate) const GOALS: &[Goal] = &[
    goal(Hit, "a copy, against the plain copy of a page")
        .at_most(1.25, "x", |n| n.over_floor(Hit, "copy", ONE)),
    goal(Hit, "the kernel's pread, against a copy").at_least(2.0, "x", |n| {
        let pread = n.of(Who::Kernel, &named(Hit, "copy", ONE))?;
        Some(pread / n.own(Hit, "copy", ONE)?)
    }),
    goal(Hit, "a page of a vectored read, against the plain copy").at_most(0.9, "x", |n| {
        Some(n.own(Hit, "vectored", ONE)? / n.of(Who::Floor, &named(Hit, "copy", ONE))?)
    }),
    goal(Hit, "2 threads, against 1").at_least(1.8, "x", |n| n.scaling(Hit, "copy", "copy")),
    goal(Hit, "a guard, over touching the page by plain index").at_most(25.0, "ns", |n| {
        Some(n.own(Hit, "guard", ONE)? - n.of(Who::Floor, &named(Hit, "guard", ONE))?)
    }),
    goal(Dirty, "an overwrite, against the plain copy of a page")
        .at_most(1.4, "x", |n| n.over_floor(Dirty, "overwrite", ONE)),
    goal(Dirty, "2 threads on one file, against 1")
        .at_least(1.8, "x", |n| n.scaling(Dirty, "overwrite", "overwrite")),
    goal(Dirty, "2 threads on a file each, against 1").at_least(1.8, "x", |n| {
        n.scaling(Dirty, "overwrite", "overwrite, own files")
    }),
    goal(Miss, "reads at depth 32, against raw O_DIRECT")
        .at_least(0.95, "x", |n| n.over_floor(Miss, "rate", DEEP)),
    goal(Miss, "processor time of a miss at depth 32")
        .at_most(5.0, "us", |n| n.own(Miss, "processor", DEEP)),
    goal(Stream, "1 writer, against the raw sequential rate")
        .at_least(0.97, "x", |n| n.over_floor(Stream, "rate", ONE)),
    goal(Stream, "4 writers, against the raw sequential rate")
        .at_least(0.97, "x", |n| n.over_floor(Stream, "rate", FOUR)),
    goal(Stream, "p99.9 of a write, against p50, 1 or 4 writers").at_most(4.0, "x", |n| {
        most_of(&[ONE, FOUR], |writers| {
            let write = n.percentiles(Stream, "write", writers)?;
            Some(write.p999 / write.p50)
        })
    }),
    goal(Stream, "the longest write, 1 or 4 writers").at_most(200.0, "ms", |n| {
        most_of(&[ONE, FOUR], |writers| {
            Some(n.percentiles(Stream, "write", writers)?.max / 1e3)
        })
    }),
    goal(Stream, "longest time without progress, 1 or 4 writers")
        .at_most(200.0, "ms", |n| n.longest_gap_ms(Stream)),
    goal(Stream, "disk idle while writers are throttled, 1 or 4")
        .at_most(1.0, "%", |n| n.idle_while_throttled(Stream, &[ONE, FOUR])),
    goal(Slow, "rate, against the disk's 30 MB/s").at_least(0.97, "x", |n| {
        n.own(Slow, "rate", FOUR).map(|rate| rate / 30.0)
    }),
    goal(Slow, "p99.9 of a write").at_most(50.0, "ms", |n| {
        Some(n.percentiles(Slow, "write", FOUR)?.p999 / 1e3)
    }),
    goal(Slow, "the longest write").at_most(200.0, "ms", |n| {
        Some(n.percentiles(Slow, "write", FOUR)?.max / 1e3)
    }),
    goal(Slow, "mean dirty level, off the setpoint by").at_most(10.0, "%", |n| {
        let level = n.own(Slow, "mean dirty level", FOUR)?;
        let setpoint = n.own(Slow, "setpoint", FOUR)?;
        Some(100.0 * (level - setpoint).abs() / setpoint)
    }),
    goal(Slow, "farthest writer from the mean share").at_most(5.0, "%", |n| {
        n.own(Slow, "farthest share from the mean", FOUR)
    }),
    goal(Slow, "most above the hard limit, less writers x interval").at_most(0.0, "pages", |n| {
        n.own(Slow, "most over the allowance", FOUR)
    }),
    goal(Slow, "disk idle while writers are throttled")
        .at_most(1.0, "%", |n| n.idle_while_throttled(Slow, &[FOUR])),
    goal(Mix, "reader beside a writer, against alone").at_least(0.85, "x", |n| {
        let alone = n.own(Mix, "reader rate, alone", ONE)?;
        Some(n.own(Mix, "reader rate, beside a writer", ONE)? / alone)
    }),
    goal(Mix, "hit ratio of the reader alone")
        .at_least(86.5, "%", |n| n.own(Mix, "hit ratio", ONE)),
    goal(Memory, "a page beside its 4 KiB, all in")
        .at_most(64.0, "bytes", |n| n.own(Memory, "beside each page", ONE)),
    goal(Memory, "reclaim, for each page scanned")
        .at_most(30.0, "ns", |n| n.own(Memory, "reclaim", ONE)),
    goal(Order, "by 4 KiB, against the kernel, 1 or 4 readers")
        .at_least(1.0, "x", |n| order_over_kernel(n, "rate, 4 KiB a call")),
    goal(Order, "by 4 KiB, against the raw rate, 1 or 4 readers")
        .at_least(0.95, "x", |n| order_over_floor(n, "rate, 4 KiB a call")),
    goal(Order, "by 64 KiB, against the kernel, 1 or 4 readers")
        .at_least(1.0, "x", |n| order_over_kernel(n, "rate, 64 KiB a call")),
    goal(Order, "by 64 KiB, against the raw rate, 1 or 4 readers")
        .at_least(0.95, "x", |n| order_over_floor(n, "rate, 64 KiB a call")),
    goal(Order, "by 1 MiB, against the kernel, 1 or 4 readers")
        .at_least(1.0, "x", |n| order_over_kernel(n, "rate, 1 MiB a call")),
    goal(Order, "by 1 MiB, against the raw rate, 1 or 4 readers")
        .at_least(0.95, "x", |n| order_over_floor(n, "rate, 1 MiB a call")),
    goal(Mixed, "reads, against the kernel, 1, 4 or 16 threads")
        .at_least(1.1, "x", |n| mixed_over_kernel(n, "read rate")),
    goal(Mixed, "p99 of reads, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "read", |p| p.p99)),
    goal(Mixed, "p99.9 of reads, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "read", |p| p.p999)),
    goal(Mixed, "overwrites, against the kernel, 1, 4 or 16 threads")
        .at_least(1.1, "x", |n| mixed_over_kernel(n, "overwrite rate")),
    goal(Mixed, "p99 of overwrites, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "overwrite", |p| p.p99)),
    goal(Mixed, "p99.9 of overwrites, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "overwrite", |p| p.p999)),
    goal(Mixed, "70/30, against the kernel, 1, 4 or 16 threads")
        .at_least(1.1, "x", |n| mixed_over_kernel(n, "70/30 rate")),
    goal(Mixed, "p99 of 70/30, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "70/30", |p| p.p99)),
    goal(Mixed, "p99.9 of 70/30, against the kernel")
        .at_most(1.0, "x", |n| mixed_part(n, "70/30", |p| p.p999)),
    goal(Commit, "p50 of overwrites, 1 thread, against raw ones").at_most(1.1, "x", |n| {
        n.part_over(Who::Floor, |p| p.p50, &named(Commit, "overwrite", ONE))
    }),
    goal(Commit, "sleeps of overwrites, 1 thread")
        .at_most(3.0, "a commit", |n| n.own(Commit, "overwrite sleeps", ONE)),
    goal(Commit, "overwrites of 1 file, 4 or 16 threads, against raw")
        .at_least(1.2, "x", |n| commits_over_floor(n, "overwrite rate")),
    goal(Commit, "overwrites of own files, 4 or 16, against raw").at_least(0.95, "x", |n| {
        commits_over_floor(n, "overwrite rate, own files")
    }),
    goal(Commit, "p50 of appends, 1 thread, against raw ones").at_most(1.1, "x", |n| {
        n.part_over(Who::Floor, |p| p.p50, &named(Commit, "append", ONE))
    }),
    goal(Commit, "sleeps of appends, 1 thread")
        .at_most(3.0, "a commit", |n| n.own(Commit, "append sleeps", ONE)),
    goal(Commit, "appends of 1 file, 4 or 16 threads, against raw")
        .at_least(1.2, "x", |n| commits_over_floor(n, "append rate")),
    goal(Commit, "appends of own files, 4 or 16, against raw").at_least(0.95, "x", |n| {
        commits_over_floor(n, "append rate, own files")
    }),
];

fn order_over_kernel(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR], |readers| {
        n.over_kernel(Order, metric, readers)
    })
}

fn order_over_floor(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR], |readers| n.over_floor(Order, metric, readers))
}

fn mixed_over_kernel(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[ONE, FOUR, SIXTEEN], |threads| {
        n.over_kernel(Mixed, metric, threads)
    })
}

fn mixed_part(n: &Numbers<'_>, metric: &str, of: fn(&Percentiles) -> f64) -> Option<f64> {
    most_of(&[ONE, FOUR, SIXTEEN], |threads| {
        n.part_over(Who::Kernel, of, &named(Mixed, metric, threads))
    })
}

fn commits_over_floor(n: &Numbers<'_>, metric: &str) -> Option<f64> {
    least_of(&[FOUR, SIXTEEN], |threads| {
        n.over_floor(Commit, metric, threads)
    })
}
