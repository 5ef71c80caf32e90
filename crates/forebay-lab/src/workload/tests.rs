use crate::outcome::Outcome;
use crate::run::{Plan, run};
use crate::workload::ALL;

/// A run of a scaled-down machine.
fn small(workload: &str, machine: &str, knobs: &[(&str, &str)]) -> Plan {
    let plan = Plan::new(workload, machine).expect("the machine ships");
    let knobs = knobs.iter();
    knobs.fold(plan, |plan, (knob, value)| plan.with(knob, value))
}

fn reported(plan: &Plan) -> Outcome {
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
    let outcome = reported(&small("fs-mark", "amd4-512m", &knobs));
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
    let outcome = reported(&small("mmap-strm", "amd4-512m", &knobs));
    assert!(figure(&outcome, "elapsed_alone") < outcome.elapsed_s);
    assert!(outcome.counters["pswpout"] > 0, "memory is short");
    assert!(outcome.counters["pgpgin"] > 0, "the second pass reads");
    assert!(outcome.user_s > 0.0, "touching is the process's own work");
}

#[test]
fn mappings_larger_than_the_machine_are_a_bad_call_before_the_first_stage() {
    let files = ("anonymous_percent", "30");
    let anonymous = ("anonymous_percent", "100");
    let cases = [
        ("18446744073709551615", files, "larger device"),
        ("1000000000", files, "larger device"),
        ("1000000000", anonymous, "more swap"),
    ];
    for (tenths, part, advice) in cases {
        let knobs = [("scale", "16"), ("mixed_tenths", tenths), part];
        let refused = run(&small("mmap-strm", "amd4-512m", &knobs)).expect_err(tenths);
        assert!(refused.is_bad_call(), "{refused}");
        assert!(refused.to_string().contains(advice), "{refused}");
    }
}

#[test]
fn a_copy_through_a_daemon_dirties_the_block_device() {
    let knobs = [("scale", "64")];
    let outcome = reported(&small("ntfs-copy", "box-4g-3zones", &knobs));
    let pages = (8 << 30) / 64 / 4_096;
    assert!(outcome.counters["nr_dirtied"] >= pages);
    assert!(figure(&outcome, "task_clock_msecs@dd") > 0.0);
    assert!(figure(&outcome, "task_clock_msecs@ntfs-3g") > 0.0);
    let direct = reported(&small(
        "ntfs-copy",
        "box-4g-3zones",
        &[("scale", "64"), ("file_system", "xfs")],
    ));
    assert_eq!(direct.figure("task_clock_msecs@ntfs-3g"), None);
}

#[test]
fn only_the_last_of_several_copies_is_measured() {
    for file_system in ["ntfs", "xfs"] {
        let knobs = [("scale", "64"), ("file_system", file_system)];
        let one = small("ntfs-copy", "box-4g-3zones", &knobs);
        let pages = (8 << 30) / 64 / 4_096;
        let [once, again] = [one.clone(), one.with("runs_before", "1")].map(|it| reported(&it));
        for outcome in [&once, &again] {
            let dirtied = outcome.counters["nr_dirtied"];
            assert!((pages..pages * 3 / 2).contains(&dirtied), "{dirtied}");
        }
        assert_ne!(once.trace_hash, again.trace_hash, "{file_system}");
    }
}

#[test]
fn a_copy_beside_programs_that_cannot_start_ends_with_the_reason() {
    let knobs = [("scale", "64"), ("bytes", "1M")];
    // This one has no swap.
    let refused = run(&small("ntfs-copy", "hdd1-desktop", &knobs)).expect_err("no swap");
    assert!(refused.to_string().contains("swap"), "{refused}");
    for (knob, value) in [("anonymous", "1000T"), ("read_once", "100000T")] {
        let plan = small("ntfs-copy", "box-4g-3zones", &knobs).with(knob, value);
        assert!(run(&plan).is_err(), "{knob}={value}");
    }
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
    let outcome = reported(&small("many-dd", "hdd1-desktop", &knobs));
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
    let outcome = reported(&plan);
    let paced = reported(&small("many-dd", "hdd1-desktop", &knobs));
    let to_kill = |outcome: &Outcome| figure(outcome, "time_to_kill_writer");
    assert!(to_kill(&outcome) > to_kill(&paced), "{}", to_kill(&outcome));
}

