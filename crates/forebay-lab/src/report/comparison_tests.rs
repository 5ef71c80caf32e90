//! Made-up runs, merged.

use super::*;
use crate::outcome::{Distribution, Samples, Stall};

fn run(policy: &str, seed: u64, elapsed_s: f64) -> Outcome {
    let mut outcome = Outcome {
        elapsed_s,
        ..Outcome::default()
    };
    outcome.setting.policy = policy.into();
    outcome.setting.seed = seed;
    outcome
}

fn find<'a>(comparison: &'a Comparison, statistic: &str, name: &str) -> &'a Row {
    let rows = comparison.blocks.iter().flat_map(|block| &block.rows);
    let mut same = rows.filter(|row| row.statistic == statistic && row.name == name);
    same.next().expect("the row is there")
}

#[test]
fn runs_of_one_policy_become_one_column_against_the_first() {
    let runs = [
        run("a", 1, 10.0),
        run("b", 1, 4.0),
        run("a", 2, 14.0),
        run("b", 2, 8.0),
    ];
    let comparison = Comparison::of(&runs);
    assert_eq!(comparison.columns.len(), 2);
    assert_eq!(comparison.columns[0].seeds, [1, 2]);
    let row = find(&comparison, "Duration", "Elapsed");
    let (old, new) = (row.cells[0].unwrap(), row.cells[1].unwrap());
    assert_eq!((old.spread.mean, new.spread.mean), (12.0, 6.0));
    assert_eq!(new.change_percent, Some(-50.0));
    assert_eq!(new.spread.runs, 2);
}

#[test]
fn one_policy_with_two_knobs_is_two_columns() {
    let mut other = run("a", 1, 1.0);
    other.setting.knobs.insert("chunk".into(), "128M".into());
    let comparison = Comparison::of(&[run("a", 1, 1.0), other]);
    let labels: Vec<&str> = comparison
        .columns
        .iter()
        .map(|c| c.label.as_str())
        .collect();
    assert_eq!(labels, ["a", "a chunk=128M"]);
}

#[test]
fn counters_stand_under_their_printed_names_in_the_fields_order() {
    let mut only = run("a", 1, 1.0);
    only.counters.insert("pgscan_direct".into(), 7);
    only.counters.insert("pswpin".into(), 3);
    only.figures.insert("kswapd_efficiency".into(), 98.0);
    let comparison = Comparison::of(&[only]);
    let block = comparison
        .blocks
        .iter()
        .find(|block| block.title == "Counters")
        .unwrap();
    let names: Vec<&str> = block.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(
        names,
        ["Swap Ins", "Direct pages scanned", "Kswapd efficiency"]
    );
}

#[test]
fn samples_and_distributions_have_their_statistics() {
    let mut only = run("a", 1, 1.0);
    only.samples.insert(
        "mmap-4".into(),
        Samples {
            unit: "ms".into(),
            values: vec![1.0, 2.0, 9.0],
        },
    );
    only.distributions.insert(
        "pause".into(),
        Distribution {
            unit: "ms".into(),
            count: 10,
            mean: 12.0,
            max: 40.0,
            percentiles: vec![(50.0, 10.0), (95.0, 30.0), (99.0, 39.0)],
            ..Distribution::default()
        },
    );
    let comparison = Comparison::of(&[only]);
    let value = |statistic, name| {
        find(&comparison, statistic, name).cells[0]
            .unwrap()
            .spread
            .mean
    };
    assert_eq!(value("Amean", "mmap-4"), 4.0);
    assert_eq!(value("Max", "mmap-4"), 9.0);
    assert_eq!(value("p95", "pause"), 30.0);
    assert_eq!(value("Max", "pause"), 40.0);
}

#[test]
fn stalls_are_summed_over_runs_and_sorted_by_count() {
    let stall = |delayed_us, count| Stall {
        context: "direct".into(),
        reason: "WRITEBACK".into(),
        delayed_us,
        count,
    };
    let mut one = run("a", 1, 1.0);
    one.stalls = vec![stall(0, 5), stall(104_000, 1)];
    let mut two = run("a", 2, 1.0);
    two.stalls = vec![stall(104_000, 9)];
    let comparison = Comparison::of(&[one, two]);
    let lines = &comparison.stalls[0].lines;
    assert_eq!(comparison.stalls[0].runs, 2);
    let pairs: Vec<(u64, u64)> = lines
        .iter()
        .map(|line| (line.count, line.delayed_us))
        .collect();
    assert_eq!(pairs, [(5, 0), (10, 104_000)]);
}

#[test]
fn nothing_compares_to_nothing() {
    assert_eq!(Comparison::of(&[]), Comparison::default());
}

#[test]
fn a_count_that_a_run_does_not_have_is_nothing_there_and_a_share_is_left_out() {
    let mut with = run("a", 1, 1.0);
    with.figures.insert("stall_events_total;kswapd".into(), 8.0);
    with.figures.insert("stall_share_zero;kswapd".into(), 50.0);
    let comparison = Comparison::of(&[with, run("a", 2, 1.0)]);
    let cell = |name| find(&comparison, "", name).cells[0].unwrap().spread;
    let (count, share) = (
        cell("stall_events_total;kswapd"),
        cell("stall_share_zero;kswapd"),
    );
    assert_eq!((count.mean, count.runs), (4.0, 2));
    assert_eq!((share.mean, share.runs), (50.0, 1));
    let text = crate::report::table::render(&comparison);
    assert!(text.contains("50 in 1 of 2"), "{text}");
}
