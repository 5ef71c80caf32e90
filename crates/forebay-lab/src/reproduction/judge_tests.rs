//! Judgements of made-up runs.

use super::*;
use crate::outcome::Outcome;
use crate::reproduction::Position;

fn run(seed: u64, figures: &[(&str, f64)]) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.setting.seed = seed;
    for (name, value) in figures {
        outcome.figures.insert((*name).into(), *value);
    }
    outcome
}

fn target(test: &str) -> Target {
    let mut all = targets().into_iter();
    all.find(|target| target.test == test)
        .expect("the test is there")
}

/// Runs of one cell with seeds 1, 2, ...: a figure before and after.
fn pairs(cell: &str, metric: &str, values: &[(f64, f64)]) -> Evidence {
    let mut evidence = Evidence::default();
    add(&mut evidence, cell, metric, values);
    evidence
}

fn add(evidence: &mut Evidence, cell: &str, metric: &str, values: &[(f64, f64)]) {
    for (index, (old, new)) in values.iter().enumerate() {
        let seed = index as u64 + 1;
        let shown = [
            (metric, *old),
            ("page_writes_file", 50.0),
            ("direct_pages_scanned", 9.0),
        ];
        evidence.add(cell, Position::Before, run(seed, &shown));
        evidence.add(cell, Position::After, run(seed, &[(metric, *new)]));
    }
}

#[test]
fn nothing_that_was_not_run_is_judged() {
    let judged = judge_all(&Evidence::default());
    assert_eq!(judged.len(), 89);
    assert!(judged.iter().all(|one| one.verdict == Verdict::NotTested));
    assert_eq!(judged[0].remark, "not run");
}

#[test]
fn a_ratio_is_of_the_means_and_its_ends_are_included() {
    let evidence = pairs(
        "stutterp",
        "duration_system",
        &[(100.0, 50.0), (300.0, 170.0)],
    );
    let judged = judge(target("B1.1"), &evidence);
    assert_eq!(
        (judged.verdict, judged.found[0].value),
        (Verdict::Holds, 0.55)
    );
    let evidence = pairs("stutterp", "duration_system", &[(100.0, 56.0)]);
    assert_eq!(judge(target("B1.1"), &evidence).verdict, Verdict::Fails);
}

#[test]
fn four_of_five_seeds_must_go_the_way_of_the_mean() {
    let mostly = [
        (100.0, 1.0),
        (100.0, 1.0),
        (100.0, 1.0),
        (100.0, 1.0),
        (100.0, 120.0),
    ];
    let evidence = pairs("stutterp", "duration_system", &mostly);
    assert_eq!(judge(target("B1.1"), &evidence).verdict, Verdict::Holds);
    let half = [
        (100.0, 1.0),
        (100.0, 1.0),
        (100.0, 1.0),
        (50.0, 60.0),
        (50.0, 60.0),
    ];
    let evidence = pairs("stutterp", "duration_system", &half);
    assert_eq!(judge(target("B1.1"), &evidence).verdict, Verdict::Fails);
}

#[test]
fn a_baseline_without_the_problem_is_not_tested() {
    let mut evidence = Evidence::default();
    evidence.add(
        "stutterp",
        Position::Before,
        run(1, &[("duration_system", 9.0)]),
    );
    evidence.add(
        "stutterp",
        Position::After,
        run(1, &[("duration_system", 1.0)]),
    );
    let judged = judge(target("B1.1"), &evidence);
    assert_eq!(judged.verdict, Verdict::NotTested);
    assert!(
        judged.remark.contains("direct_pages_scanned"),
        "{}",
        judged.remark
    );
}

#[test]
fn a_ratio_to_nothing_is_not_tested() {
    let evidence = pairs("stutterp", "page_writes_anon", &[(0.0, 0.0)]);
    assert_eq!(
        judge(target("B10.2"), &evidence).verdict,
        Verdict::NotTested
    );
}

#[test]
fn of_some_cells_the_same_share_is_needed_as_of_all() {
    let mut evidence = Evidence::default();
    let cells = ["512M1P", "512M", "512M-4X", "512M-16X"];
    for (number, cell) in cells.iter().enumerate() {
        let ratio = if number == 0 { 1.2 } else { 0.9 };
        let name = format!("simple-wb/{cell}-xfs");
        add(&mut evidence, &name, "elapsed", &[(100.0, 100.0 * ratio)]);
    }
    // 10 of 12 is 4 of 4, rounded up.
    let judged = judge(target("A3.1"), &evidence);
    assert_eq!(judged.verdict, Verdict::Fails);
    assert_eq!(judged.remark, "4 of 12 cells judged, 4 needed");
    assert_eq!(judged.found.iter().filter(|found| found.inside).count(), 3);
}

#[test]
fn a_cell_that_was_not_run_is_reported() {
    let evidence = pairs("copy/ext4", "elapsed", &[(100.0, 101.0)]);
    let judged = judge(target("C6.1"), &evidence);
    assert_eq!(judged.verdict, Verdict::Holds);
    assert_eq!(judged.remark, "1 of 3 cells judged, 1 needed");
}

