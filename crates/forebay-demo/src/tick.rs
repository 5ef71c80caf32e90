//! A contender's task, and the record of its run.

use super::board::Shown;
use forebay_base::Span;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What stands between the load and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Forebay,
    /// A write-back cache that stops its writers at a limit.
    StopsAtLimit,
    /// Nothing: each call waits for the disk.
    Direct,
    /// The kernel's page cache, over a device that the kernel holds to the rate.
    Kernel,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Forebay => "Forebay",
            Kind::StopsAtLimit => "stops at limit",
            Kind::Direct => "direct I/O",
            Kind::Kernel => "kernel",
        }
    }
}

/// The task of a contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) kind: Kind,
    /// The file or the device.
    pub(super) path: PathBuf,
    pub(super) memory_bytes: u64,
    pub(super) dirty_bytes: u64,
    pub(super) disk_bytes_per_s: u64,
    pub(super) seconds: u32,
}

impl Assignment {
    /// When the writers begin.
    pub(super) fn flood(&self) -> Span {
        flood(self.seconds)
    }

    /// When the load ends.
    pub(super) fn end(&self) -> Span {
        Span::from_secs(self.seconds.into())
    }
}

/// When the writers begin in a run of `seconds`.
pub(super) fn flood(seconds: u32) -> Span {
    Span::from_millis(u64::from(seconds) * 250)
}

/// The message that a contender sends at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ended {
    Well(Summary),
    Failed(String),
}

/// The writes of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) mb_per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) longest_ms: f64,
}

/// The figures of a tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tick {
    pub(super) at_s: f64,
    pub(super) reads_per_s: f64,
    /// The longest write that ended in this tick, if one did.
    pub(super) longest_ms: Option<f64>,
}

impl Tick {
    /// Tick `number`, which lasted `tick_ms`.
    pub(super) fn new(number: u64, shown: Shown, tick_ms: u64) -> Tick {
        Tick {
            at_s: ((number + 1) * tick_ms) as f64 / 1e3,
            reads_per_s: (shown.reads * 1_000 / tick_ms) as f64,
            longest_ms: (shown.writes > 0).then_some(shown.longest_write_ns as f64 / 1e6),
        }
    }
}

/// Everything known about a contender's run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) ticks: Vec<Tick>,
    pub(super) summary: Summary,
}

impl Record {
    /// Mean rates of the reader, in reads per second: before the flood, and during it.
    pub(super) fn reader_rates(&self, flood_s: f64) -> (f64, f64) {
        let mean = |is_wanted: &dyn Fn(f64) -> bool| {
            let rates = self.ticks.iter().filter(|tick| is_wanted(tick.at_s));
            let rates: Vec<f64> = rates.map(|tick| tick.reads_per_s).collect();
            rates.iter().sum::<f64>() / rates.len().max(1) as f64
        };
        // The tick in which the flood begins belongs to neither.
        (
            mean(&|at_s| at_s <= flood_s),
            mean(&|at_s| at_s > flood_s + 0.15),
        )
    }

    /// The summary line at the end.
    pub(super) fn summary_line(&self, flood_s: f64) -> String {
        let (before, during) = self.reader_rates(flood_s);
        let Summary {
            mb_per_s,
            p50_ms,
            p99_ms,
            longest_ms,
        } = self.summary;
        format!(
            "{:15}  {before:7.0}  {during:12.0}  {longest_ms:6.0} ms  {p99_ms:6.1} ms {p50_ms:6.1} ms \
             {mb_per_s:5.1} MB/s",
            self.kind.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_has_a_rate_before_the_flood_and_one_during_it() {
        let tick = |tenth: u32, reads_per_s| Tick {
            at_s: f64::from(tenth) / 10.0,
            reads_per_s,
            longest_ms: None,
        };
        let ticks = vec![
            tick(1, 900.0),
            tick(2, 1_100.0),
            tick(3, 500.0),
            tick(4, 100.0),
        ];
        let record = Record {
            kind: Kind::Direct,
            ticks,
            summary: Summary {
                mb_per_s: 30.04,
                p50_ms: 8.72,
                p99_ms: 10.9,
                longest_ms: 45.6,
            },
        };
        assert_eq!(record.reader_rates(0.2), (1_000.0, 100.0));
        let line = record.summary_line(0.2);
        assert!(line.contains("1000           100      46 ms"), "{line}");
    }

    #[test]
    fn a_tick_in_which_no_write_ended_has_no_longest_write() {
        let shown = Shown {
            reads: 50,
            ..Shown::default()
        };
        let tick = Tick::new(3, shown, 100);
        assert_eq!(
            (tick.at_s, tick.reads_per_s, tick.longest_ms),
            (0.4, 500.0, None)
        );
    }
}
