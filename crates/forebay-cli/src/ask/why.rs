//! `forebay why`: who waited, for what, and who is to blame.

use super::arguments::WhyArguments;
use super::http::{get, socket_of};
use crate::error::CommandError;
use forebay_control::trace::trace;
use forebay_control::waits::Stalls;
use forebay_host::output;
use serde_json::Value;
use std::path::Path;

/// Asks and prints.
pub(crate) fn run(arguments: &WhyArguments) -> Result<(), CommandError> {
    let socket = socket_of(arguments.socket.as_deref())?;
    let seconds = arguments.last.as_millis().div_ceil(1_000);
    if let Some(file) = &arguments.trace {
        output::expect_writable(&[Some(file)])?;
        let body = get(&socket, &format!("/stalls?last={seconds}"))?.ok(&socket)?;
        let stalls: Stalls = read(&socket, &body)?;
        output::write(file, &trace(&stalls).to_string())?;
        if stalls.left_out > 0 {
            crate::daemon::say::say(format_args!(
                "the trace has the newest stalls; {} older ones are left out",
                stalls.left_out
            ));
        }
    }
    let body = get(&socket, &format!("/why?last={seconds}"))?.ok(&socket)?;
    let mut why: Value = read(&socket, &body)?;
    let text = why["text"].take();
    if arguments.json {
        why.as_object_mut().map(|object| object.remove("text"));
        return Ok(output::print(&format!("{why}\n"))?);
    }
    Ok(output::print(text.as_str().unwrap_or_default())?)
}

/// Reads `body`, an answer of the server at `socket`.
pub(super) fn read<T: serde::de::DeserializeOwned>(
    socket: &Path,
    body: &str,
) -> Result<T, CommandError> {
    serde_json::from_str(body).map_err(|error| {
        let text = format!(
            "{}: cannot read the answer; the server may be of another version: {error}",
            socket.display()
        );
        CommandError::Served(text)
    })
}
