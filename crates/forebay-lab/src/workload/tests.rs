use crate::outcome::Outcome;
use crate::run::{Plan, run};
use crate::workload::ALL;

/// A run of a scaled-down machine.
fn small(workload: &str, machine: &str, knobs: &[(&str, &str)]) -> Plan {
    let plan = Plan::new(workload, machine).expect("the machine ships");
    let knobs = knobs.iter();
    knobs.fold(plan, |plan, (knob, value)| plan.with(knob, value))
}

fn told(plan: &Plan) -> Outcome {
    let outcome = run(plan).unwrap_or_else(|error| panic!("{}: {error}", plan.workload));
    assert!(outcome.elapsed_s > 0.0);
    outcome
}

fn figure(outcome: &Outcome, name: &str) -> f64 {
    outcome
        .figure(name)
        .unwrap_or_else(|| panic!("no figure {name}"))
}

#[test]
fn workloads_have_different_names_and_knobs_that_can_be_read() {
    for workload in ALL {
        assert_eq!(
            ALL.iter()
                .filter(|other| other.name == workload.name)
                .count(),
            1
        );
        for knob in workload.knobs {
            let plan = small(workload.name, "amd4-512m", &[(knob.name, knob.usual)]);
            assert!(plan.check().is_ok(), "{} {}", workload.name, knob.name);
        }
    }
}

#[test]
fn fs_mark_tells_files_a_second_for_each_iteration() {
    let knobs = [("scale", "16"), ("iterations", "2"), ("files", "12")];
    let outcome = told(&small("fs-mark", "amd4-512m", &knobs));
    assert_eq!(outcome.samples["files_per_second"].values.len(), 2);
    // Every page of 2 x 12 files of 10 MiB was dirtied once.
    assert_eq!(outcome.counters["nr_dirtied"], 2 * 12 * 2_560);
    assert_eq!(outcome.counters["nr_vmscan_write_file"], 0);
}

#[test]
fn mapped_files_and_anonymous_memory_are_touched_page_by_page() {
    let knobs = [
        ("scale", "16"),
        ("alone_tenths", "20"),
        // More than the memory holds: it has to be swapped.
        ("anonymous_percent", "50"),
        ("file_passes", "2"),
        ("anonymous_passes", "2"),
    ];
    let outcome = told(&small("mmap-strm", "amd4-512m", &knobs));
    assert!(figure(&outcome, "elapsed_alone") < outcome.elapsed_s);
    assert!(outcome.counters["pswpout"] > 0, "memory is short");
    assert!(outcome.counters["pgpgin"] > 0, "the second pass reads");
    assert!(outcome.user_s > 0.0, "touching is the process's own work");
}

#[test]
fn a_copy_through_a_daemon_dirties_the_block_device() {
    let knobs = [("scale", "64")];
    let outcome = told(&small("ntfs-copy", "box-4g-3zones", &knobs));
    let pages = (8 << 30) / 64 / 4_096;
    assert!(outcome.counters["nr_dirtied"] >= pages);
    assert!(figure(&outcome, "task_clock_msecs@dd") > 0.0);
    assert!(figure(&outcome, "task_clock_msecs@ntfs-3g") > 0.0);
    let direct = told(&small(
        "ntfs-copy",
        "box-4g-3zones",
        &[("scale", "64"), ("file_system", "xfs")],
    ));
    assert_eq!(direct.figure("task_clock_msecs@ntfs-3g"), None);
}

#[test]
fn many_writers_share_and_are_killed_at_the_end() {
    let knobs = [
        ("scale", "16"),
        ("writers", "8"),
        ("rsync", "1"),
        ("seconds", "20"),
        ("settle_seconds", "10"),
    ];
    let outcome = told(&small("many-dd", "hdd1-desktop", &knobs));
    assert!(
        (outcome.elapsed_s - 10.0).abs() < 1e-6,
        "{}",
        outcome.elapsed_s
    );
    assert_eq!(outcome.samples["per_dd_bytes_per_s"].values.len(), 8);
    assert!(figure(&outcome, "per_dd_bytes_per_s_coeffvar") < 0.5);
    assert!(figure(&outcome, "rsync_throughput") > 0.0);
    assert!(figure(&outcome, "pause_max_ms") <= 200.0);
    assert!(figure(&outcome, "time_to_kill_writer") < 0.25);
    assert!(figure(&outcome, "write_throughput") > 50e6);
}

#[test]
fn a_writer_that_writes_back_by_itself_is_deaf_meanwhile() {
    let knobs = [
        ("scale", "16"),
        ("writers", "20"),
        ("seconds", "20"),
        ("settle_seconds", "10"),
    ];
    let plan = small("many-dd", "hdd1-desktop", &knobs).under("linux-3.2+foreground");
    let outcome = told(&plan);
    let paced = told(&small("many-dd", "hdd1-desktop", &knobs));
    let to_kill = |outcome: &Outcome| figure(outcome, "time_to_kill_writer");
    assert!(to_kill(&outcome) > to_kill(&paced), "{}", to_kill(&outcome));
}
