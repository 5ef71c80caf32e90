//! Builds the tests of a part with its mutants woven in. A mutant that does not compile is left out
//! and the rest is built again.

use super::list::Mutant;
use super::part::Part;
use super::weave::{self, Blame, Woven};
use crate::error::TaskError;
use crate::tree_copy::TreeCopy;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds after which those mutants are given up that still do not compile.
const MOST_BUILDS: usize = 60;

/// Says in each crate which mutant is switched on.
const SWITCH: &str = r#"
pub(crate) fn mutant_is(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let named = || std::env::var("FOREBAY_MUTANT").ok()?.parse().ok();
    *ON.get_or_init(|| named().unwrap_or(0)) == number
}
"#;

/// The built tests, and the mutants that are in them.
#[derive(Debug, Default)]
pub(super) struct Built {
    /// The programs of the tests, in the order of [`Part::tests`].
    pub(super) programs: Vec<PathBuf>,
    /// The numbers of mutants that do not compile.
    pub(super) unviable: BTreeSet<usize>,
    /// The numbers of mutants that compile only if they are alone.
    pub(super) left_out: BTreeSet<usize>,
}

/// Builds the tests of `part` in `tree` with `mutants`, which are numbered from 1.
pub(super) fn build(
    tree: &TreeCopy,
    target: &Path,
    part: Part,
    mutants: &[Mutant],
) -> Result<Built, TaskError> {
    let switch = format!("{}/src/lib.rs", part.folder());
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    texts.insert(&switch, tree.text(&switch)?);
    for mutant in mutants {
        texts.insert(&mutant.file, tree.text(&mutant.file)?);
    }
    let mut built = Built::default();
    for _ in 0..MOST_BUILDS {
        let woven = put(tree, &texts, mutants, &mut built, &switch)?;
        let said = compile(tree.path(), target, part)?;
        let errors: Vec<Message> = lines(&said).filter_map(|line| line.message).collect();
        let mut errors = errors
            .into_iter()
            .filter(|of| of.level == "error")
            .peekable();
        if errors.peek().is_none() {
            built.programs = programs(&said, part)?;
            return Ok(built);
        }
        let before = built.unviable.len() + built.left_out.len();
        let mut rendered = String::new();
        for error in errors {
            blame(&error, &woven, &mut built);
            rendered.push_str(&error.rendered.unwrap_or_default());
        }
        if built.unviable.len() + built.left_out.len() == before {
            return Err(failed(format!("no mutant is to blame:\n{rendered}")));
        }
    }
    Err(failed(format!("not after {MOST_BUILDS} builds")))
}

fn failed(message: String) -> TaskError {
    TaskError::Failed {
        command: "build the mutants".to_owned(),
        message,
    }
}

/// Writes the files with those mutants that are still in, and returns them.
fn put<'a>(
    tree: &TreeCopy,
    texts: &BTreeMap<&'a str, String>,
    mutants: &[Mutant],
    built: &mut Built,
    switch: &str,
) -> Result<BTreeMap<&'a str, Woven>, TaskError> {
    let mut all = BTreeMap::new();
    for (&file, text) in texts {
        let numbered = (1..).zip(mutants).filter(|(number, mutant)| {
            let is_out = built.unviable.contains(number) || built.left_out.contains(number);
            mutant.file == file && !is_out
        });
        let numbered: Vec<(usize, &Mutant)> = numbered.collect();
        let woven =
            weave::weave(text, &numbered).map_err(|why| failed(format!("{file}: {why}")))?;
        built.left_out.extend(&woven.left_out);
        let end = if file == switch { SWITCH } else { "" };
        tree.put(file, format!("{}{end}", woven.text).as_bytes())?;
        all.insert(file, woven);
    }
    Ok(all)
}

