//! Figures of made-up runs.

use super::*;
use crate::outcome::Series;

#[test]
fn figures_come_first_and_every_run_has_its_times() {
    let mut outcome = Outcome {
        elapsed_s: 9.0,
        user_s: 1.0,
        system_s: 2.0,
        ..Outcome::default()
    };
    assert_eq!(measure(&outcome, "elapsed"), Some(9.0));
    assert_eq!(measure(&outcome, "user_plus_system_cpu"), Some(3.0));
    outcome.figures.insert("elapsed".into(), 8.0);
    assert_eq!(measure(&outcome, "elapsed"), Some(8.0));
    assert_eq!(measure(&outcome, "unheard_of"), None);
}

#[test]
fn two_names_are_divided_unless_the_second_is_nothing() {
    let mut outcome = Outcome::default();
    outcome.figures.insert("page_writes_by_reclaim".into(), 5.0);
    outcome.figures.insert("kswapd_pages_scanned".into(), 100.0);
    let metric = "page_writes_by_reclaim / kswapd_pages_scanned";
    assert_eq!(measure(&outcome, metric), Some(0.05));
    outcome.figures.insert("kswapd_pages_scanned".into(), 0.0);
    assert_eq!(measure(&outcome, metric), None);
}

#[test]
fn statistics_of_distributions_and_samples() {
    let mut outcome = Outcome::default();
    let latency = Distribution {
        count: 3,
        mean: 4.0,
        percentiles: vec![(99.0, 80.0)],
        ..Distribution::default()
    };
    outcome
        .distributions
        .insert("write_latency".into(), latency);
    let values = vec![1.0, 3.0];
    let samples = Samples {
        unit: "ms".into(),
        values,
    };
    outcome.samples.insert("mmap_latency@21".into(), samples);
    assert_eq!(measure(&outcome, "write_latency_p99"), Some(80.0));
    assert_eq!(measure(&outcome, "write_latency_amean"), Some(4.0));
    assert_eq!(measure(&outcome, "mmap_latency_amean@21"), Some(2.0));
    assert_eq!(measure(&outcome, "mmap_latency_max@21"), Some(3.0));
    assert_eq!(measure(&outcome, "mmap_latency_coeffvar@21"), Some(0.5));
}

#[test]
fn shares_of_zones_over_time() {
    let column = |name: &str, values: &[f64]| Column {
        name: name.into(),
        unit: "pages".into(),
        values: values.into(),
    };
    let outcome = Outcome {
        series: Series {
            at_s: vec![0.0, 1.0],
            columns: vec![
                column("dirty@0.Normal", &[10.0, 30.0]),
                column("writeback@0.Normal", &[0.0, 10.0]),
                column("free@0.Normal", &[50.0, 10.0]),
                column("inactive_file@0.Normal", &[0.0, 60.0]),
                column("active_file@0.Normal", &[50.0, 10.0]),
            ],
        },
        ..Outcome::default()
    };
    assert_eq!(measure(&outcome, "dirty_of_inactive@Normal"), Some(0.5));
    let both = measure(&outcome, "dirty_and_writeback_of_inactive@Normal").unwrap();
    assert!((both - 40.0 / 60.0).abs() < 1e-12);
    assert_eq!(measure(&outcome, "dirty_of_inactive@DMA"), None);
    // The first of two samples sorted, as the field takes a percentile of two.
    assert_eq!(measure(&outcome, "zone_dirty_share_p99"), Some(0.1));
}
