//! Refusals of what was typed that are found after it was parsed.

use clap::CommandFactory;
use clap::error::ErrorKind;

/// Refuses a call of the subcommand that `words` name, and shows how that one is used.
pub(super) fn refusal<C: CommandFactory>(words: &[&str], text: String) -> clap::Error {
    let mut command = C::command();
    // Before it is built a subcommand does not know the words before its own.
    command.build();
    for word in words {
        let Some(named) = command.find_subcommand(word).cloned() else {
            break;
        };
        command = named;
    }
    command.error(ErrorKind::InvalidValue, text)
}
