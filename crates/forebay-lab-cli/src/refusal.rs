//! Refusals of arguments that are found after they were parsed.

use clap::CommandFactory;
use clap::error::ErrorKind;
use std::fmt::Display;

/// Refuses a call of `subcommand`, and shows how that subcommand is used.
pub(crate) fn refusal<C: CommandFactory>(
    subcommand: &str,
    kind: ErrorKind,
    text: impl Display,
) -> clap::Error {
    let mut command = C::command();
    // Until it is built, a subcommand does not know the words before its own.
    command.build();
    match command.find_subcommand_mut(subcommand) {
        Some(named) => named.error(kind, text),
        None => command.error(kind, text),
    }
}
