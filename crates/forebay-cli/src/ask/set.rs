//! `forebay set`: turns knobs of a running server.

use super::arguments::SetArguments;
use super::http::{post, socket_of};
use crate::error::CommandError;
use forebay_control::knobs::{OLD_MEMORY, plain};
use forebay_host::output;
use forebay_rt::say;
use serde_json::{Map, Value};

/// Changes all of the settings, or none, and prints what each was before.
pub(crate) fn run(arguments: &SetArguments) -> Result<(), CommandError> {
    let socket = &socket_of(arguments.socket.as_deref())?;
    if arguments.knobs.iter().any(|(name, _)| name == OLD_MEMORY) {
        say("memory is called cache_memory here now; it is the cache's part of --memory");
    }
    let given = arguments.knobs.iter();
    let given: Map<String, Value> = given
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let body = post(socket, "/set", &Value::Object(given).to_string())?.ok(socket)?;
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    let changed = answer["changed"].as_object().into_iter().flatten();
    let line = |(name, change): (&String, &Value)| {
        format!(
            "{name}: {} -> {}\n",
            plain(&change["old"]),
            plain(&change["new"])
        )
    };
    Ok(output::print(&changed.map(line).collect::<String>())?)
}
