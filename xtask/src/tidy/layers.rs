//! Arrows between crates lead downward only, and only where this table allows them.

use super::Finding;
use crate::deny::cargo_output;
use crate::error::TaskError;
use serde_json::Value;
use std::path::Path;

/// One of our crates, and those of our crates that it may use, also in its tests and examples.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "forebay-base",
        may_use: &[],
    },
    Layer {
        name: "forebay-chart",
        may_use: &[],
    },
    Layer {
        name: "forebay-law",
        may_use: &["forebay-base"],
    },
    Layer {
        name: "forebay-volume",
        may_use: &["forebay-base"],
    },
    Layer {
        name: "forebay-rt",
        may_use: &["forebay-base"],
    },
    Layer {
        name: "forebay-host",
        may_use: &["forebay-base", "forebay-rt"],
    },
    Layer {
        name: "forebay-store",
        may_use: &["forebay-base", "forebay-rt"],
    },
    Layer {
        name: "forebay-volume-jobs",
        may_use: &["forebay-store", "forebay-volume"],
    },
    Layer {
        name: "forebay",
        may_use: &["forebay-base", "forebay-law", "forebay-rt", "forebay-store"],
    },
    Layer {
        name: "forebay-control",
        may_use: &["forebay-base", "forebay-rt", "forebay-store", "forebay"],
    },
    Layer {
        name: "forebay-demo",
        may_use: &[
            "forebay-base",
            "forebay-chart",
            "forebay-rt",
            "forebay-host",
            "forebay-store",
            "forebay",
        ],
    },
    Layer {
        name: "forebay-bucket",
        may_use: &[
            "forebay-base",
            "forebay-law",
            "forebay-rt",
            "forebay-volume",
            "forebay-volume-jobs",
            "forebay-store",
            "forebay",
        ],
    },
    Layer {
        name: "forebay-lab",
        may_use: &[
            "forebay-base",
            "forebay-chart",
            "forebay-law",
            "forebay-rt",
            "forebay-store",
            "forebay-volume",
            "forebay-volume-jobs",
            "forebay",
        ],
    },
    Layer {
        name: "forebay-block",
        may_use: &["forebay-base", "forebay-rt", "forebay-store", "forebay"],
    },
    Layer {
        name: "forebay-nbd",
        may_use: &[
            "forebay-base",
            "forebay-rt",
            "forebay-store",
            "forebay",
            "forebay-block",
        ],
    },
    Layer {
        name: "forebay-fuse",
        may_use: &["forebay-base", "forebay-rt", "forebay-store", "forebay"],
    },
    Layer {
        name: "forebay-bench",
        may_use: &[
            "forebay-base",
            "forebay-law",
            "forebay-host",
            "forebay-rt",
            "forebay-store",
            "forebay",
            "forebay-fuse",
        ],
    },
    Layer {
        name: "forebay-cli",
        may_use: &[
            "forebay-base",
            "forebay-rt",
            "forebay-host",
            "forebay-store",
            "forebay",
            "forebay-block",
            "forebay-bucket",
            "forebay-control",
            "forebay-demo",
            "forebay-fuse",
            "forebay-nbd",
            "forebay-volume",
        ],
    },
    Layer {
        name: "forebay-lab-cli",
        may_use: &[
            "forebay-base",
            "forebay-rt",
            "forebay-host",
            "forebay",
            "forebay-bench",
            "forebay-control",
            "forebay-lab",
        ],
    },
    Layer {
        name: "xtask",
        may_use: &[],
    },
];

/// The crates that use no foreign code outside tests, because we answer for what they compute.
const SELF_RELIANT: &[&str] = &["forebay-law"];

/// A manifest, as far as the table is concerned.
pub(super) struct Manifest {
    name: String,
    path: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Whether it lies in this repository.
    is_ours: bool,
    /// Whether only tests and examples use it.
    for_tests: bool,
}

/// The manifests of the workspace at `root`, as cargo reads them.
pub(super) fn manifests(root: &Path) -> Result<Vec<Manifest>, TaskError> {
    let text = cargo_output(root, "cargo metadata --no-deps --format-version 1")?;
    parse(&text).map_err(TaskError::Metadata)
}

fn parse(metadata: &str) -> Result<Vec<Manifest>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|error| error.to_string())?;
    let root = text(&metadata, "workspace_root")?;
    list(&metadata, "packages")?
        .iter()
        .map(|package| {
            let path = text(package, "manifest_path")?;
            let within = path.strip_prefix(root).unwrap_or(path);
            let dependencies = list(package, "dependencies")?;
            Ok(Manifest {
                name: text(package, "name")?.to_owned(),
                path: within.trim_start_matches('/').to_owned(),
                dependencies: dependencies
                    .iter()
                    .map(dependency)
                    .collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

fn dependency(value: &Value) -> Result<Dependency, String> {
    Ok(Dependency {
        name: text(value, "name")?.to_owned(),
        is_ours: value.get("path").is_some_and(Value::is_string),
        for_tests: value.get("kind").and_then(Value::as_str) == Some("dev"),
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let found = value.get(key).and_then(Value::as_str);
    found.ok_or_else(|| format!("no text named {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| format!("no list named {key}"))
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
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == manifest.name) else {
            find(format!(
                "{} has no row in xtask's table of layers",
                manifest.name
            ));
            continue;
        };
        for used in &manifest.dependencies {
            if used.is_ours && !layer.may_use.contains(&used.name.as_str()) {
                find(format!("{} may not use {}", manifest.name, used.name));
            }
            let is_foreign = !used.is_ours && !used.for_tests;
            if is_foreign && SELF_RELIANT.contains(&layer.name) {
                find(format!(
                    "{} may use {} in tests only",
                    manifest.name, used.name
                ));
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
        for (row, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                let target = LAYERS.iter().position(|other| other.name == *used).unwrap();
                assert!(target < row, "{} -> {used}", layer.name);
            }
        }
    }

    #[test]
    fn metadata_that_is_not_understood_is_an_error() {
        for metadata in ["", "{}", r#"{"workspace_root": "/r", "packages": [{}]}"#] {
            assert!(parse(metadata).is_err(), "{metadata}");
        }
    }
}
