//! `--config FILE`: settings of a server in a file.
//!
//! The file has no list of keys of its own. Its keys are the flags of the two servers, as the
//! command line knows them, and the knobs of `forebay set`. What it says about flags becomes words
//! that stand before the typed ones, so the command line checks both in the same way.

mod keys;
mod load;
mod nearest;
mod print;
mod text;
mod tuning;

pub(crate) use keys::export_key;
pub(crate) use tuning::Tuning;

use crate::error::CommandError;
use clap::{ArgMatches, Command, parser::ValueSource};
use keys::{FRONTS, Front};
use load::Loaded;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A longer file is not a file of settings.
const MOST_BYTES: u64 = 1 << 20;

/// The words of a call with those that its file adds, and the knobs of the file.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) words: Vec<OsString>,
    pub(crate) tuning: Tuning,
}

/// If the typed `words` name a file, adds what the file says to them. The first word is the
/// program.
///
/// # Errors
/// A bad call, with the file and the line.
pub(crate) fn expand(command: &Command, words: Vec<OsString>) -> Result<Expanded, CommandError> {
    let unchanged = |words| Expanded {
        words,
        tuning: Tuning::default(),
    };
    let Some((front, matches)) = typed(command, &words) else {
        return Ok(unchanged(words));
    };
    let file = matches.try_get_one::<PathBuf>("config");
    let Some(file) = file.ok().flatten() else {
        return Ok(unchanged(words));
    };
    let mut loaded = load(command, file)?;
    if matches.value_source("drain") == Some(ValueSource::CommandLine) {
        loaded.tuning.forget_promises();
    }
    let (added, lines) = loaded.words(front, front.command(command), &matches);
    loaded.tuning.lines = lines;
    let place = 1 + front.words.len();
    let mut expanded = words;
    expanded.splice(place..place, added.into_iter().map(Into::into));
    Ok(Expanded {
        words: expanded,
        tuning: loaded.tuning,
    })
}

/// The server that `words` call, and what was typed for it. What is wrong with them is reported
/// later.
fn typed(command: &Command, words: &[OsString]) -> Option<(Front, ArgMatches)> {
    let is_called = |front: &&Front| {
        let typed = words.get(1..1 + front.words.len());
        typed.is_some_and(|typed| typed.iter().eq(front.words.iter()))
    };
    let front = *FRONTS.iter().find(is_called)?;
    let lenient = command.clone().ignore_errors(true);
    let mut matches = lenient.try_get_matches_from(words).ok()?;
    for _ in front.words {
        (_, matches) = matches.remove_subcommand()?;
    }
    Some((front, matches))
}

fn load(command: &Command, file: &Path) -> Result<Loaded, CommandError> {
    let bad = |text: String| CommandError::BadCall(text);
    let refused = |error| bad(format!("cannot read {}: {error}", file.display()));
    let opened = std::fs::File::open(file).map_err(refused)?;
    let mut bytes = Vec::new();
    opened
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(refused)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(bad(format!(
            "{}: a file of settings has at most 1 MiB",
            file.display()
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..good]);
        let line = 1 + before.matches('\n').count();
        bad(format!("{}:{line}: this is not UTF-8", file.display()))
    })?;
    let mut loaded = Loaded::read(&text, command).map_err(|wrong| {
        bad(format!(
            "{}:{}: {}",
            file.display(),
            wrong.line,
            wrong.problem
        ))
    })?;
    file.clone_into(&mut loaded.tuning.file);
    Ok(loaded)
}

/// For each server, a call that has nothing but the settings in `file`.
///
/// # Errors
/// As [`expand`].
pub(crate) fn calls_of(command: &Command, file: &Path) -> Result<Vec<Expanded>, CommandError> {
    let call = |front: Front| {
        let mut words: Vec<OsString> = vec!["forebay".into()];
        words.extend(front.words.iter().map(Into::into));
        words.extend(["--config".into(), file.into()]);
        expand(command, words)
    };
    FRONTS.into_iter().map(call).collect()
}

/// A complete file: every key with its meaning and its default value.
pub(crate) fn print_defaults(command: &Command) -> String {
    print::print_defaults(command)
}
