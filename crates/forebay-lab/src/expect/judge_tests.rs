use super::*;
use crate::outcome::{Column, Samples, Series};

const WHOLE: Window = Window {
    from_s: 0.0,
    until_s: 100.0,
};

/// A run in which `level` has these values, one a second, beside a `limit` of 100.
fn run_of(level: &[f64]) -> Outcome {
    let column = |name: &str, values: Vec<f64>| Column {
        name: name.into(),
        unit: "pages".into(),
        values,
    };
    Outcome {
        series: Series {
            at_s: (0..level.len()).map(|at| at as f64).collect(),
            columns: vec![
                column("level", level.to_vec()),
                column("limit", vec![100.0; level.len()]),
            ],
        },
        ..Outcome::default()
    }
}

fn columns(names: &[&str]) -> Level {
    Level::Columns(names.iter().map(|&name| name.into()).collect())
}

fn verdict(term: Term, window: Window, outcome: &Outcome) -> Verdict {
    Expectation { term, window }.verdict(outcome)
}

fn settles_by(by_s: f64, level: &[f64]) -> Verdict {
    let term = Term::Settles {
        of: columns(&["level"]),
        near: columns(&["limit"]),
        within_percent: 10.0,
        by_s,
        smoothed_s: 1.0,
    };
    verdict(term, WHOLE, &run_of(level))
}

#[test]
fn a_level_has_settled_when_it_leaves_the_band_no_more() {
    let level = [0.0, 95.0, 120.0, 109.0, 91.0, 100.0];
    assert!(settles_by(3.0, &level).0);
    let (held, found) = settles_by(2.9, &level);
    assert!(!held);
    assert_eq!(found, "settled at 3.0 s, then at most 9.0 percent away");
    let (held, found) = settles_by(5.0, &[100.0, 100.0, 80.0]);
    assert!(!held);
    assert_eq!(found, "20.0 percent away at the end");
}

#[test]
fn means_smooth_what_goes_up_and_down() {
    let term = |smoothed_s| Term::Settles {
        of: columns(&["level"]),
        near: Level::Number(100.0),
        within_percent: 10.0,
        by_s: 1.0,
        smoothed_s,
    };
    let saw = run_of(&[80.0, 120.0, 80.0, 120.0, 80.0, 120.0]);
    assert!(!verdict(term(1.0), WHOLE, &saw).0);
    assert!(verdict(term(2.0), WHOLE, &saw).0);
}

#[test]
fn overshoot_is_the_most_over_the_bound() {
    let run = run_of(&[50.0, 104.0, 99.0]);
    let at_most = |at_most_percent| {
        let term = Term::Overshoots {
            of: columns(&["level"]),
            over: columns(&["limit"]),
            at_most_percent,
        };
        verdict(term, WHOLE, &run)
    };
    assert_eq!(at_most(4.0), (true, "4.0 percent at 1.0 s".into()));
    assert!(!at_most(3.9).0);
}

#[test]
fn never_counts_each_sample_of_the_window_alone() {
    let run = run_of(&[150.0, 90.0, 101.0, 90.0]);
    let above = |window| {
        let term = Term::NeverAbove {
            of: columns(&["level"]),
            limit: columns(&["limit"]),
        };
        verdict(term, window, &run)
    };
    let from = |from_s, until_s| Window { from_s, until_s };
    assert_eq!(above(from(3.0, 9.0)), (true, "never in 1 samples".into()));
    let (held, found) = above(from(1.0, 9.0));
    assert!(!held);
    assert_eq!(found, "101 against 100 at 2.0 s, 1 of 3");
    assert!(!above(from(50.0, 60.0)).0, "nothing was sampled");
    let below = Term::NeverBelow {
        of: columns(&["level"]),
        limit: Level::Number(90.0),
    };
    assert!(verdict(below, WHOLE, &run).0);
}

