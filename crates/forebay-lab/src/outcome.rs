//! What a run leaves behind: the plain values from which tables, pictures and judgements are made.
//!
//! Nothing here depends on the engine. A run fills an [`Outcome`]; a report reads it; JSON carries
//! it between programs. Names of figures are those of the `metric` column of the published tables
//! (`elapsed`, `page_writes_file`, `write_latency_p99`), so that a row of such a table finds ours.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One workload on one machine under one policy with one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was run, enough to run it again.
    pub setting: Setting,
    /// Simulated seconds from the first process's start to the last foreground exit.
    pub elapsed_s: f64,
    /// Processor time of user code, seconds, summed over processors; 0 in real time.
    pub user_s: f64,
    /// Processor time of everything else, seconds, summed over processors; 0 in real time.
    pub system_s: f64,
    /// Counters named as in /proc/vmstat: the difference over the run.
    pub counters: BTreeMap<String, u64>,
    /// Derived figures by metric name; the unit is that of the published tables.
    pub figures: BTreeMap<String, f64>,
    /// Repeated measurements in the order in which they were made: a value an iteration, a worker.
    pub samples: BTreeMap<String, Samples>,
    /// Distributions: pauses, latencies.
    pub distributions: BTreeMap<String, Distribution>,
    /// Waits in reclaim, by who waited, why and how long.
    pub stalls: Vec<Stall>,
    /// Callers that waited, and who or what is to blame, the longest wait first.
    #[serde(default)]
    pub waited: Vec<Waited>,
    /// Levels and rates over time.
    pub series: Series,
    /// What each device did.
    pub devices: Vec<DeviceRecord>,
    /// Expectations of a scenario and whether they held; empty elsewhere.
    pub expectations: Vec<ExpectationResult>,
    /// Whether it ran on real files in real time: then neither the order of its events nor the work
    /// of processors is known.
    #[serde(default)]
    pub in_real_time: bool,
    /// Hash over every event in order: two runs with one seed end with the same. 0 in real time.
    pub trace_hash: u64,
    /// What the simulation cost.
    pub cost: SimulationCost,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// A workload's name, or a scenario's.
    pub workload: String,
    /// A machine's name.
    pub machine: String,
    /// A policy's name.
    pub policy: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// Knobs that differ from the machine's and workload's own, by name.
    pub knobs: BTreeMap<String, String>,
}

/// Values of one kind, one for each repetition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// `s`, `ms`, `us`, `files/s`, `bytes/s`, `pages`, `percent`.
    pub unit: String,
    /// In the order of measurement.
    pub values: Vec<f64>,
}

/// Percentiles and a histogram of one kind of value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// `ms`, `us`.
    pub unit: String,
    /// How many values were recorded.
    pub count: u64,
    /// Smallest value.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation, dividing by the count.
    pub stddev: f64,
    /// Largest value.
    pub max: f64,
    /// Percentile and value: 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9.
    pub percentiles: Vec<(f64, f64)>,
    /// Upper bound of a bucket and how many values fell into it; empty buckets are left out.
    pub buckets: Vec<(f64, u64)>,
}

/// Reclaim waits of one kind and one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// `direct` or `kswapd`.
    pub context: String,
    /// `WRITEBACK`, `NOPROGRESS`, `ISOLATED`, `CONGESTED`, `congestion_wait`,
    /// `wait_iff_congested`.
    pub reason: String,
    /// Length in microseconds, rounded down to the machine's tick of 4 ms.
    pub delayed_us: u64,
    /// How many waits had this length.
    pub count: u64,
}

