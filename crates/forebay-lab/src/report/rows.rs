//! Which rows a comparison has, in the order in which the field's reports print them.

use super::comparison::{Block, Row, row};
use super::metric::{Better, unit_of};
use super::statistics::{mean, percentile, stddev};
use crate::outcome::{DeviceRecord, Distribution, Outcome, Samples};
use crate::probe::family_of;
use std::collections::BTreeSet;

type Groups<'a> = [Vec<&'a Outcome>];

/// The counter block: the printed name, the metric, and the counter of /proc/vmstat for the same
/// thing.
const OPS: [(&str, &str, &str); 18] = [
    ("Swap Ins", "swap_ins", "pswpin"),
    ("Swap Outs", "swap_outs", "pswpout"),
    (
        "Direct pages scanned",
        "direct_pages_scanned",
        "pgscan_direct",
    ),
    (
        "Kswapd pages scanned",
        "kswapd_pages_scanned",
        "pgscan_kswapd",
    ),
    (
        "Kswapd pages reclaimed",
        "kswapd_pages_reclaimed",
        "pgsteal_kswapd",
    ),
    (
        "Direct pages reclaimed",
        "direct_pages_reclaimed",
        "pgsteal_direct",
    ),
    ("Kswapd efficiency", "kswapd_efficiency", ""),
    ("Kswapd velocity", "kswapd_velocity", ""),
    ("Direct efficiency", "direct_efficiency", ""),
    ("Direct velocity", "direct_velocity", ""),
    ("Percentage direct scans", "percentage_direct_scans", ""),
    (
        "Page writes by reclaim",
        "page_writes_by_reclaim",
        "nr_vmscan_write",
    ),
    ("Page writes file", "page_writes_file", ""),
    ("Page writes anon", "page_writes_anon", "pswpout"),
    (
        "Page reclaim immediate",
        "page_reclaim_immediate",
        "nr_vmscan_immediate_reclaim",
    ),
    ("Slabs scanned", "slabs_scanned", "slabs_scanned"),
    ("Direct inode steals", "direct_inode_steals", "pginodesteal"),
    (
        "Kswapd inode steals",
        "kswapd_inode_steals",
        "kswapd_inodesteal",
    ),
];

/// A statistic by its printed name.
type Statistic<T> = (&'static str, fn(&T) -> Option<f64>);

const OF_SAMPLES: [Statistic<Samples>; 6] = [
    ("Amean", |samples| mean(&samples.values)),
    ("Stddev", |samples| {
        (!samples.values.is_empty()).then(|| stddev(&samples.values))
    }),
    ("p50", |samples| percentile(&samples.values, 50.0)),
    ("p95", |samples| percentile(&samples.values, 95.0)),
    ("p99", |samples| percentile(&samples.values, 99.0)),
    ("Max", |samples| {
        samples.values.iter().copied().max_by(f64::total_cmp)
    }),
];

const OF_DISTRIBUTION: [Statistic<Distribution>; 7] = [
    ("Amean", |spread| recorded(spread, spread.mean)),
    ("Stddev", |spread| recorded(spread, spread.stddev)),
    ("p50", |spread| spread.percentile(50.0)),
    ("p95", |spread| spread.percentile(95.0)),
    ("p99", |spread| spread.percentile(99.0)),
    ("p99.9", |spread| spread.percentile(99.9)),
    ("Max", |spread| recorded(spread, spread.max)),
];

type DeviceFigure = (&'static str, &'static str, fn(&DeviceRecord) -> f64);

const OF_DEVICE: [DeviceFigure; 9] = [
    ("reads", "requests", |device| device.read_ios as f64),
    ("writes", "requests", |device| device.write_ios as f64),
    ("read", "MiB", |device| {
        device.read_bytes as f64 / 1_048_576.0
    }),
    ("written", "MiB", |device| {
        device.write_bytes as f64 / 1_048_576.0
    }),
    ("merged", "requests", |device| device.merged as f64),
    ("seeks", "", |device| device.seeks as f64),
    ("await", "ms", |device| device.await_ms),
    ("queue", "requests", |device| device.queue_size),
    ("busy", "%", |device| device.busy_percent),
];

/// Every block that has a row.
pub(super) fn blocks(groups: &Groups<'_>) -> Vec<Block> {
    let all = [
        ("Latency and samples", latency(groups)),
        ("Duration", duration(groups)),
        ("Figures", figures(groups)),
        ("Counters", ops(groups)),
        ("Devices", devices(groups)),
        ("Expectations", expectations(groups)),
        ("Simulation", simulation(groups)),
    ];
    all.into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(title, rows)| Block {
            title: title.into(),
            rows,
        })
        .collect()
}

impl Distribution {
    /// The value at a percentile that the run recorded.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let same = |(at, _): &&(f64, f64)| (at - percent).abs() < 1e-9;
        self.percentiles.iter().find(same).map(|(_, value)| *value)
    }
}

fn recorded(spread: &Distribution, value: f64) -> Option<f64> {
    (spread.count > 0).then_some(value)
}

/// Names that `of` finds in any run, sorted.
fn names<'a>(groups: &Groups<'a>, of: impl Fn(&'a Outcome) -> Vec<&'a String>) -> Vec<&'a String> {
    let found: BTreeSet<&String> = groups.iter().flatten().flat_map(|run| of(run)).collect();
    found.into_iter().collect()
}

