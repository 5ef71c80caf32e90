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
