use super::*;
use crate::report::{Comparison, table};
use crate::world::{self, Platform};
use std::path::Path;

/// A run of a few milliseconds.
fn small(seed: u64) -> Plan {
    let plan = Plan::new("simple-wb", "amd4-512m").expect("it ships");
    Plan {
        seed,
        ..plan.with("scale", "16").with("iterations", "2")
    }
}

#[test]
fn one_seed_gives_one_run_and_another_seed_another() {
    let hash = |seed| run(&small(seed)).expect("it runs").trace_hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn what_is_left_dirty_changes_nothing_of_what_was_measured() {
    let ended = |ending| {
        let plan = small(1);
        run(&Plan { ending, ..plan }).expect("it runs")
    };
    let (synced, at_once) = (ended(Ending::Synced), ended(Ending::AtOnce));
    assert!(
        synced
            .figure("final_sync")
            .is_some_and(|span_s| span_s > 0.0)
    );
    assert_eq!(at_once.figure("final_sync"), None);
    let mut figures = synced.figures.clone();
    figures.remove("final_sync");
    assert_eq!(at_once.figures, figures);
    assert_eq!(at_once.counters, synced.counters);
    assert_eq!(at_once.samples, synced.samples);
    assert_ne!(at_once.trace_hash, synced.trace_hash);
}

#[test]
fn no_level_is_looked_at_once_the_workload_has_ended() {
    let plan = Plan::new("fs-mark", "amd4-512m-usb").expect("it ships");
    let small = plan.with("scale", "8").with("iterations", "1");
    let outcome = run(&small.with("files", "8")).expect("it runs");
    let synced_s = outcome.figure("final_sync").expect("it was synced");
    assert!(synced_s > 1.0, "there was time to look: {synced_s} s");
    let (last_s, end_s) = (outcome.series.at_s.last(), outcome.elapsed_s);
    assert!(
        last_s.is_none_or(|&at_s| at_s <= end_s),
        "{last_s:?}, {end_s} s"
    );
}

#[test]
fn a_run_tells_all_that_it_can_be_run_again_with() {
    let outcome = run(&small(3)).expect("it runs");
    assert_eq!(outcome.setting.workload, "simple-wb");
    assert_eq!(outcome.setting.seed, 3);
    assert_eq!(outcome.setting.knobs["scale"], "16");
    assert_eq!(outcome.samples["elapsed_per_iteration"].values.len(), 2);
    assert!(outcome.cost.page_events > 10_000, "{:?}", outcome.cost);
    let text = serde_json::to_string(&outcome).expect("plain values become JSON");
    let again: Outcome = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(again.counters, outcome.counters);
}

#[test]
fn runs_side_by_side_come_back_in_order() {
    let plans = vec![small(1), small(2), small(3)];
    let hashes: Vec<u64> = plans
        .iter()
        .map(|plan| run(plan).expect("it runs").trace_hash)
        .collect();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let noted = ended.clone();
    let outcomes = run_all(plans, 2, move |progress| lock(&noted).push(progress.ended));
    let side_by_side: Vec<u64> = outcomes
        .into_iter()
        .map(|outcome| outcome.expect("it runs").trace_hash)
        .collect();
    assert_eq!(side_by_side, hashes);
    let mut ended = lock(&ended).clone();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3]);
}

#[test]
fn what_does_not_exist_is_answered_with_what_does() {
    let reported = |plan: Plan| {
        let error = run(&plan).expect_err("it does not exist");
        assert!(error.is_bad_call());
        error.to_string()
    };
    let unknown = Plan {
        workload: "tetris".into(),
        ..small(1)
    };
    assert!(reported(unknown).contains("simple-wb"));
    assert!(reported(small(1).under("linux-1.0")).contains("forebay"));
    assert!(reported(small(1).with("jbos", "2")).contains("jobs"));
    assert!(reported(small(1).with("swappiness", "900")).contains("0 to 200"));
    assert!(reported(small(1).with("scale", "1000")).contains("4M"));
    let too_large = small(1).with("memories", "1000000");
    assert!(reported(too_large).contains("scale it down"));
}

#[test]
fn what_a_machine_takes_of_this_computers_memory_is_what_the_engine_takes() {
    let ready = small(1).check().expect("it is a plan");
    let booted = world::simulate(&ready.machine, ready.policy, 1, false, &[]).expect("it boots");
    let statistics = booted.world.cache().statistics();
    let reported = ready.memory_bytes(&Platform::Simulated);
    // On a small machine the memory that does not grow with the pages is part of it.
    assert!(
        reported <= statistics.memory_bytes,
        "{reported}, {statistics:?}"
    );
    let large = Plan::new("simple-wb", "amd4-4608m").expect("it ships");
    let ready = large.check().expect("it is a plan");
    let booted = world::simulate(&ready.machine, ready.policy, 1, false, &[]).expect("it boots");
    let taken = booted.world.cache().statistics().memory_bytes;
    let reported = ready.memory_bytes(&Platform::Simulated);
    assert!(
        (reported as f64 / taken as f64 - 1.0).abs() < 0.05,
        "{reported} of {taken}"
    );
    let real = ready.memory_bytes(&Platform::Real("/tmp".into()));
    assert!(real > ready.machine.memory.all_managed_pages() * 4_096);
}

#[test]
fn a_workload_runs_on_real_files_too_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan {
        platform: Platform::Real(folder.path().into()),
        ..small(1).with("memories", "1").with("iterations", "1")
    };
    let outcome = run(&plan).expect("it runs");
    let machine = plan.check().expect("it is a plan").machine;
    assert_eq!(
        outcome.counters["nr_dirtied"],
        machine.memory.bytes() / 4_096
    );
    assert!(outcome.elapsed_s > 0.0);
    assert_is_empty(folder.path());
}

#[test]
fn files_that_a_workload_keeps_go_with_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan::new("fs-mark", "amd4-512m").expect("it ships");
    let small = plan.with("iterations", "1").with("files", "20");
    for _ in 0..5 {
        let plan = Plan {
            platform: Platform::Real(folder.path().into()),
            ..small.clone().with("file_bytes", "1M")
        };
        run(&plan).expect("it runs");
        assert_is_empty(folder.path());
    }
}

#[test]
fn nothing_is_reported_of_processors_and_events_in_real_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan {
        platform: Platform::Real(folder.path().into()),
        ..small(1).with("memories", "1").with("iterations", "1")
    };
    let outcome = run(&plan).expect("it runs");
    assert_eq!(outcome.figure("duration_user"), None);
    assert_eq!(outcome.figure("cpu_percent"), None);
    let text = table::render(&Comparison::of(&[outcome]));
    assert!(text.contains("seed 1, no trace in real time"), "{text}");
    assert!(!text.contains("System"), "{text}");
    let simulated = run(&small(1)).expect("it runs");
    let text = table::render(&Comparison::of(&[simulated]));
    assert!(text.contains("seed 1, trace "), "{text}");
    assert!(text.contains("System"), "{text}");
}

fn assert_is_empty(folder: &Path) {
    let entries = std::fs::read_dir(folder).expect("it is there");
    let names: Vec<_> = entries.map(|entry| entry.map(|it| it.path())).collect();
    assert!(names.is_empty(), "{names:?}");
}
