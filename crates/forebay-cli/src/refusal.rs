//! Refusals of arguments that are found after they were parsed.

use crate::error::CommandError;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt::Display;

/// Refuses a call of the subcommand that `words` name, and shows how that subcommand is used. A
/// file of settings has what is refused under `key`.
pub(crate) fn refusal<C: CommandFactory>(
    words: &[&str],
    key: &str,
    kind: ErrorKind,
    text: impl Display,
) -> clap::Error {
    let mut command = C::command();
    // Until it is built, a subcommand does not know the words before its own.
    command.build();
    for word in words {
        let Some(named) = command.find_subcommand(word).cloned() else {
            break;
        };
        command = named;
    }
    let mut error = command.error(kind, text);
    error.insert(ContextKind::Custom, ContextValue::String(key.to_owned()));
    error
}

/// The refusal of a setting that `error` is, for a reader who has not typed it.
pub(crate) fn without_usage(error: &clap::Error) -> CommandError {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let problem = first.strip_prefix("error: ").unwrap_or(first);
    match error.get(ContextKind::Custom) {
        Some(ContextValue::String(key)) => CommandError::setting(key, &problem),
        _ => CommandError::BadCall(problem.to_owned()),
    }
}
