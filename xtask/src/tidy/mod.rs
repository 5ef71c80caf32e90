//! The house style, as far as a program can see it. One file a rule; `STYLE.md` gives the reasons.

mod citations;
mod imports;
mod invariants;
mod layers;
mod leftovers;
mod mutations;
mod pages;
mod rooms;
mod runbook;
mod sizes;
mod switches;
mod text;
mod unsafe_files;

use crate::error::TaskError;
use crate::source::{Source, load, repository};
use std::fmt;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// Line `line` of `source`, counted from 1, breaks a rule as `message` says.
    fn new(source: &Source, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: source.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// What finds the places where one rule is broken.
type Rule = fn(&[Source]) -> Vec<Finding>;

/// The rules that look at the files.
const RULES: &[Rule] = &[
    text::check,
    leftovers::check,
    switches::check,
    unsafe_files::check,
    rooms::check,
    invariants::check,
    pages::check,
    runbook::check,
    imports::check,
    citations::check,
    mutations::check,
    sizes::check,
];

/// Checks the repository and prints what is found and the sizes; true if nothing was found.
pub(crate) fn run() -> Result<bool, TaskError> {
    let root = repository()?;
    let sources = load(&root)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&sources)).collect();
    findings.extend(layers::check(&layers::manifests(&root)?));
    findings.sort();
    print!("{}", sizes::report(&sources));
    for finding in &findings {
        println!("{finding}");
    }
    let count = findings.len();
    println!("tidy: {} files, {count} findings", sources.len());
    Ok(findings.is_empty())
}

/// The messages of what `rule` finds in files given as path and content.
#[cfg(test)]
fn found(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files
        .iter()
        .map(|(path, text)| Source::new(path, text))
        .collect();
    rule(&sources).iter().map(Finding::to_string).collect()
}
