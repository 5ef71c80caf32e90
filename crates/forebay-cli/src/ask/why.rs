//! `forebay why`: who waited, for what, and who is to blame.

use super::arguments::WhyArguments;
use super::http::{get, socket_of};
use crate::error::CommandError;
use crate::output;
use serde_json::Value;

/// Asks and prints.
pub(crate) fn run(arguments: &WhyArguments) -> Result<(), CommandError> {
    let socket = socket_of(arguments.socket.as_deref())?;
    let seconds = arguments.last.as_millis().div_ceil(1_000);
    let body = get(&socket, &format!("/why?last={seconds}"))?.ok(&socket)?;
    if arguments.json {
        return output::print(&body);
    }
    let why: Value = serde_json::from_str(&body).unwrap_or_default();
    output::print(why["text"].as_str().unwrap_or_default())
}
