use super::super::Scenario;
use crate::outcome::Outcome;
use crate::run::{Plan, run};

/// A small machine; what a test needs is appended.
const MACHINE: &str = r#"
summary = "a test"

[machine]
name = "small"
processors = 2
costs = "2021"

[[machine.nodes]]

[[machine.nodes.zones]]
name = "Normal"
size = "64M"

[[machine.devices]]
name = "disk"
rated = { bytes_per_s = 20_000_000 }

[[machine.file_systems]]
name = "data"
device = "disk"
kind = "xfs"
"#;

fn played(head: &str, rest: &str) -> Outcome {
    let text = format!("name = \"test\"\n{head}\n{MACHINE}\n{rest}");
    let scenario = Scenario::parse(&text).unwrap();
    run(&Plan::of_scenario(scenario)).unwrap()
}

const LOG: &str = r#"
[[processes]]
name = "log"
writes = { block = "4K", rate = "1M" }
"#;

#[test]
fn a_look_is_taken_each_sample_and_at_the_end_and_no_other() {
    let shared = "[[files]]\nname = \"old\"\nsize = \"1M\"\n";
    for rest in [LOG.to_owned(), format!("{shared}{LOG}")] {
        let at_s = played("length_s = 5", &rest).series.at_s;
        assert_eq!(at_s, [1.0, 2.0, 3.0, 4.0, 5.0]);
        let at_s = played("length_s = 1.3\nsample_ms = 500", &rest).series.at_s;
        assert_eq!(at_s, [0.5, 1.0, 1.3]);
    }
}

#[test]
fn rates_are_over_the_time_since_the_look_before() {
    let outcome = played("length_s = 1\nsample_ms = 100", LOG);
    let dirtied = outcome.series.columns.iter();
    let dirtied = dirtied.filter(|column| column.name == "nr_dirtied");
    for column in dirtied {
        // 1 MiB/s is 256 pages a second, in the first tenth of a second as in the others.
        let around = column
            .values
            .iter()
            .all(|rate| (200.0..320.0).contains(rate));
        assert!(around, "{:?}", column.values);
    }
}

#[test]
fn the_rate_of_a_group_and_that_of_each_process_have_names_of_their_own() {
    let two = LOG.replace("name = \"log\"", "name = \"log\"\ncount = 2");
    let outcome = played("length_s = 4", &two);
    assert!(!outcome.samples.contains_key("bytes_per_s@log"));
    let each = &outcome.samples["per_process_bytes_per_s@log"].values;
    assert_eq!(each.len(), 2);
    let all = outcome.figure("bytes_per_s@log").unwrap();
    assert!((all - each.iter().sum::<f64>()).abs() < 1.0, "{each:?}");
}

#[test]
fn what_was_killed_has_its_rate_over_the_time_that_it_had() {
    let killed = "[[events]]\nat_s = 5\nkill = \"log\"\n";
    let outcome = played("length_s = 20", &format!("{killed}{LOG}"));
    let rate = outcome.figure("bytes_per_s@log").unwrap();
    let stopped = LOG.replace("name = \"log\"", "name = \"log\"\nstop_s = 5");
    let outcome = played("length_s = 20", &stopped);
    let same = outcome.figure("bytes_per_s@log").unwrap();
    assert!((rate - same).abs() < 1.0, "{rate} and {same}");
    assert!((rate - f64::from(1 << 20)).abs() < 1e4, "{rate}");
}

#[test]
fn every_figure_of_a_run_may_be_expected() {
    let killed = "[[events]]\nat_s = 2\nkill = \"log\"\n";
    let fast = LOG.replace(", rate = \"1M\"", "");
    let outcome = played("length_s = 5", &format!("{killed}{fast}"));
    let known = super::super::known::figures();
    for name in outcome.figures.keys().chain(outcome.counters.keys()) {
        let family = name.split(['@', ';']).next().unwrap();
        assert!(known.iter().any(|it| it == family), "{name}");
    }
    for column in &outcome.series.columns {
        assert_eq!(super::super::known::unit_of(&column.name), column.unit);
    }
}