#[test]
fn cells_that_are_faster_are_counted_and_the_worst_is_found() {
    let mut evidence = Evidence::default();
    for (cell, ratio) in [
        ("512M1P", 0.9),
        ("512M", 1.4),
        ("512M-4X", 0.8),
        ("512M-16X", 0.95),
    ] {
        let name = format!("mmap-strm/{cell}-xfs");
        add(&mut evidence, &name, "elapsed", &[(100.0, 100.0 * ratio)]);
    }
    let count = judge(target("A8.1"), &evidence);
    assert_eq!((count.verdict, count.found[0].value), (Verdict::Holds, 3.0));
    let worst = judge(target("A8.2"), &evidence);
    assert_eq!((worst.verdict, worst.found[0].value), (Verdict::Fails, 1.4));
}

#[test]
fn the_worst_number_of_workers_before_is_looked_at_if_it_stands_out() {
    let with = |worst: f64| {
        let mut evidence = Evidence::default();
        let before = [
            ("mmap_latency_amean@4", 30.0),
            ("mmap_latency_amean@21", worst),
            ("mmap_latency_amean@64", 35.0),
            ("direct_pages_scanned", 5.0),
        ];
        let after = [
            ("mmap_latency_amean@4", 60.0),
            ("mmap_latency_amean@21", 40.0),
        ];
        evidence.add("stutterp", Position::Before, run(1, &before));
        evidence.add("stutterp", Position::After, run(1, &after));
        judge(target("B9.1"), &evidence)
    };
    assert_eq!(
        (with(400.0).verdict, with(400.0).found[0].value),
        (Verdict::Holds, 0.1)
    );
    assert_eq!(with(50.0).verdict, Verdict::NotTested);
    assert_eq!(
        with(50.0).remark,
        "the largest mmap_latency_amean before is less than three times the middle one"
    );
}

#[test]
fn every_run_must_keep_a_bound_that_is_for_every_run() {
    let evidence = pairs(
        "dd=1/hdd1-desktop",
        "pause_max_ms",
        &[(0.0, 100.0), (0.0, 205.0)],
    );
    assert_eq!(judge(target("D2.3"), &evidence).verdict, Verdict::Fails);
    let evidence = pairs(
        "dd=1/hdd1-desktop",
        "pause_max_ms",
        &[(0.0, 100.0), (0.0, 200.0)],
    );
    assert_eq!(judge(target("D2.3"), &evidence).verdict, Verdict::Holds);
}

#[test]
fn sums_gains_other_cells_and_spreads() {
    let mut evidence = Evidence::default();
    add(
        &mut evidence,
        "nfs/1M-1dd",
        "write_throughput",
        &[(10.0, 8.0)],
    );
    add(
        &mut evidence,
        "nfs/1G-1dd",
        "write_throughput",
        &[(30.0, 32.0)],
    );
    assert_eq!(judge(target("D10.1"), &evidence).found[0].value, 1.0);

    add(
        &mut evidence,
        "fsmark/512M-xfs",
        "files_per_second_mean",
        &[(10.0, 15.0)],
    );
    add(
        &mut evidence,
        "fsmark/4608M-xfs",
        "files_per_second_mean",
        &[(10.0, 12.5)],
    );
    assert_eq!(judge(target("A6.1"), &evidence).found[0].value, 2.0);

    for (cell, throughput) in [("dd=1000/raid0-12", 60.0), ("dd=1/raid0-12", 80.0)] {
        let mut run = Outcome::default();
        run.figures.insert("write_throughput".into(), throughput);
        evidence.add(cell, Position::LargeChunk, run);
    }
    assert_eq!(judge(target("D8.1"), &evidence).found[0].value, 0.75);

    add(
        &mut evidence,
        "copy/fuse-ntfs",
        "elapsed",
        &[(90.0, 99.0), (110.0, 101.0)],
    );
    let spread = judge(target("C7.1"), &evidence);
    assert!((spread.found[0].value - 0.1).abs() < 1e-12);
    assert_eq!(spread.verdict, Verdict::Holds);
}

#[test]
fn nine_latencies_are_nine_cells() {
    let mut evidence = Evidence::default();
    let latency = |p99| {
        let names = ["read", "write", "allocation"];
        let mut run = run(1, &[]);
        for name in names {
            for (at, value) in [("p50", 1.0), ("p95", 2.0), ("p99", p99)] {
                run.figures.insert(format!("{name}_latency_{at}"), value);
            }
        }
        run
    };
    evidence.add("simoop/uma-4.11", Position::Before, latency(3.0));
    evidence.add("simoop/uma-4.11", Position::After, latency(3.2));
    let judged = judge(target("E6.1"), &evidence);
    assert_eq!((judged.verdict, judged.found.len()), (Verdict::Holds, 9));
}