#[test]
fn a_mapping_is_timed_beside_writers_and_hogs() {
    let knobs = [
        ("scale", "64"),
        ("workers", "7"),
        ("warm_up_seconds", "1"),
        ("seconds", "2"),
    ];
    let outcome = reported(&small("stutterp", "srv16-5.15", &knobs));
    let passes = &outcome.samples["mmap_latency@7"].values;
    let mean = passes.iter().sum::<f64>() / passes.len() as f64;
    assert!((figure(&outcome, "mmap_latency_amean@7") - mean).abs() < 1e-6);
    assert!(figure(&outcome, "mmap_latency_max@7") >= figure(&outcome, "mmap_latency_p99@7"));
    assert!(
        outcome.counters["pswpout"] > 0,
        "hogs take most of the memory"
    );
    assert!(outcome.elapsed_s > 3.0);
}

#[test]
fn a_step_has_files_to_write_and_hogs_whatever_the_dirty_limit_is() {
    for percent in ["0", "100"] {
        let knobs = [
            ("scale", "64"),
            ("workers", "3"),
            ("most_workers", "4"),
            ("warm_up_seconds", "1"),
            ("seconds", "1"),
            ("dirty_ratio", percent),
        ];
        let outcome = reported(&small("stutterp", "srv16-5.15", &knobs));
        let passes = &outcome.samples["mmap_latency@3"].values;
        assert!(!passes.is_empty(), "{percent} %");
    }
    // The requested step is the only one, even above the largest of the others.
    let knobs = [
        ("scale", "64"),
        ("workers", "5"),
        ("most_workers", "4"),
        ("warm_up_seconds", "1"),
        ("seconds", "1"),
    ];
    let outcome = reported(&small("stutterp", "srv16-5.15", &knobs));
    assert!(outcome.samples.contains_key("mmap_latency@5"));
}

#[test]
fn a_mapping_larger_than_swap_and_memory_is_a_bad_call() {
    let knobs = [
        ("scale", "64"),
        ("workers", "4"),
        ("warm_up_seconds", "1"),
        ("seconds", "1"),
        ("mapping", "900T"),
    ];
    // The second one has no swap at all.
    for machine in ["srv16-5.15", "hdd1-desktop"] {
        let refused = run(&small("stutterp", machine, &knobs)).expect_err(machine);
        assert!(refused.is_bad_call(), "{machine}: {refused}");
        assert!(refused.to_string().contains("more swap"), "{refused}");
    }
}

#[test]
fn a_hadoop_node_tells_three_latencies_after_its_warm_up() {
    let knobs = [
        ("scale", "64"),
        ("workers", "4"),
        ("warm_up_seconds", "2"),
        ("seconds", "10"),
        ("report_seconds", "5"),
    ];
    let outcome = reported(&small("simoop", "uma-4.11", &knobs));
    for operation in ["read", "write", "allocation"] {
        let at = |percentile: u32| figure(&outcome, &format!("{operation}_latency_p{percentile}"));
        assert!(
            at(50) > 0.0 && at(50) <= at(95) && at(95) <= at(99),
            "{operation}"
        );
    }
    assert!(
        outcome.counters["pgpgin"] > 0,
        "not all files fit in memory"
    );
    // Files that are open only while they are used are walked to and opened again.
    let closing = knobs.iter().fold(
        Plan::new("simoop", "uma-4.11").expect("it ships"),
        |plan, it| plan.with(it.0, it.1),
    );
    let closing = reported(&closing.with("closes", "1").under("linux-4.11"));
    assert!(figure(&closing, "write_latency_p99") > 0.0);
}