#[test]
fn a_call_that_never_returns_counts_with_its_age() {
    let dead = "[[events]]\nat_s = 20\npace = { device = \"disk\", percent = 0 }\n";
    let expected = "[[expect]]\nlatency = { of = \"write_latency@log\", percentile = 100, \
                    at_most_ms = 1000 }\n";
    let log = LOG.replace("1M", "10M");
    let outcome = played("length_s = 60", &format!("{dead}{log}{expected}"));
    assert!(!outcome.expectations[0].held, "{:?}", outcome.expectations);
    let longest = outcome.distributions["write_latency@log"].max;
    assert!((10_000.0..60_000.0).contains(&longest), "{longest} ms");
    let alive = played("length_s = 60", &format!("{log}{expected}"));
    assert!(alive.expectations[0].held, "{:?}", alive.expectations);
}

/// A writer under a policy that lets no kill interrupt it, beside the log.
const BULK: &str = "[[processes]]\nname = \"bulk\"\nwrites = {}\n";

fn pace(at_s: u32, percent: u32) -> String {
    format!("[[events]]\nat_s = {at_s}\npace = {{ device = \"disk\", percent = {percent} }}\n")
}

#[test]
fn a_kill_that_takes_long_keeps_nothing_else_waiting() {
    let events = format!(
        "{}[[events]]\nat_s = 25\nkill = \"bulk\"\n{}",
        pace(20, 0),
        pace(30, 100)
    );
    let later = LOG.replace("name = \"log\"", "name = \"log\"\nstart_s = 35");
    let head = "length_s = 60\npolicy = \"linux-3.0\"";
    let outcome = played(head, &format!("{events}{BULK}{later}"));
    let rate = outcome.series.column("rate@bulk").unwrap();
    let rows = outcome.series.at_s.iter().zip(&rate.values);
    let after: Vec<f64> = rows
        .filter(|(at_s, _)| **at_s > 25.0)
        .map(|it| *it.1)
        .collect();
    assert!(after.iter().all(|rate| *rate == 0.0), "{after:?}");
    let took_s = outcome.figure("time_to_kill@bulk").unwrap();
    assert!((5.0..35.0).contains(&took_s), "{took_s} s");
    let rate = outcome.figure("bytes_per_s@log").unwrap();
    assert!((rate - f64::from(1 << 20)).abs() < 5e4, "{rate}");
}

#[test]
fn nothing_is_measured_while_those_who_were_killed_at_the_end_end() {
    // What it reads is in memory: no device keeps it waiting.
    let reader = "[[processes]]\nname = \"reader\"\n\
                  reads = { block = \"4K\", rate = \"1M\", size = \"1M\" }\n";
    for percent in [2, 0] {
        let events = pace(20, percent);
        let head = "length_s = 30\npolicy = \"linux-3.0\"";
        let outcome = played(head, &format!("{events}{BULK}{reader}"));
        let calls = outcome.distributions["read_latency@reader"].count;
        let most = 30 * 256 + 1;
        assert!((7_000..=most).contains(&calls), "{calls} at {percent} %");
        let took_s = outcome.figure("time_to_kill@bulk").unwrap();
        assert!((1.0..60.1).contains(&took_s), "{took_s} s");
    }
}

#[test]
fn a_process_that_cannot_go_on_ends_the_run_and_is_named() {
    let small = MACHINE.replace("bytes_per_s =", "capacity_bytes = \"256M\", bytes_per_s =");
    let bulk = BULK.replace("bulk", "hoarder");
    let text = format!("name = \"test\"\nlength_s = 86400\n{small}\n{LOG}{bulk}");
    let scenario = Scenario::parse(&text).unwrap();
    let plan = Plan::of_scenario(scenario);
    let error = run(&plan).unwrap_err().to_string();
    assert!(
        error.contains("process 'hoarder': ") && error.contains("could not be written"),
        "{error}"
    );
}