#[test]
fn columns_add_up_and_means_lie_between_bounds() {
    let run = run_of(&[10.0, 20.0, 30.0]);
    let mean = |least: Level, most: Level| {
        let term = Term::Mean {
            of: columns(&["level", "limit"]),
            bounds: Bounds {
                at_least: Some(least),
                at_most: Some(most),
            },
        };
        verdict(term, WHOLE, &run).0
    };
    assert!(mean(Level::Number(120.0), Level::Number(120.0)));
    assert!(!mean(Level::Number(120.5), Level::Number(130.0)));
    assert!(!mean(Level::Number(0.0), columns(&["limit"])));
}

#[test]
fn a_process_that_moves_less_than_the_others_is_found() {
    let mut outcome = Outcome::default();
    let samples = Samples {
        unit: "bytes/s".into(),
        values: vec![100.0, 100.0, 85.0, 115.0],
    };
    let name = format!("{RATE_OF_EACH}@writer");
    outcome.samples.insert(name, samples);
    let within = |of: &str, within_percent| {
        let of = of.into();
        verdict(Term::Shares { of, within_percent }, WHOLE, &outcome)
    };
    assert!(within("writer", 15.0).0);
    assert!(!within("writer", 14.9).0);
    assert!(!within("reader", 50.0).0, "nobody moved anything");
}

#[test]
fn figures_and_percentiles_are_told_apart_from_what_is_not_there() {
    let mut outcome = Outcome::default();
    outcome.counters.insert("pswpout".into(), 7);
    let recorded = Distribution {
        count: 2,
        max: 9.0,
        percentiles: vec![(50.0, 3.0), (99.0, 8.0)],
        ..Distribution::default()
    };
    outcome.distributions.insert("pause".into(), recorded);
    let bounds = |at_most| Bounds {
        at_least: None,
        at_most: Some(at_most),
    };
    let figure = |of: &str, at_most| {
        let (of, bounds) = (of.into(), bounds(at_most));
        verdict(Term::Figure { of, bounds }, WHOLE, &outcome)
    };
    assert!(figure("pswpout", 7.0).0);
    assert!(!figure("pswpout", 6.0).0);
    let (held, found) = figure("pswpin", 6.0);
    assert!(!held && found.contains("there are: pswpout"), "{found}");
    let latency = |of: &str, percentile, at_most| {
        let term = Term::Latency {
            of: of.into(),
            percentile,
            bounds: bounds(at_most),
        };
        verdict(term, WHOLE, &outcome).0
    };
    assert!(latency("pause", 99.0, 8.0));
    assert!(!latency("pause", 99.0, 7.0));
    assert!(!latency("pause", 100.0, 8.9), "the largest");
    assert!(
        !latency("pause", 98.0, 100.0),
        "a percentile that nobody kept"
    );
    assert!(!latency("write", 99.0, 100.0));
}

#[test]
fn what_did_not_happen_happened_no_time() {
    let mut outcome = Outcome::default();
    let pause = || Distribution::default();
    outcome.distributions.insert("pause".into(), pause());
    let bounds = |at_least, at_most| Bounds { at_least, at_most };
    let figure = |of: &str, bounds| {
        let of = of.into();
        verdict(Term::Figure { of, bounds }, WHOLE, &outcome)
    };
    for name in [
        "stall_events_total;direct;WRITEBACK",
        "longest_pause_s@data",
        "pause_max_ms",
    ] {
        let (held, found) = figure(name, bounds(None, Some(0.0)));
        assert!(held, "{name}: {found}");
        assert!(!figure(name, bounds(Some(1.0), None)).0, "{name}");
    }
    let share = "stall_share_zero;WRITEBACK";
    assert!(!figure(share, bounds(None, Some(1.0))).0, "of nothing");
    let latency = |of: &str, bounds| {
        let term = Term::Latency {
            of: of.into(),
            percentile: 100.0,
            bounds,
        };
        verdict(term, WHOLE, &outcome).0
    };
    assert!(latency("pause", bounds(None, Some(200.0))));
    assert!(!latency("pause", bounds(Some(1.0), None)));
    assert!(!latency("write_latency", bounds(None, Some(200.0))));
}
