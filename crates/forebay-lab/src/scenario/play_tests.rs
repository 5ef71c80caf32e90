use super::super::Scenario;
use crate::outcome::Outcome;
use crate::run::{Plan, run};

/// A small machine; what a test needs comes behind it.
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
