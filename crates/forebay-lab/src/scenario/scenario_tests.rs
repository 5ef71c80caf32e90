use super::Scenario;
use crate::run::{Plan, run};
use std::path::{Path, PathBuf};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{}", error.in_file(&name)))
}

/// The expectations of a scenario that ships that do not hold under `policy`, or its own.
fn broken(path: &Path, policy: Option<&str>) -> Vec<String> {
    let scenario = read(path);
    let policy = policy.unwrap_or(&scenario.policy).to_owned();
    assert!(
        scenario.expectations() > 0,
        "{} expects nothing",
        scenario.name
    );
    let plan = Plan::of_scenario(scenario).under(&policy);
    let outcome = run(&plan).unwrap_or_else(|error| panic!("{}: {error}", plan.workload));
    let broken = outcome.expectations.iter().filter(|result| !result.held);
    broken
        .map(|result| {
            format!(
                "{}: expected {}, found {}",
                plan.workload, result.expected, result.found
            )
        })
        .collect()
}

/// Asserts that every second scenario that ships holds, from the one at `first` on.
fn every_second_holds(first: usize) {
    let paths = shipped();
    assert!(paths.len() >= 10, "{paths:?}");
    let half = paths.iter().skip(first).step_by(2);
    let broken: Vec<String> = half.flat_map(|path| broken(path, None)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

// Two tests, so that two processors share them.
#[test]
fn every_scenario_that_ships_holds_first_half() {
    every_second_holds(0);
}

#[test]
fn every_scenario_that_ships_holds_second_half() {
    every_second_holds(1);
}

#[test]
fn without_the_mechanism_an_expectation_breaks() {
    // A scenario, a policy without the feature that it shows, and what then does not hold.
    let cases = [
        ("anonymous-hog", "linux-2.6.36", "page_writes_file"),
        ("settles-near-setpoint", "linux-3.2+foreground", "settles"),
        (
            "light-beside-heavy",
            "linux-3.2+foreground",
            "write_latency@heavy",
        ),
        ("hundred-writers", "linux-3.2+foreground", "each of writer"),
        (
            "fast-and-slow",
            "linux-3.2+foreground",
            "write_latency@quick",
        ),
        ("tick-of-4-ms", "forebay", "pause_mean"),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for (name, policy, expected) in cases {
        let broken = broken(&folder.join(format!("{name}.toml")), Some(policy));
        assert!(
            broken.iter().any(|broken| broken.contains(expected)),
            "{name} under {policy}: {broken:?}"
        );
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_line_and_what_is_allowed() {
    let good = std::fs::read_to_string(shipped().last().unwrap()).unwrap();
    let cases = [
        (
            "name = \"near\"",
            "name = \"near\"\ncount = 0",
            "1 to 10000",
        ),
        ("node = 1", "node = 7", "0 to 1 are allowed"),
        ("\"rate@reader\"", "\"rate@raeder\"", "rate@reader"),
        ("warm_up_s", "warm_up", "warm_up_s"),
    ];
    for (from, to, allowed) in cases {
        assert!(good.contains(from), "{from}");
        let error = Scenario::parse(&good.replacen(from, to, 1)).expect_err(to);
        let reported = error.in_file("own.toml");
        assert!(reported.starts_with("own.toml:"), "{reported}");
        assert!(
            error.place.line > 1 && reported.contains(allowed),
            "{reported}"
        );
    }
}

#[test]
fn what_is_no_rate_is_reported_with_its_line_and_what_is_allowed() {
    let good = std::fs::read_to_string(shipped().last().unwrap()).unwrap();
    let rated = "rated = { bytes_per_s = 80_000_000 }";
    assert!(good.contains(rated), "{good}");
    let bad = good.replacen(rated, "rated = { bytes_per_s = -80 }", 1);
    let event = "[[events]]\nat_s = 1\nrate = { device = \"disk\", bytes_per_s = -80 }";
    for text in [bad, format!("{good}\n{event}\n")] {
        let error = Scenario::parse(&text).expect_err("-80 is no rate");
        let line = text.lines().nth(error.place.line - 1).unwrap();
        assert!(line.contains("-80"), "{error} at {line}");
        assert!(error.problem.contains("from 0 on"), "{error}");
    }
}

/// A scenario of 5 s with these lines of keys and one process.
fn lasting_5_s(keys: &str, process: &str) -> String {
    format!(
        "name = \"t\"\nsummary = \"t\"\nmachine = \"amd4-512m\"\nlength_s = 5\n\
         {keys}[[processes]]\nname = \"one\"\n{process}\n"
    )
}

#[test]
fn measuring_begins_before_the_end() {
    let text = |warm_up_s: &str| lasting_5_s(&format!("warm_up_s = {warm_up_s}\n"), "writes = {}");
    assert!(Scenario::parse(&text("4.9")).is_ok());
    for late in ["5", "60", "nan"] {
        let error = Scenario::parse(&text(late)).expect_err(late);
        assert_eq!(error.place.line, 5, "{error}");
        assert!(error.problem.contains("less than the length"), "{error}");
    }
}

#[test]
fn latencies_count_from_the_warm_up_to_the_end() {
    let text = |from_s: &str| {
        let keys = format!("warm_up_s = 2\nlatencies_from_s = {from_s}\n");
        lasting_5_s(&keys, "writes = {}")
    };
    assert!(Scenario::parse(&text("2")).is_ok() && Scenario::parse(&text("4.9")).is_ok());
    for bad in ["1.9", "5", "nan"] {
        let error = Scenario::parse(&text(bad)).expect_err(bad);
        assert_eq!(error.place.line, 6, "{error}");
        assert!(error.problem.contains("from warm_up_s, 2"), "{error}");
    }
}

#[test]
fn only_turns_that_have_times_can_be_late() {
    let text = |reads: &str| lasting_5_s("", &format!("reads = {{ size = \"1M\", {reads} }}"));
    assert!(Scenario::parse(&text("rate = 65536, loses_late_turns = true")).is_ok());
    let error = Scenario::parse(&text("loses_late_turns = true")).expect_err("it has no rate");
    assert_eq!(error.place.line, 7, "{error}");
    assert!(error.problem.contains("one with a rate"), "{error}");
}

#[test]
fn rests_and_rates_of_hogs_are_checked() {
    let text = |process: &str| lasting_5_s("", process);
    let good = "hogs = { size = \"1M\", rate = 65536, rest_ms = 2_000 }";
    assert!(Scenario::parse(&text(good)).is_ok());
    for (wrong, allowed) in [
        ("hogs = { size = \"1M\", rest_ms = 0 }", "1 to 3600000"),
        (
            "hogs = { size = \"1M\", rest_ms = 3_600_001 }",
            "1 to 3600000",
        ),
        ("hogs = { size = \"1M\", rate = 0 }", "at least 1 byte"),
        ("maps = { size = \"1M\", rest_ms = 5 }", "one that hogs"),
        ("pins = { size = \"1M\", rate = 5 }", "one that hogs"),
        ("hogs = { size = \"1M\", rest = 5 }", "rest_ms"),
    ] {
        let error = Scenario::parse(&text(wrong)).expect_err(wrong);
        assert_eq!(error.place.line, 7, "{error}");
        assert!(error.problem.contains(allowed), "{wrong}: {error}");
    }
}

#[test]
fn a_process_is_bound_to_a_node_that_has_memory_for_it() {
    let good = std::fs::read_to_string(shipped().last().unwrap()).unwrap();
    let process = |rest: &str| format!("{good}\n[[processes]]\nname = \"own\"\n{rest}\n");
    assert!(Scenario::parse(&process("node = 1\nbound = true\nwrites = {}")).is_ok());
    let pins = |size: &str| format!("node = 1\npins = {{ size = \"{size}\" }}");
    assert!(Scenario::parse(&process(&pins("200M"))).is_ok());
    let error = Scenario::parse(&process(&format!("bound = true\n{}", pins("2G"))));
    let error = error.expect_err("the node is smaller");
    assert!(error.problem.contains("memory of its node"), "{error}");
    let empty = good.replacen(
        "[[processes]]",
        "[[machine.nodes]]\nzones = [{ name = \"Normal\", size = 0 }]\n\n[[processes]]",
        1,
    );
    let text =
        format!("{empty}\n[[processes]]\nname = \"own\"\nnode = 2\nbound = true\nwrites = {{}}\n");
    let error = Scenario::parse(&text).expect_err("it has no memory");
    assert!(error.problem.contains("has no memory"), "{error}");
}

#[test]
fn two_things_of_one_name_are_refused() {
    let good = std::fs::read_to_string(shipped().last().unwrap()).unwrap();
    let twice = |head: &str, what: &str, table: &str| {
        let text = format!("{good}\n{head}\n{table}\n{head}\n{table}\n");
        let error = Scenario::parse(&text).expect_err(head);
        let last = text.trim_end().lines().count();
        assert!(
            error.place.line > last - table.lines().count() - 1,
            "{error}"
        );
        assert!(error.problem.contains(what), "{error}");
    };
    let name = "name = \"again\"";
    twice("[[files]]", "two files", &format!("{name}\nsize = \"1M\""));
    let device = format!("{name}\nrated = {{}}");
    twice("[[machine.devices]]", "two devices", &device);
    let on = good
        .lines()
        .find(|line| line.starts_with("device = "))
        .unwrap();
    let file_system = format!("{name}\n{on}\nkind = \"xfs\"");
    twice("[[machine.file_systems]]", "two file systems", &file_system);
    let zone = format!("{name}\nsize = \"64M\"");
    twice("[[machine.nodes.zones]]", "two zones", &zone);
}

#[test]
fn files_that_are_larger_than_their_disk_are_refused_with_their_line() {
    let good = std::fs::read_to_string(shipped().last().unwrap()).unwrap();
    let small = good.replace(
        "rated = { bytes_per_s = 80_000_000 }",
        "rated = { bytes_per_s = 80_000_000, capacity_bytes = \"8G\" }",
    );
    let lines = good.lines().count();
    let reported = |text: &str| Scenario::parse(&format!("{small}\n{text}\n"));
    let shared = "[[files]]\nname = \"shared\"\nsize = \"5G\"";
    let own = "[[processes]]\nname = \"many\"\ncount = 2\nreads = { size = \"2G\" }";
    assert!(
        reported(&format!("{shared}\n{own}")).is_err(),
        "5 and twice 2 are more than 8"
    );
    let error = reported(&format!("{own}\n{shared}")).expect_err("whichever comes first");
    assert_eq!(error.place.line, lines + 5, "{error}");
    assert!(
        error.problem.contains("2 GiB for each is more than"),
        "{error}"
    );
    let error = reported(&shared.replace("5G", "9G")).expect_err("9 are more than 8");
    assert_eq!(error.place.line, lines + 4, "{error}");
    assert!(error.problem.contains("file system 'data'"), "{error}");
    assert!(reported(&format!("{shared}\n{}", own.replace("count = 2", ""))).is_ok());
    let most = own
        .replace("count = 2", "count = 10000")
        .replace("2G", "9000000T");
    assert!(reported(&most).is_err(), "their sum is no number");
    let longest = own.replace("2G", "18446744073709551615");
    assert!(
        reported(&longest).is_err(),
        "its pages are no number of bytes"
    );
}

#[test]
fn room_is_looked_for_on_the_machine_that_knobs_make() {
    let text = |scale: &str, process: &str| {
        format!(
            "name = \"m\"\nsummary = \"s\"\nlength_s = 1\nset = {{ {scale} }}\n\
             [[processes]]\nname = \"many\"\n{process}\n[machine]\nname = \"own\"\n\
             processors = 1\ncosts = \"2021\"\n[[machine.nodes]]\n[[machine.nodes.zones]]\n\
             name = \"Normal\"\nsize = \"64M\"\n[[machine.devices]]\nname = \"disk\"\n\
             rated = {{ capacity_bytes = \"1G\" }}\n[[machine.file_systems]]\nname = \"data\"\n\
             device = \"disk\"\nkind = \"ext4\"\n[machine.swap]\ndevice = \"disk\"\n\
             size = \"64M\"\n"
        )
    };
    for (process, of) in [
        ("hogs = { size = \"60M\" }", "of swap"),
        ("maps = { size = \"60M\" }", "of swap"),
        ("pins = { size = \"60M\" }", "of memory"),
    ] {
        let whole = Scenario::parse(&text("", process)).expect(process);
        let error = Scenario::parse(&text("scale = 8", process)).expect_err(process);
        assert_eq!(error.place.line, 7, "{error}");
        assert!(error.problem.contains(of), "{error}");
        let plan = Plan::of_scenario(whole).with("scale", "8");
        let error = plan.check().expect_err(process);
        assert!(error.is_bad_call(), "{error}");
        assert!(error.to_string().contains("process 'many'"), "{error}");
    }
    // Swap that is smaller leaves more of its disk to files.
    let reads = "reads = { size = \"860M\" }";
    assert!(Scenario::parse(&text("", reads)).is_err());
    assert!(Scenario::parse(&text("scale = 8", reads)).is_ok());
}

#[test]
fn events_and_keys_of_a_planted_culprit_are_refused_with_what_is_allowed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let cases = [
        (
            "silent-disk",
            "answer = \"nothing\"",
            "delay_ms = 3_600_001",
            "up to 3600000",
        ),
        (
            "silent-disk",
            "mend = \"data\"",
            "mend = \"date\"",
            "it has: data",
        ),
        (
            "silent-disk",
            "mend = \"data\"",
            "mend = \"data\"\nkill = \"log\"",
            "an event is one of",
        ),
        (
            "less-memory",
            "memory = \"5M\"",
            "memory = \"1G\"",
            "memory is at most",
        ),
        ("less-memory", "memory = \"5M\"", "", "at least one knob"),
        (
            "less-memory",
            "memory = \"5M\"",
            "dirty_ratio = 101",
            "0 to 100 percent",
        ),
        (
            "stuck-commit",
            "sync_every = \"1M\"",
            "sync_every = \"0\"",
            "at least 1 byte",
        ),
        (
            "held-guard",
            "pins = { size = \"64K\" }",
            "pins = { size = \"65K\" }",
            "has 65536",
        ),
        (
            "heavy-writer",
            "cause = \"its own rate\"",
            "cause = \"rate\"",
            "its own rate",
        ),
        (
            "heavy-writer",
            "victim = \"backup\"",
            "victim = \"bakcup\"",
            "backup, log",
        ),
    ];
    for (name, from, to, allowed) in cases {
        let path = folder.join(format!("blame-{name}.toml"));
        let good = std::fs::read_to_string(path).unwrap();
        assert!(good.contains(from), "{name}: {from}");
        let error = Scenario::parse(&good.replacen(from, to, 1)).expect_err(to);
        assert!(
            error.place.line > 1 && error.problem.contains(allowed),
            "{to}: {error}"
        );
    }
}

/// What the scenario of memory that gives way says once `before` is `after` in it.
fn refusal_of_memory(before: &str, after: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = std::fs::read_to_string(folder.join("memory-gives-way.toml")).unwrap();
    assert!(text.contains(before), "{before}");
    let changed = text.replacen(before, after, 1);
    Scenario::parse(&changed).unwrap_err().to_string()
}

#[test]
fn memory_around_a_cache_is_checked() {
    let elastic = "elastic = { floor = \"256M\", group = \"2G\" }\n";
    let event = "memory = { others = \"1G\", over_s = 5 }";
    let cases = [
        (elastic, "", "nobody looks"),
        (
            "floor = \"256M\"",
            "floor = \"1600M\"",
            "at most 1610612736",
        ),
        ("group = \"2G\"", "group = \"128M\"", "at most 134217728"),
        (event, "memory = {}", "limit, others or both"),
        (
            event,
            "memory = { limit = \"1G\", over_s = 5 }",
            "over_s is",
        ),
    ];
    for (before, after, expected) in cases {
        let found = refusal_of_memory(before, after);
        assert!(found.contains(expected), "{after}: {found}");
    }
}
