//! The calls between files: functions and methods, not only imports.
//!
//! The sources are parsed, and each call is followed to the function that it is of. A path is
//! followed through `use` and modules. A method is looked up in the type of what it is called on,
//! as far as declared types, fields, signatures and the commonest methods of the standard library
//! give it; where they do not, in the one type of ours that has a method of this name, unless
//! types of others have one too. What is left is counted: `cargo xtask calls --unresolved`.
//!
//! A method of a trait is in the file of the trait, unless the type that it is called on is known.
//! Operators, `Drop` and macros of ours are not followed. Tests are left out.

mod collect;
mod foreign;
mod graph;
mod names;
mod patterns;
mod report;
#[cfg(test)]
mod tests;
mod types;
mod walk;
mod world;

use crate::error::TaskError;
use crate::source::{Source, load, repository};
use collect::Crate;
use std::collections::BTreeMap;
use walk::Calls;
use world::World;

pub(crate) use graph::Graph;

/// What the crates define and what each function calls.
pub(crate) struct Code {
    pub(crate) world: World,
    pub(crate) calls: Vec<Calls>,
    /// The names of the crates.
    pub(crate) crates: Vec<String>,
}

impl Code {
    /// Reads the crates among `sources`; the error says what cannot be read.
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
        let world = collect::collect(&crates, &texts)?;
        let calls = walk::calls(&world);
        let crates = crates.into_iter().map(|krate| krate.name).collect();
        Ok(Code {
            world,
            calls,
            crates,
        })
    }

    /// The calls between the files of `krate`.
    pub(crate) fn graph(&self, krate: &str) -> Graph {
        Graph::of(&self.world, &self.calls, krate)
    }

    /// The path of `file` below `src` of its crate.
    pub(crate) fn short_path(&self, file: usize) -> &str {
        let path = &self.world.files[file].path;
        path.split_once("/src/").map_or(path.as_str(), |(_, below)| below)
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

/// How `cargo xtask calls` is called.
pub(crate) const USAGE: &str =
    "calls [--circles | --unresolved] [CRATE] | calls FILE | calls --journey Type::method";

/// Prints what `words` ask for; the error of the inner result says what is wrong with them.
pub(crate) fn run(words: &[&str]) -> Result<Result<(), String>, TaskError> {
    let sources = load(&repository()?)?;
    let code = match Code::read(&sources) {
        Ok(code) => code,
        Err(message) => return Ok(Err(message)),
    };
    let text = match words {
        [] => code.crates.iter().map(|name| code.orders(name)).collect(),
        ["--circles"] => code.crates.iter().map(|name| code.circles(name)).collect(),
        ["--unresolved"] => code.crates.iter().map(|name| code.unresolved(name)).collect(),
        ["--journey", name] => match code.journey(name) {
            Ok(text) => text,
            Err(message) => return Ok(Err(message)),
        },
        ["--circles", krate] if code.has(krate) => code.circles(krate),
        ["--unresolved", krate] if code.has(krate) => code.unresolved(krate),
        [krate] if code.has(krate) => code.orders(krate),
        [path] => match code.neighbours(path) {
            Ok(text) => text,
            Err(message) => return Ok(Err(message)),
        },
        _ => return Ok(Err(format!("usage: cargo xtask {USAGE}"))),
    };
    print!("{text}");
    Ok(Ok(()))
}
