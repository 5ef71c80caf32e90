//! Refusals of arguments that are found after they were parsed.

use clap::CommandFactory;
use clap::error::ErrorKind;
use std::fmt::Display;

/// Refuses a call of the subcommand that `words` name, and shows how that subcommand is used.
pub(crate) fn refusal<C: CommandFactory>(
    words: &[&str],
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
    command.error(kind, text)
}