#[test]
fn pauses_are_reported_over_time() {
    let outcome = played("length_s = 10", BULK);
    let of = |name: &str| outcome.series.column(name).unwrap().values.clone();
    let (mean, longest) = (of("pause_mean"), of("pause_max"));
    let most = longest.iter().copied().fold(0.0, f64::max);
    let reported = outcome.distributions["pause"].max;
    assert!(
        most > 0.0 && (most - reported).abs() < 0.5,
        "{most} and {reported}"
    );
    let mut pairs = mean.iter().zip(&longest);
    assert!(
        pairs.all(|(mean, longest)| mean <= longest),
        "{mean:?} and {longest:?}"
    );
    // Starting the measured time again starts no new row.
    let later = played("length_s = 10\nwarm_up_s = 4.5", BULK);
    assert_eq!(later.series.column("pause_max").unwrap().values, longest);
    let none = played("length_s = 5", LOG);
    assert!(none.series.column("pause_max").unwrap().values == [0.0; 5]);
}

#[test]
fn a_short_run_has_the_waits_of_its_device_from_its_first_look_on() {
    for head in [
        "length_s = 5",
        "length_s = 1",
        "length_s = 5\nsample_ms = 100",
    ] {
        let outcome = played(head, BULK);
        assert!(outcome.figure("iostat_await_mean@disk").unwrap() > 0.0);
        assert!(outcome.figure("iostat_await_mean").unwrap() > 0.0);
        for name in ["device_rate@disk", "await@disk"] {
            let values = &outcome.series.column(name).unwrap().values;
            assert_eq!(values.len(), outcome.series.at_s.len());
            let busy = values.iter().take_while(|value| **value > 0.0).count();
            // The flusher has something to do from some tenth of the first second on.
            assert!(
                busy == values.len() || head.contains("100"),
                "{name} {values:?}"
            );
        }
    }
    let idle = played("length_s = 5\nprocesses = []", "");
    assert_eq!(idle.figure("iostat_await_mean"), None);
}

#[test]
fn a_devices_mean_wait_is_that_of_what_is_measured() {
    // In the first ten seconds the disk is ten times as slow.
    let events = format!("{}{}", pace(0, 10), pace(10, 100));
    let head = "length_s = 20\nwarm_up_s = 12\n";
    let outcome = played(head, &format!("{events}{BULK}"));
    let wait = |outcome: &Outcome| outcome.figure("iostat_await_mean").unwrap();
    let whole = played("length_s = 20", &format!("{events}{BULK}"));
    assert!(2.0 * wait(&outcome) < wait(&whole), "{}", wait(&outcome));
}

#[test]
fn a_call_that_is_cut_short_by_the_end_makes_no_latency_shorter() {
    let slow = MACHINE.replace("20_000_000", "1_677_722");
    let reads = "[[processes]]\nname = \"scan\"\nreads_randomly = { block = \"16M\", \
                 size = \"4G\" }\n";
    // Reads take ten seconds each; the first that counts began before the warm-up was over.
    let text = format!("name = \"test\"\nlength_s = 95\nwarm_up_s = 15\n{slow}\n{reads}");
    let scenario = Scenario::parse(&text).unwrap();
    let outcome = run(&Plan::of_scenario(scenario)).unwrap();
    let scan = &outcome.distributions["read_latency@scan"];
    assert!(scan.min > 9_500.0 && scan.max < 11_000.0, "{scan:?}");
    assert_eq!(scan.count, 8, "{scan:?}");
}

