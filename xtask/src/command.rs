//! Programs that the checks run.

use crate::error::TaskError;
use std::process::{Command, Output};

/// Runs `command` to its end.
pub(crate) fn output(command: &mut Command) -> Result<Output, TaskError> {
    command.output().map_err(|cause| TaskError::Start {
        command: spelled(command),
        cause,
    })
}

/// What `command` prints, if it succeeds.
pub(crate) fn text(command: &mut Command) -> Result<String, TaskError> {
    let output = output(command)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(TaskError::Failed {
        command: spelled(command),
        message: text(&output.stderr).trim().to_owned(),
    })
}

fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