/// Leaves out the mutants on account of which the compiler reports `error`.
fn blame(error: &Message, woven: &BTreeMap<&str, Woven>, built: &mut Built) {
    let mut spans: Vec<&Span> = error.spans.iter().collect();
    spans.sort_by_key(|span| !span.is_primary);
    for span in spans {
        let of = woven.get(span.file_name.as_str());
        match of.and_then(|of| of.blame(&span.range())) {
            Some(Blame::Mutant(number)) => {
                built.unviable.insert(*number);
                return;
            }
            Some(Blame::Site(numbers)) => {
                built.left_out.extend(numbers);
                return;
            }
            None => {}
        }
    }
}

/// Runs the compiler; returns what it says for programs.
fn compile(tree: &Path, target: &Path, part: Part) -> Result<String, TaskError> {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--locked", "--message-format=json"])
        .args(["--package", part.package()])
        .args(part.tests())
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        // What is denied in our own text is not meant for this one.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .stderr(std::process::Stdio::null())
        .output();
    let output = output.map_err(|cause| TaskError::Start {
        command: "cargo test".to_owned(),
        cause,
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A line of the output.
#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    #[serde(default)]
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

impl Span {
    fn range(&self) -> Range<usize> {
        self.byte_start..self.byte_end
    }
}

fn lines(said: &str) -> impl Iterator<Item = Line> {
    said.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// The built programs in the order in which they are run.
fn programs(said: &str, part: Part) -> Result<Vec<PathBuf>, TaskError> {
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    for line in lines(said) {
        let (Some(target), Some(program)) = (line.target, line.executable) else {
            continue;
        };
        let asked = match target.kind.first().map(String::as_str) {
            Some("test") => format!("--test={}", target.name),
            _ => "--lib".to_owned(),
        };
        let place = part.tests().iter().position(|test| *test == asked);
        found.extend(place.map(|place| (place, program)));
    }
    found.sort();
    if found.len() < part.tests().len() {
        let message = format!("{} programs instead of {}", found.len(), part.tests().len());
        return Err(failed(message));
    }
    Ok(found.into_iter().map(|(_, program)| program).collect())
}

#[cfg(test)]
mod tests {
    use super::super::list::{Genre, example};
    use super::*;

    #[test]
    fn an_error_in_a_mutant_leaves_that_one_out_and_one_beside_it_all_of_the_place() {
        let mutants = ["-", "*"].map(|with| example(Genre::BinaryOperator, 1, 33, with));
        let numbered: Vec<(usize, &Mutant)> = (1..).zip(&mutants).collect();
        let woven = weave::weave("fn f(a: u64, b: u64) -> u64 { a + b }", &numbered).unwrap();
        let error = |what: &str| {
            let start = woven.text.find(what).unwrap();
            let text = format!(
                r#"{{"message": {{"level": "error", "rendered": "", "spans": [{{"file_name": "a.rs",
                "byte_start": {start}, "byte_end": {}, "is_primary": true}}]}}}}"#,
                start + what.len()
            );
            lines(&text.replace('\n', " "))
                .next()
                .unwrap()
                .message
                .unwrap()
        };
        let (one, both) = (error("__l * __r"), error("__l + __r"));
        let woven = BTreeMap::from([("a.rs", woven)]);
        let mut built = Built::default();
        blame(&one, &woven, &mut built);
        assert_eq!((built.unviable.len(), built.left_out.len()), (1, 0));
        blame(&both, &woven, &mut built);
        assert_eq!(built.left_out, BTreeSet::from([1, 2]));
    }

    #[test]
    fn programs_are_run_in_the_order_of_the_part() {
        let line = |kind: &str, name: &str| {
            format!(
                r#"{{"target": {{"kind": ["{kind}"], "name": "{name}"}}, "executable": "/{name}"}}"#
            )
        };
        let said = [line("test", "contract"), line("lib", "forebay_store")].join("\n");
        let tests = programs(&said, Part::Stores);
        let missing = format!("{tests:?}");
        assert!(missing.contains("programs instead of"), "{missing}");
        let law = programs(&line("lib", "forebay_law"), Part::Laws).unwrap();
        assert_eq!(law, [PathBuf::from("/forebay_law")]);
    }
}