/// A log whose disk refuses writes for a while, with `more` keys of its own.
fn on_a_failing_disk(more: &str) -> String {
    format!(
        r#"
[[processes]]
name = "log"
writes = {{ block = "4K", rate = "1M", sync_every = "64K"{more} }}

[[events]]
at_s = 2
fault = {{ file_system = "data", of = "writes", answer = "error" }}

[[events]]
at_s = 4
mend = "data"
"#
    )
}

#[test]
fn a_process_goes_on_after_a_call_that_failed_if_its_text_says_so() {
    let outcome = played("length_s = 10", &on_a_failing_disk(", goes_on = true"));
    let written = outcome.series.columns.iter();
    let written = written.filter(|column| column.name == "rate@log");
    let last: Vec<f64> = written.filter_map(|it| it.values.last().copied()).collect();
    assert!(
        !last.is_empty() && last.iter().all(|rate| *rate > 0.0),
        "{last:?}"
    );

    let rest = on_a_failing_disk("");
    let text = format!("name = \"test\"\nlength_s = 10\n{MACHINE}\n{rest}");
    let scenario = Scenario::parse(&text).unwrap();
    let error = run(&Plan::of_scenario(scenario)).expect_err("its sync failed");
    assert!(error.to_string().contains("log"), "{error}");
}

/// The mean pause of `writers` in the scenario of a tick of 4 ms, with this tick under `policy`.
fn mean_pause_ms(writers: u64, tick_ms: u64, policy: &str) -> f64 {
    let text = include_str!("../../../../scenarios/tick-of-4-ms.toml");
    let text = text
        .replace("count = 4", &format!("count = {writers}"))
        .replace("tick_ms = 4", &format!("tick_ms = {tick_ms}"));
    let scenario = Scenario::parse(&text).unwrap();
    let outcome = run(&Plan::of_scenario(scenario).under(policy)).unwrap();
    outcome.distributions["pause"].mean
}

#[test]
fn pauses_of_a_kernel_obey_the_tick_of_the_machine() {
    // 7,324 pages a second. A quota is the rate of a writer times its target, and takes as long as
    // the writer has for it; what is less than the shortest pause is that (spec/writeback.md 5.4).
    let fair = |writers: f64, quota: f64| 1e3 * quota * writers / 7_324.0;
    let expected_ms = [
        (1, 1, fair(1.0, 71.0)),
        (4, 1, fair(4.0, 51.0)),
        (1, 4, 8.0),
        (4, 4, fair(4.0, 42.0)),
        (100, 4, 200.0),
        (1, 10, 10.0),
        (4, 10, fair(4.0, 32.0)),
    ];
    for (writers, tick_ms, expected_ms) in expected_ms {
        let found_ms = mean_pause_ms(writers, tick_ms, "linux-5.16");
        assert!(
            (found_ms - expected_ms).abs() <= expected_ms / 10.0,
            "{writers} writers, {tick_ms} ms: {found_ms:.2}, {expected_ms:.2} by the law"
        );
    }
}

#[test]
fn pauses_that_are_cut_fine_have_no_tick() {
    let paused_ms = |tick_ms| mean_pause_ms(4, tick_ms, "forebay");
    assert_eq!(paused_ms(10).to_bits(), paused_ms(1).to_bits());
}

