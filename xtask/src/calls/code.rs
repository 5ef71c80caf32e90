//! The sources of the crates, parsed: what they define and which function calls which.

use super::collect::{self, Crate};
use super::definitions::Definitions;
use super::graph::Graph;
use super::walk::{self, Calls};
use crate::source::Source;
use std::collections::BTreeMap;

/// What the crates define and what each function calls.
pub(crate) struct Code {
    pub(crate) definitions: Definitions,
    pub(crate) calls: Vec<Calls>,
    /// The names of the crates.
    pub(crate) crates: Vec<String>,
}

impl Code {
    /// Parses the crates among `sources`; the error names the file that cannot be parsed.
    pub(crate) fn read(sources: &[Source]) -> Result<Code, String> {
        let texts: BTreeMap<String, String> = sources
            .iter()
            .map(|source| (source.path.clone(), source.text.clone()))
            .collect();
        let mut crates = Vec::new();
        for (path, text) in &texts {
            if let Some(folder) = path.strip_suffix("/Cargo.toml") {
                crates.extend(crate_in(folder, text, &texts)?);
            }
        }
        let definitions = collect::collect(&crates, &texts)?;
        let calls = walk::calls(&definitions);
        let crates = crates.into_iter().map(|krate| krate.name).collect();
        Ok(Code {
            definitions,
            calls,
            crates,
        })
    }

    /// The calls between the files of `krate`.
    pub(crate) fn graph(&self, krate: &str) -> Graph {
        Graph::of(&self.definitions, &self.calls, krate)
    }

    /// The path of `file` relative to `src` of its crate.
    pub(crate) fn short_path(&self, file: usize) -> &str {
        let path = &self.definitions.files[file].path;
        path.split_once("/src/")
            .map_or(path.as_str(), |(_, below)| below)
    }
}

fn crate_in(
    folder: &str,
    manifest: &str,
    texts: &BTreeMap<String, String>,
) -> Result<Option<Crate>, String> {
    let manifest: toml::Table = toml::from_str(manifest)
        .map_err(|error| format!("{folder}/Cargo.toml: {}", error.message()))?;
    let named = |key: &str| manifest.get("package")?.get(key)?.as_str();
    let Some(name) = named("name") else {
        return Ok(None);
    };
    let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/src/{root}"));
    let Some(root) = roots.into_iter().find(|root| texts.contains_key(root)) else {
        return Ok(None);
    };
    let uses = manifest.get("dependencies").and_then(toml::Value::as_table);
    let uses = uses.map(|table| table.keys().cloned().collect());
    Ok(Some(Crate {
        name: name.to_owned(),
        uses: uses.unwrap_or_default(),
        root,
    }))
}
