//! docs/reference/scenarios.md describes what `--json` writes; here it is held to the code.

use super::Document;
use crate::outcome::{
    Column, DeviceRecord, Distribution, ExpectationResult, Outcome, Samples, Stall, Waited,
};
use serde_json::Value;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../docs/reference/scenarios.md");

/// The rows of the section about JSON: what its first cell names, and the rest of it.
fn rows() -> BTreeMap<String, String> {
    let section = PAGE
        .split("## The JSON of a run")
        .nth(1)
        .expect("it has one");
    let section = section.split("\n## ").next().expect("it ends");
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let (keys, rest) = line[1..].split_once('|').expect("two cells");
        for key in keys.split(',') {
            let key = key.trim().trim_matches('`').to_owned();
            assert!(
                rows.insert(key.clone(), rest.to_owned()).is_none(),
                "{key} twice"
            );
        }
    }
    rows
}

/// A run that has one of everything.
fn full() -> Document {
    let mut outcome = Outcome {
        stalls: vec![Stall::default()],
        waited: vec![Waited::default()],
        devices: vec![DeviceRecord::default()],
        expectations: vec![ExpectationResult::default()],
        ..Outcome::default()
    };
    outcome.samples.insert("s".into(), Samples::default());
    outcome
        .distributions
        .insert("d".into(), Distribution::default());
    outcome.series.columns.push(Column::default());
    Document::new(vec![outcome])
}

fn keys(value: &Value) -> Vec<String> {
    let object = value.as_object().expect("an object");
    object.keys().cloned().collect()
}

/// The object that stands for all of a list or of a map by names.
fn one_of(value: &Value) -> Option<&Value> {
    match value {
        Value::Array(all) => all.first().filter(|one| one.is_object()),
        Value::Object(map) => map
            .values()
            .next()
            .filter(|one| one.is_object())
            .or(Some(value)),
        _ => None,
    }
}

#[test]
fn the_page_names_every_key_of_the_json_and_no_other() {
    let document: Value = serde_json::from_str(&full().to_json()).expect("JSON");
    let run = &document["outcomes"][0];
    let mut written = [keys(&document), keys(run)].concat();
    written.sort_unstable();
    let described = rows();
    assert_eq!(described.keys().cloned().collect::<Vec<String>>(), written);
    let parts = keys(run).into_iter().map(|key| (run[&key].clone(), key));
    let comparison = (document["comparison"].clone(), "comparison".to_owned());
    for (part, key) in parts.chain([comparison]) {
        let of_part = one_of(&part).map(keys).unwrap_or_default();
        for inner in of_part {
            let row = &described[&key];
            assert!(
                row.contains(&format!("`{inner}`")),
                "`{inner}` of {key}: {row}"
            );
        }
    }
    let series = run["series"]["columns"][0].clone();
    for inner in keys(&series) {
        assert!(
            described["series"].contains(&format!("`{inner}`")),
            "{inner}"
        );
    }
}
