//! Pictures of made-up runs.

use super::*;
use crate::outcome::Stall;
use crate::run::Plan;

fn series(rows: u32) -> Series {
    let column = |name: &str, unit: &str, value: fn(f64) -> f64| Column {
        name: name.into(),
        unit: unit.into(),
        values: (0..rows).map(|row| value(f64::from(row))).collect(),
    };
    Series {
        at_s: (0..rows).map(f64::from).collect(),
        columns: vec![
            column("dirty", "pages", |row| 100.0 + row),
            column("writeback", "pages", |_| 50.0),
            column("thresh", "pages", |_| 400.0),
            column("dirty@Normal", "pages", |row| row),
            column("free@Normal", "pages", |row| row),
            column("dirty@disk0", "pages", |row| row),
            column("thresh@disk0", "pages", |_| 90.0),
            column("pause", "ms", |row| row % 3.0),
            column("pgscan_direct", "pages/s", |row| row),
            column("pgsteal_direct", "pages/s", |row| row % 2.0),
            column("nr_vmscan_write", "pages/s", |row| row),
            column("seeks@disk0", "times/s", |row| row),
            column("seeks@disk1", "times/s", |_| 0.0),
            column("kswapd_high_wmark_hit_quickly", "times/s", |row| row),
            column("write_bandwidth@disk0", "bytes/s", |_| 1e8),
            column("device_rate@disk0", "bytes/s", |_| 9e7),
        ],
    }
}

fn run(policy: &str) -> Outcome {
    let mut outcome = Outcome {
        series: series(30),
        stalls: vec![Stall {
            context: "direct".into(),
            reason: "WRITEBACK".into(),
            delayed_us: 104_000,
            count: 3,
        }],
        ..Outcome::default()
    };
    outcome.setting.policy = policy.into();
    for name in ["pause", "write_latency"] {
        outcome.distributions.insert(
            name.into(),
            Distribution {
                unit: "ms".into(),
                count: 4,
                buckets: vec![(1.0, 1), (10.0, 2), (100.0, 1)],
                ..Distribution::default()
            },
        );
    }
    outcome
}

#[test]
fn every_kind_of_picture_is_drawn_for_both_policies() {
    let drawn = galleries(&[run("before"), run("after")]);
    let headings: Vec<&str> = drawn
        .iter()
        .map(|gallery| gallery.heading.as_str())
        .collect();
    let expected = [
        "Dirty memory",
        "Pauses over time",
        "Pauses",
        "Bandwidth",
        "Reclaim",
        "Writes by reclaim",
        "Seeks",
        "Sleep of kswapd",
        "Dirty memory by zone",
        "Dirty memory by store",
        "Latencies",
        "Waits in reclaim",
    ];
    assert_eq!(headings, expected);
    assert_eq!(
        drawn[0].charts.len(),
        2,
        "a picture of levels for each policy"
    );
    assert_eq!(drawn[0].charts[0].y_range(), drawn[0].charts[1].y_range());
}

#[test]
fn what_never_happened_has_no_picture_and_a_second_without_it_no_point() {
    let drawn = galleries(&[run("before"), run("after")]);
    let of = |heading: &str| {
        let found = drawn.iter().find(|gallery| gallery.heading == heading);
        &found.expect("it is drawn").charts
    };
    let seeks = of("Seeks");
    let titles: Vec<&str> = seeks.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(titles, ["Seeks: disk0"]);
    assert_eq!(seeks[0].layers.len(), 2, "a line for each policy");
    let Shape::Line(steal) = &of("Reclaim")[0].layers[1].shape else {
        panic!("a line");
    };
    assert_eq!(steal.len(), 15, "nothing is freed in every other second");
}

#[test]
fn the_level_is_dirty_and_writeback_together() {
    let drawn = galleries(&[run("only")]);
    let Shape::Line(points) = &drawn[0].charts[0].layers[0].shape else {
        panic!("a line");
    };
    assert_eq!(points[10], (10.0, 160.0));
}

#[test]
fn a_histogram_is_in_percent_of_all_and_its_bars_hold_their_values() {
    let one = run("only");
    let policies = [Policy {
        label: "only".into(),
        colour: 0,
        runs: vec![&one, &one],
    }];
    let bars = log_bars(&merged_buckets(&policies[0], "pause"));
    let heights: Vec<f64> = bars.iter().map(|bar| bar.height).collect();
    assert_eq!(heights, [25.0, 50.0, 25.0]);
    assert!(
        bars.iter()
            .zip([1.0, 10.0, 100.0])
            .all(|(bar, upper)| bar.to == upper && bar.from > upper / 1.2)
    );
}

#[test]
fn a_curve_ends_at_the_largest_value() {
    let one = run("only");
    let policy = Policy {
        label: "only".into(),
        colour: 0,
        runs: vec![&one],
    };
    let curve = by_percentile(&merged_buckets(&policy, "write_latency"));
    assert_eq!(
        curve,
        [(0.0, 1.0), (25.0, 10.0), (75.0, 100.0), (100.0, 100.0)]
    );
}

#[test]
fn runs_without_series_have_no_pictures() {
    assert!(galleries(&[Outcome::default()]).is_empty());
}

#[test]
fn a_run_with_throttled_writers_has_a_picture_of_their_pauses_over_time() {
    let plan = Plan::new("many-dd", "amd4-512m").unwrap();
    let small = plan.with("scale", "8").with("writers", "10");
    let short = small.with("seconds", "6").with("settle_seconds", "2");
    let outcomes = [crate::run::run(&short).unwrap()];
    let page = crate::report::page::of_runs("many-dd", &outcomes);
    assert!(page.contains("Pauses over time"), "{page}");
    let drawn = galleries(&outcomes);
    let pauses = drawn.iter().find(|it| it.heading == "Pauses over time");
    let layers = &pauses.unwrap().charts[0].layers;
    let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["pause_mean", "pause_max"]);
}

#[test]
fn a_run_of_stutterp_has_a_picture_of_its_passes() {
    let knobs = [
        ("scale", "16"),
        ("workers", "4"),
        ("seconds", "2"),
        ("warm_up_seconds", "1"),
    ];
    let plan = Plan::new("stutterp", "amd4-512m").unwrap();
    let plan = knobs
        .iter()
        .fold(plan, |plan, (name, value)| plan.with(name, value));
    let outcome = crate::run::run(&plan).unwrap();
    let passes = outcome.samples["mmap_latency@4"].values.len() as u64;
    assert_eq!(outcome.distributions["mmap_pass@4"].count, passes);
    let drawn = galleries(&[outcome]);
    let latencies = drawn.iter().find(|it| it.heading == "Latencies").unwrap();
    assert!(latencies.charts.iter().any(|it| it.title == "mmap_pass@4"));
}
