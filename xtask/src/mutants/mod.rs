//! Mutation testing: checks whether the tests of a part notice each small change that the tool
//! `cargo-mutants` makes to it.
//!
//! A mutant that no test notices is a survivor. `mutants-survivors.toml` says why each known one
//! may live; one that is not in it fails the run. The tool is no dependency: it is installed beside
//! the repository.

mod outcome;
mod part;
mod survivors;

pub(crate) use survivors::{PATH, Survivor, parse};

use crate::error::TaskError;
use crate::source::repository;
use outcome::{Outcome, Summary};
use part::Part;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command that installs the tool. The output of this version is understood.
const INSTALL: &str = "cargo install --locked --root target/tools cargo-mutants --version 27.1.0";
/// A mutant whose tests take longer than this many seconds is caught: most of them never end.
const TEST_SECONDS: &str = "120";
/// The sample of a day: one shard of this many, about twelve mutants of laws, and the time for it.
const DAYS: u64 = 74;
const DAY_SECONDS: &str = "60";

/// The call of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    part: Part,
    /// In the form of the tool: `k/n`.
    shard: Option<String>,
    /// Ends after [`DAY_SECONDS`].
    is_sample: bool,
}

impl Call {
    fn parse(words: &[&str], day: u64) -> Option<Call> {
        let mut call = Call {
            part: Part::Laws,
            shard: None,
            is_sample: false,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--shard" => call.shard = Some((*words.next()?).to_owned()),
                "--today" => {
                    call.shard = Some(format!("{}/{DAYS}", day % DAYS));
                    call.is_sample = true;
                }
                _ => call.part = Part::named(word)?,
            }
        }
        Some(call)
    }
}

/// Tries the mutants that `words` ask for; true if each is caught or listed. None if the words make
/// no sense.
pub(crate) fn run(words: &[&str]) -> Option<Result<bool, TaskError>> {
    Call::parse(words, today()).map(|call| try_out(&call))
}

/// Days since 1970.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a sample of the day asks which day it is"
)]
fn today() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() / 86_400)
}

fn try_out(call: &Call) -> Result<bool, TaskError> {
    let root = repository()?;
    let survivors = listed(&root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), PathBuf::from)
        .join("mutants");
    let folder = target.join(call.part.name());
    let made = fs::create_dir_all(&folder);
    made.map_err(|cause| TaskError::Write {
        path: folder.clone(),
        cause,
    })?;
    let is_complete = start(&root, &folder, call)?;
    let outcomes = outcome::read(&folder.join("mutants.out/outcomes.json"))?;
    let is_listed = report(&root, &outcomes, &survivors, is_complete);
    // Not all files have been tried yet, so a sample only reports: whether a change passes must not
    // depend on the day.
    Ok(is_listed || call.is_sample)
}

fn listed(root: &Path) -> Result<Vec<Survivor>, TaskError> {
    let path = root.join(PATH);
    let text = fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })?;
    parse(&text).map_err(|message| TaskError::Failed {
        command: format!("read {PATH}"),
        message,
    })
}

/// Runs the tool; true if it had time for all mutants.
fn start(root: &Path, folder: &Path, call: &Call) -> Result<bool, TaskError> {
    // The results of an earlier run must not be taken for those of this one.
    let _ = fs::remove_dir_all(folder.join("mutants.out"));
    let tools = root.join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(paths).unwrap_or(path);
    let seconds = if call.is_sample { DAY_SECONDS } else { "0" };
    // `timeout 0` sets no limit. An interrupted tool has written what it knows by then.
    let mut command = Command::new("timeout");
    command
        .args(["--signal=INT", "--kill-after=20", seconds])
        .args(["cargo", "mutants", "-j", "1", "--no-times"])
        .args(["--timeout", TEST_SECONDS, "--package", call.part.package()])
        .args(["--exclude", "**/*_tests.rs", "--sharding", "round-robin"])
        .arg("--output")
        .arg(folder);
    for files in call.part.files() {
        command.args(["--file", files]);
    }
    if let Some(shard) = &call.shard {
        command.args(["--shard", shard]);
    }
    command
        .arg("--")
        .args(call.part.tests())
        .current_dir(root)
        .env("PATH", path)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        // A failing property need not be shrunk to a small case.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_FAILURE_PERSISTENCE", "off");
    let status = command.status().map_err(|cause| TaskError::Start {
        command: "timeout cargo mutants".to_owned(),
        cause,
    })?;
    // 2: mutants were missed; 3: some took too long; 124: the time was up.
    match status.code() {
        Some(0 | 2 | 3) => Ok(true),
        Some(124) => Ok(false),
        _ => Err(TaskError::Failed {
            command: "cargo mutants".to_owned(),
            message: format!("see above; if it is not installed: {INSTALL}"),
        }),
    }
}

fn report(root: &Path, outcomes: &[Outcome], survivors: &[Survivor], is_complete: bool) -> bool {
    let of = |summary: Summary| outcomes.iter().filter(move |of| of.summary == summary);
    let caught = of(Summary::Caught).count() + of(Summary::Timeout).count();
    let mut unlisted = 0;
    for survivor in of(Summary::Missed) {
        let line = survivor.line_of(root);
        let known = survivors.iter().find(|known| known.is(survivor, &line));
        if let Some(known) = known {
            println!("survivor, {}: {}", known.reason, survivor.name());
        } else {
            unlisted += 1;
            println!("SURVIVOR that is not in {PATH}: {}", survivor.name());
            println!("    {line}");
        }
    }
    for caught in of(Summary::Caught) {
        let line = caught.line_of(root);
        if survivors.iter().any(|known| known.is(caught, &line)) {
            println!("caught, and in {PATH}: {}", caught.name());
        }
    }
    let viable = caught + of(Summary::Missed).count();
    let rest = if is_complete {
        ""
    } else {
        "; the time was up before all were tried"
    };
    println!("{caught} of {viable} viable mutants caught, {unlisted} survivors unlisted{rest}");
    unlisted == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_a_part_and_a_shard() {
        let call = |words: &[&str]| Call::parse(words, 75);
        let laws = Call {
            part: Part::Laws,
            shard: None,
            is_sample: false,
        };
        assert_eq!(call(&[]), Some(laws.clone()));
        let shard = Call {
            part: Part::State,
            shard: Some("3/40".into()),
            ..laws.clone()
        };
        assert_eq!(call(&["--shard", "3/40", "state"]), Some(shard));
        let today = Call {
            shard: Some("1/74".into()),
            is_sample: true,
            ..laws
        };
        assert_eq!(call(&["--today"]), Some(today));
        for wrong in [&["nothing"][..], &["--shard"]] {
            assert_eq!(call(wrong), None, "{wrong:?}");
        }
    }
}
