//! A figure of a run by the name that tests and published rows give it.
//!
//! A name is that of a figure or counter of the outcome; or of a distribution or of samples with
//! `_p50`, `_p95`, `_p99`, `_max`, `_amean`, `_mean` or `_stddev` after it; or two names with a ` /
//! ` between them. The part after a `;` or an `@` belongs to the name.

use crate::outcome::{Column, Distribution, Outcome, Samples};
use crate::report::statistics::{mean, percentile, stddev};

/// The figure called `metric`; none if the run did not measure it.
pub fn measure(outcome: &Outcome, metric: &str) -> Option<f64> {
    if let Some((part, whole)) = metric.split_once(" / ") {
        let whole = measure(outcome, whole)?;
        return (whole != 0.0).then_some(measure(outcome, part)? / whole);
    }
    outcome
        .figure(metric)
        .or_else(|| of_the_run(outcome, metric))
        .or_else(|| of_values(outcome, metric))
        .or_else(|| of_levels(outcome, metric))
}

/// What every run has.
fn of_the_run(outcome: &Outcome, metric: &str) -> Option<f64> {
    match metric {
        "elapsed" | "duration_elapsed" => Some(outcome.elapsed_s),
        "duration_user" | "user_cpu" => Some(outcome.user_s),
        "duration_system" | "system_cpu" => Some(outcome.system_s),
        "user_plus_system_cpu" => Some(outcome.user_s + outcome.system_s),
        "nr_vmscan_write" => outcome.figure("page_writes_by_reclaim"),
        _ => None,
    }
}

/// A statistic of a distribution or of samples: the name, then the statistic, then the part after
/// an `@`.
fn of_values(outcome: &Outcome, metric: &str) -> Option<f64> {
    let (metric, place) = metric.split_once('@').unwrap_or((metric, ""));
    let (base, statistic) = metric.rsplit_once('_')?;
    let name = if place.is_empty() {
        base.into()
    } else {
        format!("{base}@{place}")
    };
    if let Some(spread) = outcome.distributions.get(&name) {
        return of_distribution(spread, statistic);
    }
    of_samples(outcome.samples.get(&name)?, statistic)
}

fn of_distribution(spread: &Distribution, statistic: &str) -> Option<f64> {
    if spread.count == 0 {
        return None;
    }
    match statistic {
        "mean" | "amean" => Some(spread.mean),
        "stddev" => Some(spread.stddev),
        "max" => Some(spread.max),
        "min" => Some(spread.min),
        _ => spread.percentile(percent(statistic)?),
    }
}

fn of_samples(samples: &Samples, statistic: &str) -> Option<f64> {
    let values = &samples.values;
    match statistic {
        "mean" | "amean" => mean(values),
        "stddev" => mean(values).map(|_| stddev(values)),
        "coeffvar" => mean(values).map(|mean| stddev(values) / mean),
        "max" => values.iter().copied().max_by(f64::total_cmp),
        "min" => values.iter().copied().min_by(f64::total_cmp),
        _ => percentile(values, percent(statistic)?),
    }
}

fn percent(statistic: &str) -> Option<f64> {
    statistic.strip_prefix('p')?.parse().ok()
}

/// What follows from the levels of zones over time.
fn of_levels(outcome: &Outcome, metric: &str) -> Option<f64> {
    let (metric, zone) = metric.split_once('@').unwrap_or((metric, ""));
    match metric {
        "dirty_of_inactive" => mean(&shares(outcome, &["dirty"], &["inactive_file"], zone)),
        "dirty_and_writeback_of_inactive" => mean(&shares(
            outcome,
            &["dirty", "writeback"],
            &["inactive_file"],
            zone,
        )),
        "dirty_of_file" => mean(&shares(
            outcome,
            &["dirty"],
            &["inactive_file", "active_file"],
            "",
        )),
        "zone_dirty_share_p99" => {
            let part = ["dirty", "writeback"];
            let whole = ["free", "inactive_file", "active_file"];
            let of_zone = |zone| percentile(&shares(outcome, &part, &whole, zone), 99.0);
            zones(outcome).filter_map(of_zone).max_by(f64::total_cmp)
        }
        _ => None,
    }
}

/// The zones that have a column of free pages.
fn zones(outcome: &Outcome) -> impl Iterator<Item = &str> {
    let columns = outcome.series.columns.iter();
    columns.filter_map(|column| column.name.strip_prefix("free@"))
}

/// For each row the sum of some columns over the sum of others, rows without the latter left out.
fn shares(outcome: &Outcome, part: &[&str], whole: &[&str], zone: &str) -> Vec<f64> {
    let column = |name: &&str| {
        let same = |column: &&Column| match column.name.split_once('@') {
            Some((base, place)) => base == *name && ends_as(place, zone),
            None => column.name == **name && zone.is_empty(),
        };
        outcome.series.columns.iter().find(same)
    };
    let columns = |names: &[&str]| names.iter().map(column).collect::<Option<Vec<&Column>>>();
    let (Some(part), Some(whole)) = (columns(part), columns(whole)) else {
        return Vec::new();
    };
    let sum = |columns: &[&Column], row: usize| {
        let values = columns.iter().filter_map(|column| column.values.get(row));
        values.sum::<f64>()
    };
    (0..outcome.series.at_s.len())
        .map(|row| (sum(&part, row), sum(&whole, row)))
        .filter(|(_, whole)| *whole > 0.0)
        .map(|(part, whole)| part / whole)
        .collect()
}

/// Whether `place` is `zone`, or a node's number, a point and `zone`.
fn ends_as(place: &str, zone: &str) -> bool {
    !zone.is_empty() && (place == zone || place.rsplit_once('.').is_some_and(|(_, z)| z == zone))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
#[path = "measure_tests.rs"]
mod tests;