/// How long a caller waited for one store, and who or what is to blame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// A process's name, or that of a handle.
    pub caller: String,
    /// The store, if it waited for one.
    pub store: Option<String>,
    /// The sum of its waits.
    pub waited_ms: f64,
    /// What is blamed for most of it.
    pub cause: String,
    /// Whether no other cause is blamed for half as much.
    pub is_clear: bool,
    /// The other caller that is blamed, if one is.
    pub culprit: Option<String>,
}

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caller, ms) = (&self.caller, self.waited_ms);
        let unclear = if self.is_clear { "" } else { "unclear: " };
        write!(f, "{caller} waited {ms:.1} ms: {unclear}{}", self.cause)?;
        match &self.culprit {
            Some(culprit) => write!(f, ": {culprit}"),
            None => Ok(()),
        }
    }
}

/// Columns over one common time axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Seconds since the run's start, one for each row.
    pub at_s: Vec<f64>,
    /// Each as long as `at_s`.
    pub columns: Vec<Column>,
}

/// One quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What it is: `dirty`, `writeback`, `free`, `thresh`, `background`, `setpoint`,
    /// `pgscan_direct`, `pgsteal_kswapd`, `write_bandwidth`, `device_rate`; a zone's or a store's
    /// column ends with `@` and the name: `dirty@Normal`, `write_bandwidth@disk0`.
    pub name: String,
    /// `pages`, `pages/s`, `bytes/s`, `ms`.
    pub unit: String,
    /// One for each row.
    pub values: Vec<f64>,
}

/// One device over the run, as iostat would show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// The device's name in the machine.
    pub name: String,
    /// Requests completed, after merging.
    pub read_ios: u64,
    /// Requests completed, after merging.
    pub write_ios: u64,
    /// Bytes moved.
    pub read_bytes: u64,
    /// Bytes moved.
    pub write_bytes: u64,
    /// Requests that joined a queued one.
    pub merged: u64,
    /// Requests whose first sector was not the one after the end of the request before.
    pub seeks: u64,
    /// Mean wait from queueing to completion, ms, over intervals as the 2011 reports took it.
    pub await_ms: f64,
    /// Mean number of requests in the queue.
    pub queue_size: f64,
    /// Share of the time in which the device was busy, percent.
    pub busy_percent: f64,
}

/// An expectation of a scenario, judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpectationResult {
    /// What was expected, in the words of the file.
    pub expected: String,
    /// What was found, in words with its number and unit.
    pub found: String,
    /// Whether it held.
    pub held: bool,
}

impl ExpectationResult {
    /// The same in a word, which stands out if it did not hold.
    pub fn verdict(&self) -> &'static str {
        if self.held { "holds" } else { "BROKEN" }
    }
}

/// What the simulation itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulationCost {
    /// Pages allocated, dirtied, scanned, written, freed: each a page event.
    pub page_events: u64,
    /// Real seconds that the run took; not part of what a seed determines.
    pub real_s: f64,
}

impl Outcome {
    /// A figure by metric name, or a counter of that name.
    pub fn figure(&self, metric: &str) -> Option<f64> {
        let counted = || self.counters.get(metric).map(|count| *count as f64);
        self.figures.get(metric).copied().or_else(counted)
    }
}

impl Series {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_among_figures_first_and_counters_then() {
        let mut outcome = Outcome::default();
        outcome.counters.insert("pgscan_direct".into(), 7);
        outcome.figures.insert("elapsed".into(), 1.5);
        assert_eq!(outcome.figure("pgscan_direct"), Some(7.0));
        assert_eq!(outcome.figure("elapsed"), Some(1.5));
        assert_eq!(outcome.figure("unknown"), None);
    }

    #[test]
    fn json_carries_an_outcome_there_and_back() {
        let outcome = Outcome {
            elapsed_s: 2.25,
            stalls: vec![Stall {
                context: "direct".into(),
                reason: "WRITEBACK".into(),
                delayed_us: 104_000,
                count: 3,
            }],
            ..Outcome::default()
        };
        let text = serde_json::to_string(&outcome).expect("plain values become JSON");
        let again: Outcome = serde_json::from_str(&text).expect("what was written is read");
        assert_eq!(again, outcome);
    }
}