fn latency(groups: &Groups<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in names(groups, |run| run.samples.keys().collect()) {
        let find = |run: &Outcome| run.samples.get(name).cloned();
        let unit = groups.iter().flatten().find_map(|run| find(run));
        let unit = unit.map_or_else(String::new, |samples| samples.unit);
        let better = if unit.ends_with("/s") {
            Better::Higher
        } else {
            Better::Lower
        };
        for (statistic, of) in OF_SAMPLES {
            let better = if statistic == "Stddev" {
                Better::Lower
            } else {
                better
            };
            let value = |run: &Outcome| run.samples.get(name).and_then(of);
            rows.extend(row(groups, (statistic, name), &unit, better, &value));
        }
    }
    for name in names(groups, |run| run.distributions.keys().collect()) {
        let find = |run: &&Outcome| {
            run.distributions
                .get(name)
                .map(|spread| spread.unit.clone())
        };
        let unit = groups.iter().flatten().find_map(find).unwrap_or_default();
        for (statistic, of) in OF_DISTRIBUTION {
            let value = |run: &Outcome| run.distributions.get(name).and_then(of);
            rows.extend(row(groups, (statistic, name), &unit, Better::Lower, &value));
        }
    }
    rows
}

fn duration(groups: &Groups<'_>) -> Vec<Row> {
    let parts: [Statistic<Outcome>; 3] = [
        ("User", |run| (!run.in_real_time).then_some(run.user_s)),
        ("System", |run| (!run.in_real_time).then_some(run.system_s)),
        ("Elapsed", |run| Some(run.elapsed_s)),
    ];
    parts
        .into_iter()
        .filter_map(|(name, of)| row(groups, ("Duration", name), "s", Better::Lower, &of))
        .collect()
}

/// The figures that no other block shows.
fn figures(groups: &Groups<'_>) -> Vec<Row> {
    let elsewhere = |name: &str| {
        let ops = OPS.iter().any(|(_, metric, _)| *metric == name);
        ops || [
            "elapsed",
            "duration_user",
            "duration_system",
            "duration_elapsed",
        ]
        .contains(&name)
    };
    names(groups, |run| run.figures.keys().collect())
        .into_iter()
        .filter(|name| !elsewhere(name))
        .filter_map(|name| {
            let nothing = is_count(name).then_some(0.0);
            let value = |run: &Outcome| run.figures.get(name).copied().or(nothing);
            row(
                groups,
                ("", name),
                unit_of(name),
                Better::of_metric(name),
                &value,
            )
        })
        .collect()
}

/// Whether a figure is a count: a run without it counted 0. Shares and latencies have no value
/// without events.
fn is_count(metric: &str) -> bool {
    ["stall_events_total", "task_clock_msecs"].contains(&family_of(metric))
}

fn ops(groups: &Groups<'_>) -> Vec<Row> {
    OPS.iter()
        .filter_map(|(printed, metric, counter)| {
            let value = |run: &Outcome| run.figure(metric).or_else(|| run.figure(counter));
            let unit = match *metric {
                name if name.contains("efficiency") || name.contains("percentage") => "%",
                name if name.contains("velocity") => "pages/s",
                _ => "",
            };
            row(
                groups,
                ("Ops", printed),
                unit,
                Better::of_metric(metric),
                &value,
            )
        })
        .collect()
}

fn devices(groups: &Groups<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let names = names(groups, |run| {
        run.devices.iter().map(|device| &device.name).collect()
    });
    for name in names {
        for (figure, unit, of) in OF_DEVICE {
            let device = |run: &Outcome| run.devices.iter().find(|one| one.name == *name).map(of);
            let better = Better::of_metric(figure);
            rows.extend(row(groups, (name, figure), unit, better, &device));
        }
    }
    rows
}

fn expectations(groups: &Groups<'_>) -> Vec<Row> {
    let mut seen: Vec<&str> = Vec::new();
    for result in groups.iter().flatten().flat_map(|run| &run.expectations) {
        if !seen.contains(&result.expected.as_str()) {
            seen.push(&result.expected);
        }
    }
    let held = |run: &Outcome, expected: &str| {
        let result = run
            .expectations
            .iter()
            .find(|one| one.expected == expected)?;
        Some(if result.held { 100.0 } else { 0.0 })
    };
    seen.into_iter()
        .filter_map(|expected| {
            let value = |run: &Outcome| held(run, expected);
            let mut results = groups.iter().flatten().flat_map(|run| &run.expectations);
            let broken = results.any(|it| it.expected == expected && !it.held);
            row(
                groups,
                (if broken { "BROKEN" } else { "held" }, expected),
                "% of runs",
                Better::Higher,
                &value,
            )
        })
        .collect()
}

fn simulation(groups: &Groups<'_>) -> Vec<Row> {
    let parts: [Statistic<Outcome>; 3] = [
        ("page events", |run| Some(run.cost.page_events as f64)),
        ("real seconds", |run| Some(run.cost.real_s)),
        ("page events a real second", |run| {
            (run.cost.real_s > 0.0).then(|| run.cost.page_events as f64 / run.cost.real_s)
        }),
    ];
    let simulated = groups.iter().flatten().any(|run| run.cost.page_events > 0);
    parts
        .into_iter()
        .filter(|_| simulated)
        .filter_map(|(name, of)| row(groups, ("", name), "", Better::Neither, &of))
        .collect()
}
