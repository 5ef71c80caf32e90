use super::*;
use crate::arguments::BenchArguments;
use crate::contender::{Concurrency, Load, Sample, Step};
use crate::layout::Layout;
use crate::measure::Times;
use crate::phases::{mixed, order};
use crate::plan::stages;
use std::path::Path;

fn verdict(results: &Results, text: &str) -> Verdict {
    verdicts(LIBRARY, results)
        .into_iter()
        .find(|verdict| verdict.goal.text == text)
        .unwrap()
}

fn add(results: &mut Results, who: Who, threads: u32, value: f64) {
    let samples = vec![Sample::plain("copy", "ns a page", value)];
    results.add(Phase::Hit, Concurrency::new(threads, threads), who, samples);
}

#[test]
fn nothing_measured_is_no_verdict() {
    assert!(
        verdicts(LIBRARY, &Results::default())
            .iter()
            .all(|v| v.word() == "not measured")
    );
}

#[test]
fn ratios_are_within_one_run() {
    let mut results = Results::default();
    add(&mut results, Who::Forebay, 1, 300.0);
    add(&mut results, Who::Floor, 1, 250.0);
    add(&mut results, Who::Kernel, 1, 510.0);
    add(&mut results, Who::Forebay, 2, 320.0);
    let copy = verdict(&results, "a copy, against the plain copy of a page");
    assert_eq!(copy.word(), "met");
    assert!(copy.to_string().contains("1.20 x"), "{copy}");
    let pread = verdict(&results, "the kernel's pread, against a copy");
    assert_eq!(pread.word(), "MISSED");
    assert!(pread.to_string().contains("MISSED"), "{pread}");
    let scaling = verdict(&results, "2 threads, against 1");
    assert_eq!(scaling.word(), "met");
    assert!(scaling.to_string().contains("1.88 x"), "{scaling}");
}

#[test]
fn goals_of_a_phase_have_texts_of_their_own() {
    let mut seen = std::collections::BTreeSet::new();
    let mut goals = LIBRARY.iter().chain(FRONTS);
    // The column for them is 59 wide.
    assert!(goals.all(|goal| seen.insert((goal.phase, goal.text)) && goal.text.len() <= 58));
}

/// The samples of `step` for a contender that is exactly as fast as any other.
fn even_samples(step: &Step) -> Vec<Sample> {
    let mut times = Times::default();
    times.record(50_000);
    let of_commits = |name: &str| {
        vec![
            Sample::plain(&format!("{name} rate"), "commits/s", 100.0),
            times.micros(name),
            Sample::plain(&format!("{name} sleeps"), "a commit", 4.0),
        ]
    };
    match step.load {
        Load::ReadInOrder => order::samples(1 << 20, 1_000_000, 1_000_000),
        Load::ReadRandom | Load::OverwriteRandom | Load::ReadAndOverwriteRandom => {
            mixed::samples(step.load, &times, 1_000_000)
        }
        Load::CommitOverwrites => of_commits("overwrite"),
        Load::CommitAppends => of_commits("append"),
        _ => Vec::new(),
    }
}

#[test]
fn to_be_even_meets_some_goals_of_these_phases_and_loses_the_others() {
    let mut results = Results::default();
    let layout = Layout::new(Path::new("/x"), 256 << 20);
    let arguments = BenchArguments {
        memory_bytes: layout.memory_bytes(),
        parent_folder: "/x".into(),
        quick: true,
        rounds: None,
        phases: Vec::new(),
        growth_bytes: 64 << 20,
        fronts: false,
        json_file: None,
    };
    for stage in stages(&layout, &arguments, 1) {
        for step in &stage.steps {
            for who in Who::LIBRARY {
                results.add(
                    step.phase,
                    step.concurrency(),
                    who,
                    step.named(even_samples(step)),
                );
            }
        }
    }
    let words_of = |phase| {
        let of_phase = verdicts(LIBRARY, &results)
            .into_iter()
            .filter(|verdict| verdict.goal.phase == phase);
        let words = of_phase.map(|verdict| (verdict.goal.text, verdict.word()));
        words.collect::<Vec<_>>()
    };
    let order = words_of(Phase::Order);
    assert_eq!(order.len(), 6);
    assert!(order.iter().all(|(_, word)| *word == "met"), "{order:?}");
    for (text, word) in words_of(Phase::Mixed) {
        let is_share = text.starts_with('p');
        assert_eq!(word, if is_share { "met" } else { "MISSED" }, "{text}");
    }
    for (text, word) in words_of(Phase::Commit) {
        let is_lost = text.contains("of 1 file") || text.contains("sleeps");
        assert_eq!(word, if is_lost { "MISSED" } else { "met" }, "{text}");
    }
}

#[test]
fn the_slowest_of_several_loads_counts() {
    let mut results = Results::default();
    for (threads, kernel) in [(1, 50.0), (4, 100.0), (16, 90.0)] {
        let load = Concurrency::new(threads, threads);
        let rate = |value| vec![Sample::plain("read rate", "ops/s", value)];
        results.add(Phase::Mixed, load, Who::Forebay, rate(90.0));
        results.add(Phase::Mixed, load, Who::Kernel, rate(kernel));
    }
    let reads = verdict(&results, "reads, against the kernel, 1, 4 or 16 threads");
    assert_eq!(reads.word(), "MISSED");
    assert!(reads.to_string().contains("0.90 x"), "{reads}");
}

#[test]
fn a_goal_of_a_front_is_met_missed_or_not_measured() {
    let mut results = Results::default();
    for (who, rate) in [
        (Who::Forebay, 150.0),
        (Who::Nbdkit, 100.0),
        (Who::QemuNbd, 100.0),
    ] {
        let samples = vec![Sample::plain(metric::READ, "IOPS", rate)];
        results.add(Phase::Nbd, Concurrency::new(1, 32), who, samples);
    }
    let verdicts = verdicts(FRONTS, &results);
    let words: Vec<&str> = verdicts.iter().map(Verdict::word).collect();
    assert_eq!(words[..3], ["met", "not measured", "MISSED"]);
    assert!(words[3..].iter().all(|word| *word == "not measured"));
    let line = verdicts[0].to_string();
    assert!(
        line.contains("1.50 x") && line.contains("at least 1"),
        "{line}"
    );
    assert!(verdicts[0].columns().contains("qemu-nbd"));
}
