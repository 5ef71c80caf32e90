//! Runs merged over their seeds and set side by side, one column a policy.

use super::metric::Better;
use super::statistics::{Spread, change_percent};
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The runs of one workload on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The workload's or scenario's name.
    pub workload: String,
    /// The machine's name.
    pub machine: String,
    /// The policies; the first is the baseline.
    pub columns: Vec<PolicyColumn>,
    /// Blocks of rows in the order in which the field prints them.
    pub blocks: Vec<Block>,
    /// Waits in reclaim, one list a column and context.
    pub stalls: Vec<StallList>,
}

/// The runs of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyColumn {
    /// The policy, and its knobs where two columns have one policy.
    pub label: String,
    /// The policy's name.
    pub policy: String,
    /// Knobs that were set.
    pub knobs: BTreeMap<String, String>,
    /// The seeds, in the order of the runs.
    pub seeds: Vec<u64>,
    /// Hash of each simulated run's events.
    pub trace_hashes: Vec<u64>,
}

/// Rows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// `Latency`, `Duration`, `Ops` and so on.
    pub title: String,
    /// In the order in which they are printed.
    pub rows: Vec<Row>,
}

/// One figure under every policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `Amean`, `p99`, `Duration`, `Ops`; empty where the name says all.
    pub statistic: String,
    /// What was measured.
    pub name: String,
    /// The unit; empty for a plain count.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// One for each column; none if no run of the policy had the figure.
    pub cells: Vec<Option<MergedCell>>,
}

/// One figure of one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MergedCell {
    /// Over the runs.
    pub spread: Spread,
    /// The change from the first column's mean; none if that is 0 or was not measured.
    pub change_percent: Option<f64>,
}

/// Waits of one context under one policy, summed over its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallList {
    /// The column's label.
    pub column: String,
    /// `direct` or `kswapd`.
    pub context: String,
    /// How many runs were summed.
    pub runs: u32,
    /// The rarest first.
    pub lines: Vec<StallLine>,
}

/// Waits of one reason and length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallLine {
    /// How many.
    pub count: u64,
    /// Length, microseconds.
    pub delayed_us: u64,
    /// Why.
    pub reason: String,
}

/// The runs of each policy, in the order in which policies first appear.
pub(super) fn group(outcomes: &[Outcome]) -> Vec<Vec<&Outcome>> {
    let mut groups: Vec<Vec<&Outcome>> = Vec::new();
    for outcome in outcomes {
        let same = |runs: &&mut Vec<&Outcome>| {
            let first = &runs[0].setting;
            first.policy == outcome.setting.policy && first.knobs == outcome.setting.knobs
        };
        match groups.iter_mut().find(same) {
            Some(runs) => runs.push(outcome),
            None => groups.push(vec![outcome]),
        }
    }
    groups
}

/// The name over a policy's column.
pub(super) fn label(runs: &[&Outcome], groups: &[Vec<&Outcome>]) -> String {
    let setting = &runs[0].setting;
    let namesakes = groups
        .iter()
        .filter(|other| other[0].setting.policy == setting.policy);
    if namesakes.count() < 2 || setting.knobs.is_empty() {
        return setting.policy.clone();
    }
    let knobs: Vec<String> = setting
        .knobs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{} {}", setting.policy, knobs.join(" "))
}

/// A row of what `value` finds in each run; none if no run has it.
pub(super) fn row(
    groups: &[Vec<&Outcome>],
    name: (&str, &str),
    unit: &str,
    better: Better,
    value: &dyn Fn(&Outcome) -> Option<f64>,
) -> Option<Row> {
    let spreads: Vec<Option<Spread>> = groups
        .iter()
        .map(|runs| {
            let found: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
            Spread::of(&found)
        })
        .collect();
    let old = spreads.first().copied().flatten().map(|spread| spread.mean);
    let merged = |spread: Option<Spread>| {
        spread.map(|spread| MergedCell {
            spread,
            change_percent: old.and_then(|old| change_percent(old, spread.mean)),
        })
    };
    spreads.iter().any(Option::is_some).then(|| Row {
        statistic: name.0.into(),
        name: name.1.into(),
        unit: unit.into(),
        better,
        cells: spreads.into_iter().map(merged).collect(),
    })
}

pub(super) fn column(runs: &[&Outcome], groups: &[Vec<&Outcome>]) -> PolicyColumn {
    let simulated = runs.iter().filter(|run| !run.in_real_time);
    PolicyColumn {
        label: label(runs, groups),
        policy: runs[0].setting.policy.clone(),
        knobs: runs[0].setting.knobs.clone(),
        seeds: runs.iter().map(|run| run.setting.seed).collect(),
        trace_hashes: simulated.map(|run| run.trace_hash).collect(),
    }
}

/// The stalls of one policy by context, each sorted by count.
pub(super) fn stalls(runs: &[&Outcome], groups: &[Vec<&Outcome>]) -> Vec<StallList> {
    let mut contexts: BTreeMap<&str, BTreeMap<(u64, &str), u64>> = BTreeMap::new();
    let stalls = runs.iter().flat_map(|run| &run.stalls);
    for stall in stalls.filter(|stall| stall.count > 0) {
        let lines = contexts.entry(&stall.context).or_default();
        *lines.entry((stall.delayed_us, &stall.reason)).or_default() += stall.count;
    }
    let sorted = |lines: BTreeMap<(u64, &str), u64>| {
        let mut lines: Vec<StallLine> = lines
            .into_iter()
            .map(|((delayed_us, reason), count)| StallLine {
                count,
                delayed_us,
                reason: reason.into(),
            })
            .collect();
        lines.sort_by_key(|line| line.count);
        lines
    };
    contexts
        .into_iter()
        .map(|(context, lines)| StallList {
            column: label(runs, groups),
            context: context.into(),
            runs: runs.len() as u32,
            lines: sorted(lines),
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
#[path = "comparison_tests.rs"]
mod tests;
