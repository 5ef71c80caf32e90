//! Which pictures a set of runs has: levels, pauses, bandwidth, rates, latencies, stalls.
//!
//! Levels and rates are those of each policy's first run; distributions and stalls are summed over
//! its runs.

mod points;
mod rates;

use self::points::{note, points};
use super::comparison::{group, label};
use crate::outcome::{Column, Distribution, Outcome, Series};
use crate::probe::BUCKET_RATIO;
use forebay_chart::{Axis, Bar, Chart, Layer, Shape, share_axes};
use std::collections::{BTreeMap, BTreeSet};

/// Pictures that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Gallery {
    /// What they show.
    pub heading: String,
    /// How to read them.
    pub text: String,
    /// One a policy, or one for all.
    pub charts: Vec<Chart>,
}

/// The runs of one policy.
struct Policy<'a> {
    label: String,
    colour: usize,
    runs: Vec<&'a Outcome>,
}

/// Every picture for which `outcomes`, of one workload on one machine, have data; empty without
/// outcomes.
pub fn galleries(outcomes: &[Outcome]) -> Vec<Gallery> {
    let groups = group(outcomes);
    let policies: Vec<Policy<'_>> = groups
        .iter()
        .enumerate()
        .map(|(colour, runs)| Policy {
            label: label(runs, &groups),
            colour,
            runs: runs.clone(),
        })
        .collect();
    let all = [
        levels(&policies),
        pauses_over_time(&policies),
        pause_histogram(&policies),
        bandwidth(&policies),
        rates::scan_and_steal(&policies),
        rates::writes(&policies),
        rates::seeks(&policies),
        rates::wakefulness(&policies),
        zones(&policies),
        stores(&policies),
        latencies(&policies),
        stalls(&policies),
    ];
    let drawn = all.into_iter().filter(|gallery| !gallery.charts.is_empty());
    drawn.collect()
}

