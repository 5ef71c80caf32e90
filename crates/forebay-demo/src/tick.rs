//! A contender's task, and the record of its run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The storage that a contender writes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Storage {
    /// A file that Forebay writes through a store held to the rate.
    File(PathBuf),
    /// A device that the kernel holds to the rate.
    Device(PathBuf),
}

/// The task of a contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) storage: Storage,
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes_per_s: u64,
    pub(super) file_bytes: u64,
    pub(super) seconds: u32,
}

/// The message that a contender sends at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ended {
    Well(Summary),
    Failed(String),
}

/// The figures of a tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tick {
    pub(super) at_s: f64,
    /// Writes that ended in this tick, and the longest of them.
    pub(super) writes: u64,
    pub(super) longest_ms: f64,
    /// The dirty level, if it is known.
    pub(super) dirty_mib: Option<f64>,
    /// The setpoint of the dirty level, if there is one.
    pub(super) setpoint_mib: Option<f64>,
    /// Pauses of writers in this tick, if they are counted.
    pub(super) pauses: Option<u64>,
}

/// The whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) writes: u64,
    pub(super) mb_per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) longest_ms: f64,
}

/// Everything known about a contender's run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) ticks: Vec<Tick>,
    pub(super) summary: Summary,
}

impl Record {
    /// The summary line at the end.
    pub(super) fn summary_line(&self) -> String {
        let summary = &self.summary;
        let levels = self.ticks.iter().filter_map(|tick| tick.dirty_mib);
        let dirty = match levels.reduce(f64::max) {
            Some(most_mib) => format!("; at most {most_mib:.0} MiB dirty"),
            None => String::new(),
        };
        let pauses: u64 = self.ticks.iter().filter_map(|tick| tick.pauses).sum();
        let pauses = match self.ticks.last() {
            Some(tick) if tick.pauses.is_some() => format!(", {pauses} pauses"),
            _ => String::new(),
        };
        format!(
            "{:8} {:5.1} MB/s accepted; a write p50 {:.1} ms, p99 {:.1}, longest \
             {:.0}{dirty}{pauses}",
            self.name, summary.mb_per_s, summary.p50_ms, summary.p99_ms, summary.longest_ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_line_shows_what_was_seen() {
        let tick = Tick {
            dirty_mib: Some(43.6),
            pauses: Some(7),
            ..Tick::default()
        };
        let record = Record {
            name: "forebay".into(),
            ticks: vec![tick, tick],
            summary: Summary {
                writes: 9,
                mb_per_s: 30.04,
                p50_ms: 8.72,
                p99_ms: 10.9,
                longest_ms: 45.6,
            },
        };
        assert_eq!(
            record.summary_line(),
            "forebay   30.0 MB/s accepted; a write p50 8.7 ms, p99 10.9, longest 46; at most 44 \
             MiB dirty, 14 pauses"
        );
    }

    #[test]
    fn an_unknown_level_is_left_out() {
        let record = Record {
            name: "kernel".into(),
            ticks: vec![Tick::default()],
            summary: Summary::default(),
        };
        let line = record.summary_line();
        assert!(line.ends_with("longest 0"), "{line}");
    }
}