#[test]
fn a_user_starts_programs_while_the_stick_is_written() {
    let knobs = [("scale", "16"), ("test", "fsmark"), ("iterations", "2")];
    let outcome = reported(&small("laptop", "laptop-usb-1024m", &knobs));
    assert_eq!(outcome.samples["files_per_second"].values.len(), 2);
    assert!(outcome.distributions["launch@browser"].count > 1);
    // A second and a half of its own work.
    assert!(figure(&outcome, "launch_p50_s@browser") > 1.5);
    assert_eq!(outcome.figure("elapsed@simple-wb"), None);
    let unknown = small("laptop", "laptop-usb-1024m", &[("test", "solitaire")]);
    let refused = unknown.check().expect_err("there is no such test");
    assert!(refused.is_bad_call() && refused.to_string().contains("mmap-strm"));
}

#[test]
fn a_stick_beside_a_disk_stands_still_only_where_writers_write_back() {
    let knobs = [("scale", "8"), ("seconds", "60")];
    let plan = small("jbod", "hdd-usbkey", &knobs);
    let before = reported(&plan.clone().under("linux-3.1"));
    let after = reported(&plan);
    let longest = |outcome: &Outcome| figure(outcome, "usb_writer_longest_pause_s");
    assert!(longest(&after) < 0.25, "{}", longest(&after));
    assert!(
        longest(&before) > 10.0 * longest(&after),
        "{}",
        longest(&before)
    );
    assert!(figure(&after, "write_throughput@disk") > 50e6);
}

#[test]
fn the_late_disk_is_written_later() {
    let knobs = [
        ("scale", "8"),
        ("seconds", "20"),
        ("late_seconds", "10"),
        ("late_writers", "2"),
    ];
    let outcome = reported(&small("jbod", "hdd-usbkey", &knobs));
    // Two writers for half of the time, at the rate of the disk.
    let mean = figure(&outcome, "per_dd_bytes_per_s_mean@disk");
    assert!(mean > 10e6 && mean < 30e6, "{mean}");
}

#[test]
fn a_server_takes_what_its_disk_can() {
    let knobs = [
        ("scale", "8"),
        ("seconds", "20"),
        ("writers", "2"),
        ("dirty_limit", "100M"),
    ];
    let outcome = reported(&small("nfs", "nfs-client", &knobs));
    let throughput = figure(&outcome, "write_throughput");
    assert!(throughput > 20e6 && throughput < 118e6, "{throughput}");
    assert!(figure(&outcome, "per_dd_bytes_per_s_mean") > 10e6);
}

/// Pages that direct reclaim looked at while hogs and writers want more than there is, with `swap`
/// bytes before the machine is divided.
fn directly_scanned(policy: &str, swap_bytes: u64) -> u64 {
    let knobs = [
        ("scale", "16"),
        ("warm_up_seconds", "1"),
        ("seconds", "8"),
        ("workers", "12"),
    ];
    let mut plan = small("stutterp", "srv16-5.15", &knobs).under(policy);
    let swap = plan.machine.storage.swap.as_mut().expect("it swaps");
    swap.bytes = swap_bytes;
    reported(&plan).counters["pgscan_direct"]
}

#[test]
fn reclaim_that_naps_turns_over_dirty_pages_once_swap_is_full() {
    let full = 1_536 << 20;
    let naps = directly_scanned("linux-5.15", full);
    let waits = directly_scanned("linux-5.15+throttle-v2", full);
    assert!(waits < naps / 2, "{waits} of {naps}");
    // While swap has room, reclaim waits for swap and not for pages of files.
    let with_room = directly_scanned("linux-5.15", 16 << 30);
    assert!(with_room < naps / 2, "{with_room} of {naps}");
}

