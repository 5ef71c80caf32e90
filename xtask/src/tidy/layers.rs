//! Arrows between crates lead downward only, and only where this table allows them.

use super::Finding;
use crate::command;
use crate::error::TaskError;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// Each of our crates, and those of our crates that it may use, also in its tests and examples.
const LAYERS: &str = "\
forebay-base:
forebay-chart:
forebay-law: forebay-base
forebay-volume: forebay-base
forebay-rt: forebay-base
forebay-host: forebay-base forebay-rt
forebay-store: forebay-base forebay-rt
forebay-volume-jobs: forebay-store forebay-volume
forebay-engine: forebay-base forebay-law forebay-rt forebay-store
forebay-kernels: forebay-base forebay-law forebay-rt forebay-store forebay-engine
forebay: forebay-base forebay-rt forebay-store forebay-engine
forebay-control: forebay-base forebay-rt forebay-store forebay
forebay-demo: forebay-base forebay-chart forebay-rt forebay-host forebay-store forebay
forebay-bucket: forebay-base forebay-law forebay-rt forebay-volume forebay-volume-jobs \
    forebay-store forebay
forebay-lab: forebay-base forebay-chart forebay-law forebay-rt forebay-store forebay-volume \
    forebay-volume-jobs forebay-engine forebay-kernels
forebay-block: forebay-base forebay-rt forebay-store forebay
forebay-nbd: forebay-base forebay-rt forebay-store forebay forebay-block
forebay-fuse: forebay-base forebay-rt forebay-store forebay-engine forebay
forebay-bench: forebay-base forebay-law forebay-host forebay-rt forebay-store forebay forebay-fuse
forebay-cli: forebay-base forebay-chart forebay-rt forebay-host forebay-store forebay \
    forebay-block forebay-bucket forebay-control forebay-demo forebay-fuse forebay-nbd \
    forebay-volume
forebay-lab-cli: forebay-base forebay-rt forebay-host forebay-kernels forebay-bench \
    forebay-control forebay-lab
xtask:
";

/// Crates that only the tests of a lower one may use: the engine is tested with older kernels.
const IN_TESTS: &[(&str, &str)] = &[("forebay-engine", "forebay-kernels")];

/// The crates of the table with those that they may use.
fn layers() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    LAYERS.lines().map(|row| {
        let (name, used) = row.split_once(':').expect("a row has a colon");
        (name, used.split_whitespace().collect())
    })
}

/// The crates that use no foreign code outside tests, because we answer for what they compute.
const SELF_RELIANT: &[&str] = &["forebay-law"];

/// What `cargo metadata` says, as far as the table is concerned.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: String,
    packages: Vec<Manifest>,
}

#[derive(Deserialize)]
pub(super) struct Manifest {
    name: String,
    #[serde(rename = "manifest_path")]
    path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Where it lies, if that is in this repository.
    path: Option<String>,
    /// Whether only tests and examples use it, or the build does.
    kind: Option<String>,
}

/// The manifests of the workspace at `root`, as cargo reads them.
pub(super) fn manifests(root: &Path) -> Result<Vec<Manifest>, TaskError> {
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = command::text(metadata.current_dir(root))?;
    parse(&text).map_err(|error| TaskError::Metadata(error.to_string()))
}

fn parse(metadata: &str) -> serde_json::Result<Vec<Manifest>> {
    let mut metadata: Metadata = serde_json::from_str(metadata)?;
    for package in &mut metadata.packages {
        let within = package.path.strip_prefix(&metadata.workspace_root);
        let within = within.unwrap_or(&package.path);
        package.path = within.trim_start_matches('/').to_owned();
    }
    Ok(metadata.packages)
}

/// The crates that the table does not know and the arrows that it does not allow.
pub(super) fn check(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let mut find = |message: String| {
            findings.push(Finding {
                path: manifest.path.clone(),
                line: 1,
                message,
            });
        };
        let Some((name, may_use)) = layers().find(|(name, _)| *name == manifest.name) else {
            find(format!(
                "{} has no row in xtask's table of layers",
                manifest.name
            ));
            continue;
        };
        for Dependency {
            name: used,
            path,
            kind,
        } in &manifest.dependencies
        {
            let is_for_tests = kind.as_deref() == Some("dev");
            let in_tests = is_for_tests && IN_TESTS.contains(&(name, used.as_str()));
            if path.is_some() && !may_use.contains(&used.as_str()) && !in_tests {
                find(format!("{name} may not use {used}"));
            } else if path.is_none() && !is_for_tests && SELF_RELIANT.contains(&name) {
                find(format!("{name} may use {used} in tests only"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, dependencies: &str) -> Vec<String> {
        let metadata = format!(
            r#"{{"workspace_root": "/r", "packages": [{{"name": "{name}",
            "manifest_path": "/r/{name}/Cargo.toml", "dependencies": [{dependencies}]}}]}}"#
        );
        let manifests = parse(&metadata).unwrap();
        check(&manifests).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn arrows_upward_and_within_a_row_are_found() {
        for (from, to) in [
            ("forebay-base", "forebay-rt"),
            ("forebay-law", "forebay-rt"),
            ("forebay-store", "forebay"),
            ("forebay-nbd", "forebay-law"),
            ("forebay-bench", "forebay-cli"),
            ("forebay-block", "forebay-nbd"),
            ("xtask", "forebay-base"),
        ] {
            for kind in ["null", "\"dev\"", "\"build\""] {
                let used = format!(r#"{{"name": "{to}", "kind": {kind}, "path": "/r/{to}"}}"#);
                assert_eq!(
                    messages(from, &used),
                    [format!("{from}/Cargo.toml:1: {from} may not use {to}")]
                );
            }
        }
    }

    #[test]
    fn arrows_downward_pass() {
        let used = r#"{"name": "forebay-base", "kind": null, "path": "/r/forebay-base"}"#;
        assert_eq!(messages("forebay-rt", used), [""; 0]);
    }

    #[test]
    fn tests_of_the_engine_use_older_kernels_and_the_engine_does_not() {
        let used = |kind| {
            format!(
                r#"{{"name": "forebay-kernels", "kind": {kind}, "path": "/r/forebay-kernels"}}"#
            )
        };
        assert_eq!(messages("forebay-engine", &used("\"dev\"")), [""; 0]);
        assert_eq!(
            messages("forebay-engine", &used("null")),
            ["forebay-engine/Cargo.toml:1: forebay-engine may not use forebay-kernels"]
        );
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(
            messages("forebay-new", ""),
            ["forebay-new/Cargo.toml:1: forebay-new has no row in xtask's table of layers"]
        );
    }

    #[test]
    fn laws_use_foreign_code_in_tests_only() {
        let used = |kind| format!(r#"{{"name": "proptest", "kind": {kind}}}"#);
        assert_eq!(messages("forebay-law", &used("\"dev\"")), [""; 0]);
        assert_eq!(messages("forebay-law", &used("null")).len(), 1);
        assert_eq!(messages("forebay-rt", &used("null")), [""; 0]);
    }

    #[test]
    fn every_arrow_of_the_table_leads_to_an_earlier_row() {
        let mut earlier = Vec::new();
        for (name, may_use) in layers() {
            let is_earlier = |used| earlier.contains(used);
            assert!(may_use.iter().all(is_earlier), "{name}: {may_use:?}");
            earlier.push(name);
        }
    }

    #[test]
    fn metadata_that_is_not_understood_is_an_error() {
        for metadata in ["", "{}", r#"{"workspace_root": "/r", "packages": [{}]}"#] {
            assert!(parse(metadata).is_err(), "{metadata}");
        }
    }
}