/// A picture of columns over time for each policy, all with the same axes.
fn over_time(
    policies: &[Policy<'_>],
    title: &str,
    y_title: &str,
    layers: impl Fn(&Series) -> Vec<Layer>,
) -> Vec<Chart> {
    let mut charts = Vec::new();
    for policy in policies {
        let run = policy.runs[0];
        let title = format!("{title}: {}", policy.label);
        let mut chart = Chart::new(&title, Axis::linear("time (s)"), Axis::linear(y_title));
        for layer in layers(&run.series) {
            chart.add(layer);
        }
        chart.note = note(run);
        charts.extend((!chart.is_empty()).then_some(chart));
    }
    share_axes(&mut charts);
    charts
}

fn named(series: &Series, name: &str) -> Vec<(f64, f64)> {
    let column = series.column(name);
    column.map_or_else(Vec::new, |column| points(series, column))
}

/// Two columns added up, row by row; none if either is missing.
fn summed(series: &Series, one: &str, other: &str) -> Vec<(f64, f64)> {
    let (one, other) = (named(series, one), named(series, other));
    let pairs = one.into_iter().zip(other);
    pairs.map(|((at, a), (_, b))| (at, a + b)).collect()
}

fn levels(policies: &[Policy<'_>]) -> Gallery {
    let layers = |series: &Series| {
        vec![
            Layer::new(
                "dirty + writeback",
                0,
                Shape::Line(summed(series, "dirty", "writeback")),
            ),
            Layer::new("writeback", 5, Shape::Line(named(series, "writeback"))),
            Layer::new("limit", 1, Shape::Dashed(named(series, "thresh"))),
            Layer::new("setpoint", 2, Shape::Dashed(named(series, "setpoint"))),
            Layer::new("background", 4, Shape::Dashed(named(series, "background"))),
        ]
    };
    Gallery {
        heading: "Dirty memory".into(),
        text: "The level against the limits: the flusher starts at the background line, writers \
               are slowed from the middle between it and the limit, and balance near the setpoint."
            .into(),
        charts: over_time(policies, "Dirty pages", "pages", layers),
    }
}

fn pauses_over_time(policies: &[Policy<'_>]) -> Gallery {
    let layers = |series: &Series| {
        let paused = |column: &&Column| column.unit == "ms" && column.name.contains("pause");
        let columns = series.columns.iter().filter(paused).enumerate();
        columns
            .map(|(colour, column)| {
                let pauses = points(series, column)
                    .into_iter()
                    .filter(|(_, ms)| *ms > 0.0);
                Layer::new(&column.name, colour, Shape::Dots(pauses.collect()))
            })
            .collect()
    };
    Gallery {
        heading: "Pauses over time".into(),
        text: "How long writers were put to sleep; intervals without a pause have no dot.".into(),
        charts: over_time(policies, "Pauses", "pause (ms)", layers),
    }
}

/// A histogram of each distribution of pauses, the policies side by side.
fn pause_histogram(policies: &[Policy<'_>]) -> Gallery {
    let names = distribution_names(policies, |name| name.contains("pause"));
    let charts = names.iter().map(|name| {
        let unit = unit(policies, name);
        let title = format!("How long: {name}");
        let mut chart = Chart::new(
            &title,
            Axis::log(&format!("length ({unit})")),
            Axis::linear("share (%)"),
        );
        for policy in policies {
            let bars = log_bars(&merged_buckets(policy, name));
            chart.add(Layer::new(&policy.label, policy.colour, Shape::Bars(bars)));
        }
        chart
    });
    Gallery {
        heading: "Pauses".into(),
        text: "Share of the pauses by length, on a logarithmic axis with four buckets for each \
               doubling."
            .into(),
        charts: charts.filter(|chart| !chart.is_empty()).collect(),
    }
}

/// A bar for each bucket, in percent of all. Other bars could not show the values of the buckets
/// correctly: a bucket has the end of its values, but not which of two bars they belong to.
fn log_bars(buckets: &BTreeMap<u64, u64>) -> Vec<Bar> {
    let total: u64 = buckets.values().sum();
    let bar = |(bits, count): (&u64, &u64)| {
        let upper = f64::from_bits(*bits);
        Bar {
            from: upper / BUCKET_RATIO,
            to: upper,
            height: 100.0 * *count as f64 / total.max(1) as f64,
        }
    };
    buckets.iter().map(bar).collect()
}

/// Upper bounds as bits, which sort like the positive numbers they are, and counts.
fn merged_buckets(policy: &Policy<'_>, name: &str) -> BTreeMap<u64, u64> {
    let mut merged = BTreeMap::new();
    for (upper, count) in spreads(policy, name).flat_map(|spread| &spread.buckets) {
        *merged.entry(upper.max(0.0).to_bits()).or_default() += count;
    }
    merged
}

fn spreads<'a>(policy: &Policy<'a>, name: &str) -> impl Iterator<Item = &'a Distribution> {
    let runs = policy.runs.clone();
    runs.into_iter()
        .filter_map(move |run| run.distributions.get(name))
}

fn distribution_names(policies: &[Policy<'_>], wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let runs = policies.iter().flat_map(|policy| &policy.runs);
    let names = runs.flat_map(|run| run.distributions.keys());
    names.filter(|name| wanted(name)).cloned().collect()
}

fn unit(policies: &[Policy<'_>], name: &str) -> String {
    let mut units = policies.iter().flat_map(|policy| spreads(policy, name));
    units
        .next()
        .map_or_else(String::new, |spread| spread.unit.clone())
}

fn bandwidth(policies: &[Policy<'_>]) -> Gallery {
    let of = |series: &Series, prefix: &str, shape: fn(Vec<(f64, f64)>) -> Shape, first: usize| {
        let columns = series
            .columns
            .iter()
            .filter(|column| column.name.starts_with(prefix));
        let scaled = |column: &Column| {
            let points = points(series, column).into_iter();
            points
                .map(|(at, bytes)| (at, bytes / 1_048_576.0))
                .collect()
        };
        let layer = |(number, column): (usize, &Column)| {
            Layer::new(&column.name, first + 2 * number, shape(scaled(column)))
        };
        columns.enumerate().map(layer).collect::<Vec<Layer>>()
    };
    let layers = |series: &Series| {
        let mut layers = of(series, "device_rate", Shape::Line, 1);
        layers.extend(of(series, "write_bandwidth", Shape::Steps, 0));
        layers
    };
    Gallery {
        heading: "Bandwidth".into(),
        text: "What the engine believes a device writes (write_bandwidth) and what the device did \
               write (device_rate)."
            .into(),
        charts: over_time(policies, "Estimate and truth", "MiB/s", layers),
    }
}

fn zones(policies: &[Policy<'_>]) -> Gallery {
    let layers = |series: &Series| {
        let is_zone = |place: &str| series.column(&format!("free@{place}")).is_some();
        let of_zones = series.columns.iter().filter(|column| {
            let place = column.name.strip_prefix("dirty@");
            place.is_some_and(is_zone)
        });
        let layer = |(colour, column): (usize, &Column)| {
            Layer::new(&column.name, colour, Shape::Line(points(series, column)))
        };
        of_zones.enumerate().map(layer).collect()
    };
    Gallery {
        heading: "Dirty memory by zone".into(),
        text: "Dirty pages of each zone.".into(),
        charts: over_time(policies, "Dirty pages by zone", "pages", layers),
    }
}

/// Each store's dirty level against its share of the limit.
fn stores(policies: &[Policy<'_>]) -> Gallery {
    let layers = |series: &Series| {
        let limits = series
            .columns
            .iter()
            .filter(|column| column.name.starts_with("thresh@"));
        let of_store = |(colour, limit): (usize, &Column)| {
            let level = limit.name.replacen("thresh@", "dirty@", 1);
            [
                Layer::new(&level, colour, Shape::Line(named(series, &level))),
                Layer::new(&limit.name, colour, Shape::Dashed(points(series, limit))),
            ]
        };
        limits.enumerate().flat_map(of_store).collect()
    };
    Gallery {
        heading: "Dirty memory by store".into(),
        text: "Dirty pages of each store, and its share of the limit, which moves with the \
               bandwidth that it has lately had."
            .into(),
        charts: over_time(policies, "Dirty pages by store", "pages", layers),
    }
}

/// Each distribution except those of pauses: value over percentile, with the tail stretched.
fn latencies(policies: &[Policy<'_>]) -> Gallery {
    let names = distribution_names(policies, |name| !name.contains("pause"));
    let charts = names.iter().map(|name| {
        let y = Axis::log(&unit(policies, name));
        let mut chart = Chart::new(name, Axis::nines("percentile (%)"), y);
        for policy in policies {
            let merged = merged_buckets(policy, name);
            let curve = if merged.is_empty() {
                let first = spreads(policy, name).take(1);
                first.flat_map(|one| one.percentiles.clone()).collect()
            } else {
                by_percentile(&merged)
            };
            chart.add(Layer::new(
                &policy.label,
                policy.colour,
                Shape::Steps(curve),
            ));
        }
        chart
    });
    Gallery {
        heading: "Latencies".into(),
        text: "The value that so many percent do not exceed; the right half of a picture is the \
               slowest tenth."
            .into(),
        charts: charts.filter(|chart| !chart.is_empty()).collect(),
    }
}

/// For each bucket the percentage below it and its upper bound.
fn by_percentile(buckets: &BTreeMap<u64, u64>) -> Vec<(f64, f64)> {
    let total: u64 = buckets.values().sum();
    let mut below = 0;
    let mut curve = Vec::new();
    for (bits, count) in buckets {
        curve.push((100.0 * below as f64 / total as f64, f64::from_bits(*bits)));
        below += count;
    }
    let last = curve.last().map(|(_, value)| (100.0, *value));
    curve.extend(last);
    curve
}

/// A histogram for each context and reason, in steps of the tick.
fn stalls(policies: &[Policy<'_>]) -> Gallery {
    let runs = policies.iter().flat_map(|policy| &policy.runs);
    let stalls = runs.flat_map(|run| &run.stalls);
    let kinds: BTreeSet<(&String, &String)> = stalls
        .map(|stall| (&stall.context, &stall.reason))
        .collect();
    let charts = kinds.into_iter().map(|(context, reason)| {
        let title = format!("{reason}, {context} reclaim");
        let mut y = Axis::log("events");
        y.bounds = Some((0.5, 1.0));
        let mut chart = Chart::new(&title, Axis::linear("length (ms)"), y);
        chart.x.bounds = Some((0.0, 112.0));
        for policy in policies {
            let bars = stall_bars(policy, context, reason);
            chart.add(Layer::new(&policy.label, policy.colour, Shape::Bars(bars)));
        }
        chart
    });
    Gallery {
        heading: "Waits in reclaim".into(),
        text: "How often and how long somebody who needed memory waited, by reason, in ticks of \
               4 ms; summed over a policy's runs."
            .into(),
        charts: charts.collect(),
    }
}

fn stall_bars(policy: &Policy<'_>, context: &str, reason: &str) -> Vec<Bar> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for stall in policy.runs.iter().flat_map(|run| &run.stalls) {
        if stall.context == context && stall.reason == reason {
            *counts.entry(stall.delayed_us).or_default() += stall.count;
        }
    }
    let bar = |(delayed_us, count): (u64, u64)| Bar {
        from: delayed_us as f64 / 1000.0,
        to: delayed_us as f64 / 1000.0 + 4.0,
        height: count as f64,
    };
    counts.into_iter().map(bar).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
#[path = "pictures_tests.rs"]
mod tests;
