//! The calls between files: functions and methods, not only imports.
//!
//! The sources are parsed, and each call is resolved to a function. A path is followed through
//! `use` and modules. A method is looked up in the type that it is called on, if that type follows
//! from declared types, fields, signatures and the most common methods of the standard library.
//! Otherwise it is looked up in the only type of ours that has a method with this name, unless
//! foreign types have one too. The unresolved calls are counted: `cargo xtask calls --unresolved`.
//!
//! A method of a trait belongs to the file of the trait, unless the type that it is called on is
//! known. Operators, `Drop` and our own macros are not followed. Tests are left out.

mod code;
mod collect;
mod define;
mod definitions;
mod foreign;
mod graph;
pub(crate) mod journeys;
mod lookup;
mod names;
mod patterns;
mod report;
#[cfg(test)]
mod tests;
mod types;
mod walk;

use crate::error::TaskError;
use crate::source::{Source, load, repository};

pub(crate) use code::Code;

/// The usage of `cargo xtask calls`.
pub(crate) const USAGE: &str = "calls [--circles | --unresolved] [CRATE] | calls FILE | \
     calls --journey Type::method | calls --journeys [--write]";

/// Prints the answer to `words`; the error of the inner result describes a bad call.
pub(crate) fn run(words: &[&str]) -> Result<Result<(), String>, TaskError> {
    let sources = load(&repository()?)?;
    let code = match Code::read(&sources) {
        Ok(code) => code,
        Err(message) => return Ok(Err(message)),
    };
    let text = match words {
        [] => code.crates.iter().map(|name| code.orders(name)).collect(),
        ["--circles"] => code.crates.iter().map(|name| code.circles(name)).collect(),
        ["--unresolved"] => code
            .crates
            .iter()
            .map(|name| code.unresolved(name))
            .collect(),
        ["--journey", name] => match code.journey(name) {
            Ok(text) => text,
            Err(message) => return Ok(Err(message)),
        },
        ["--journeys", words @ ..] => match journeys(&sources, &code, words) {
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

/// The methods that the journeys pass; `--write` puts them into the code map.
fn journeys(sources: &[Source], code: &Code, words: &[&str]) -> Result<String, String> {
    let text = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        let text = source.map(|source| source.text.as_str());
        text.ok_or_else(|| format!("there is no {path}"))
    };
    let found = code.journeys(text(journeys::LIST)?)?;
    match words {
        [] => Ok(found
            .iter()
            .map(|journey| journey.entry() + &journey.of_all())
            .collect()),
        ["--write"] => {
            let page = journeys::written(text(journeys::MAP)?, &found);
            let page = page.ok_or_else(|| format!("{} has no place for it", journeys::MAP))?;
            let root = repository().map_err(|error| error.to_string())?;
            std::fs::write(root.join(journeys::MAP), page).map_err(|error| error.to_string())?;
            Ok(String::new())
        }
        _ => Err(format!("usage: cargo xtask {USAGE}")),
    }
}