#[test]
fn a_knob_with_which_a_run_would_have_no_end_is_refused() {
    let cases = [
        ("simoop", "report_seconds", "0", "1 to 86400"),
        ("simple-wb", "block", "0", "1 to 16777216"),
        ("fs-mark", "block", "0", "1 to 16777216"),
        ("ntfs-copy", "block", "1T", "1 to 16777216"),
        ("many-dd", "writers", "1000000000", "0 to 10000"),
        (
            "many-dd",
            "calls_at_once",
            "18446744073709551615",
            "1 to 10000",
        ),
        ("stutterp", "most_workers", "3", "0 or at least 4"),
        ("stutterp", "readers", "1T", "0 to 10000"),
        ("simple-wb", "jobs", "10001", "1 to 10000"),
        ("mmap-strm", "processes", "10001", "0 to 10000"),
        (
            "fs-mark",
            "subdirectories",
            "18446744073709551615",
            "1 to 1000000",
        ),
        ("mmap-strm", "anonymous_percent", "200", "0 to 100"),
    ];
    for (workload, knob, value, allowed) in cases {
        let error = small(workload, "amd4-512m", &[(knob, value)]).check();
        let reported = error.expect_err(knob).to_string();
        assert!(
            reported.contains(knob) && reported.contains(allowed),
            "{reported}"
        );
    }
}

/// A workload, its knobs, and the error about one of them.
type Refused = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

#[test]
fn a_knob_with_which_nothing_would_be_measured_is_refused() {
    let cases: [Refused; 14] = [
        (
            "fs-mark",
            &[("iterations", "0")],
            "iterations=0: at least 1",
        ),
        (
            "simple-wb",
            &[("iterations", "0")],
            "iterations=0: at least 1",
        ),
        ("simple-wb", &[("memories", "0")], "memories=0: at least 1"),
        ("many-dd", &[("seconds", "0")], "seconds=0: at least 1"),
        ("many-dd", &[("writers", "0")], "writers=0: 1 to 10000"),
        (
            "many-dd",
            &[("seconds", "50"), ("writers", "1")],
            "settle_seconds=100: less than seconds=50",
        ),
        ("jbod", &[("seconds", "0")], "seconds=0: at least 1"),
        ("jbod", &[("writers", "0")], "writers=0: 1 to 10000"),
        (
            "jbod",
            &[("disks", "7")],
            "disks=7: 0 to the 1 file systems",
        ),
        (
            "jbod",
            &[("late_seconds", "200")],
            "late_seconds=200: less than seconds=120",
        ),
        ("nfs", &[("seconds", "0")], "seconds=0: at least 1"),
        ("nfs", &[("writers", "0")], "writers=0: 1 to 10000"),
        (
            "mmap-strm",
            &[("alone_tenths", "0"), ("mixed_tenths", "0")],
            "alone_tenths=0: at least 1",
        ),
        ("ntfs-copy", &[("bytes", "0")], "bytes=0: at least 1"),
    ];
    for (workload, knobs, allowed) in cases {
        let error = small(workload, "hdd1-desktop", knobs).check();
        let error = error.expect_err(workload);
        assert!(error.is_bad_call(), "{error}");
        assert!(error.to_string().contains(allowed), "{error}");
    }
    let alone = [("writers", "0"), ("rsync", "1")];
    assert!(small("many-dd", "hdd1-desktop", &alone).check().is_ok());
}

#[test]
fn more_bytes_than_a_number_can_say_are_refused_where_there_is_room_for_all() {
    let knobs = [("scale", "8"), ("memories", "18446744073709551615")];
    let refused = run(&small("simple-wb", "nfs-client", &knobs)).expect_err("no number");
    assert!(refused.is_bad_call(), "{refused}");
}

#[test]
fn a_dirty_limit_is_none_or_two_pages() {
    let limit = |bytes: &str| small("simple-wb", "amd4-512m", &[("dirty_limit", bytes)]).check();
    assert!(limit("0").is_ok() && limit("8K").is_ok());
    let refused = limit("1").expect_err("less than two pages");
    assert!(refused.to_string().contains("at least 8192"), "{refused}");
}