#[test]
fn pauses_are_told_apart_by_process_and_by_store() {
    let two = "[[machine.devices]]\nname = \"other\"\nrated = { bytes_per_s = 5_000_000 }\n\
               [[machine.file_systems]]\nname = \"slow\"\ndevice = \"other\"\nkind = \"xfs\"\n\
               [[processes]]\nname = \"quick\"\nwrites = {}\n\
               [[processes]]\nname = \"late\"\ncount = 2\nfile_system = \"slow\"\nwrites = {}\n";
    // Otherwise a store of 5 MB/s is taken for 100 first, and is known only after a minute.
    let head = "length_s = 40\nwarm_up_s = 20\npolicy = \"linux-5.16\"\n\
                set = { estimate = \"early\", write_depth = \"fifth\" }";
    let outcome = played(head, two);
    let count = |name: &str| outcome.distributions[name].count;
    assert_eq!(count("pause@quick"), count("store_pause@data"));
    assert_eq!(count("pause@late"), count("store_pause@slow"));
    assert_eq!(count("pause"), count("pause@quick") + count("pause@late"));
    let figure = |name: &str| outcome.figure(name).expect(name);
    for (process, store) in [("quick", "data"), ("late", "slow")] {
        for rate in ["pos_ratio", "task_ratelimit"] {
            let (own, of_store) = (format!("{rate}@{process}"), format!("store_{rate}@{store}"));
            assert_eq!(figure(&own).to_bits(), figure(&of_store).to_bits(), "{own}");
        }
    }
    // Two share 5 MB/s, one has 20; both stores are near their setpoints.
    assert!((1.0e6..6.0e6).contains(&figure("task_ratelimit@late")));
    assert!((1.0e7..4.0e7).contains(&figure("task_ratelimit@quick")));
    assert!((0.3..2.0).contains(&figure("pos_ratio@quick")));
}

#[test]
fn late_turns_are_lost_or_made_up_for() {
    let reader = |more: &str| {
        format!(
            "[[files]]\nname = \"film\"\nsize = \"512M\"\n[[processes]]\nname = \"player\"\n\
             file = \"film\"\nreads_randomly = {{ block = \"64K\", rate = \"640K\"{more} }}\n\
             [[events]]\nat_s = 5\npace = {{ device = \"disk\", percent = 0 }}\n\
             [[events]]\nat_s = 5.85\npace = {{ device = \"disk\", percent = 100 }}\n"
        )
    };
    let reads = |outcome: &Outcome| outcome.distributions["read_latency@player"].count;
    // Ten turns a second. The disk stands still during eight of them; the one under way is late.
    let made_up = played("length_s = 10", &reader(""));
    assert_eq!(made_up.figure("turns_lost@player"), None);
    let lost = played("length_s = 10", &reader(", loses_late_turns = true"));
    let turns = lost.figure("turns_lost@player").expect("it loses some");
    assert!((7.0..=9.0).contains(&turns), "{turns}");
    assert_eq!(reads(&made_up), reads(&lost) + turns as u64);
}

#[test]
fn latencies_begin_to_count_later_than_counters() {
    let of = |head: &str| {
        let outcome = played(head, LOG);
        let latency = outcome.distributions["write_latency@log"].count;
        (
            outcome.figure("nr_dirtied").expect("it writes"),
            latency,
            outcome.elapsed_s,
        )
    };
    let (pages, calls, elapsed_s) = of("length_s = 10\nwarm_up_s = 2");
    let (same_pages, fewer, same_s) = of("length_s = 10\nwarm_up_s = 2\nlatencies_from_s = 6");
    assert_eq!(
        (pages.to_bits(), elapsed_s.to_bits()),
        (same_pages.to_bits(), same_s.to_bits())
    );
    // 256 calls a second, of eight seconds and of four.
    assert!(
        calls.abs_diff(8 * 256) < 5 && fewer.abs_diff(4 * 256) < 5,
        "{calls}, {fewer}"
    );
}

#[test]
fn a_process_that_is_bound_takes_nothing_of_another_node() {
    let nodes = "[[machine.nodes]]\n\n[[machine.nodes.zones]]\nname = \"Normal\"\nsize = \"64M\"\n";
    let least_free = |bound: bool| {
        let machine = MACHINE.replacen(nodes, &format!("{nodes}{nodes}"), 1);
        let reader = format!(
            "[[processes]]\nname = \"reader\"\nnode = 1\nbound = {bound}\n\
             reads = {{ size = \"512M\" }}\n"
        );
        let text = format!("name = \"test\"\nlength_s = 20\n{machine}\n{reader}");
        let outcome = run(&Plan::of_scenario(Scenario::parse(&text).unwrap())).unwrap();
        let least = |name: &str| {
            let values = &outcome.series.column(name).unwrap().values;
            values.iter().copied().fold(f64::MAX, f64::min)
        };
        (least("free@Normal"), least("free@1.Normal"))
    };
    let (other, own) = least_free(true);
    assert!(other > 15_000.0 && own < 2_000.0, "{other}, {own}");
    let (other, own) = least_free(false);
    assert!(other < 2_000.0 && own < 2_000.0, "{other}, {own}");
}

