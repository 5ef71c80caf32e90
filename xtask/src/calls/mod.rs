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

/// How `cargo xtask calls` is called.
pub(crate) const USAGE: &str = "calls [--circles | --unresolved] [CRATE] | calls FILE | \
     calls --journey Type::method | calls --journeys [--write]";

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

/// What the journeys pass; `--write` puts it into the code map.
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