#[test]
fn a_hog_touches_its_memory_as_often_as_its_text_says() {
    let hog = |more: &str| {
        let swap = "[machine.swap]\ndevice = \"disk\"\nsize = \"64M\"\n";
        let hogs = format!("hogs = {{ size = \"8M\"{more} }}\n");
        let rest = format!("{swap}[[processes]]\nname = \"hog\"\n{hogs}");
        let outcome = played("length_s = 20\nwarm_up_s = 4", &rest);
        outcome.figure("bytes_per_s@hog").unwrap() / f64::from(1 << 20)
    };
    let usual = hog("");
    assert!(usual > 400.0, "{usual} MiB/s, 8 in less than 20 ms");
    let rested = hog(", rest_ms = 2_000");
    assert!((3.5..4.1).contains(&rested), "{rested} MiB/s");
    let paced = hog(", rate = \"2M\"");
    assert!((1.9..2.1).contains(&paced), "{paced} MiB/s");
}

/// One writer on a disk of 30 MB/s, with a look every 200 ms.
fn one_writer(policy: &str, length_s: u32) -> Outcome {
    let machine = MACHINE
        .replace("64M", "512M")
        .replace("20_000_000", "30_000_000");
    let head = format!("length_s = {length_s}\nsample_ms = 100\npolicy = \"{policy}\"");
    let text = format!("name = \"test\"\n{head}\n{machine}\n{BULK}");
    run(&Plan::of_scenario(Scenario::parse(&text).unwrap())).unwrap()
}

#[test]
fn a_kernel_learns_the_rate_of_a_store_and_forebay_knows_it_early() {
    // From when on the estimate is within a twentieth of the rate.
    let settles_s = |policy: &str| {
        let outcome = one_writer(policy, 80);
        let estimate = &outcome
            .series
            .column("write_bandwidth@data")
            .unwrap()
            .values;
        let is_off = |rate: &f64| (rate - 30e6).abs() > 1.5e6;
        let last = estimate.iter().rposition(is_off);
        last.map_or(0.0, |last| outcome.series.at_s[last])
    };
    for policy in ["linux-3.2", "linux-4.11", "linux-5.16", "linux-6.16"] {
        let at_s = settles_s(policy);
        assert!((15.0..=40.0).contains(&at_s), "{policy}: {at_s} s");
    }
    let at_s = settles_s("forebay");
    assert!(at_s < 6.0, "{at_s} s");
}

#[test]
fn pages_of_one_turn_end_their_writeback_together_since_5_15() {
    let outcome = |policy| one_writer(policy, 60);
    let level = |outcome: &Outcome| {
        let values = outcome.series.column("writeback").unwrap().values.clone();
        values[300..].to_vec()
    };
    let longest_step = |values: &[f64]| {
        let steps = values.windows(2).map(|pair| pair[0] - pair[1]);
        steps.fold(0.0, f64::max)
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (new, today) = (level(&outcome("linux-5.16")), level(&outcome("forebay")));
    // Of 732 pages in each look some 3 requests of 256 end; the others end as turns of half a
    // second.
    assert!(longest_step(&new) > 2_000.0, "{}", longest_step(&new));
    assert!(longest_step(&today) < 1_000.0, "{}", longest_step(&today));
    assert!(
        mean(&new) > 4.0 * mean(&today),
        "{}, {}",
        mean(&new),
        mean(&today)
    );
}
