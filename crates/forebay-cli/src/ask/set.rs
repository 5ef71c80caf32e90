//! `forebay set`: turns knobs of a running server.

use super::arguments::SetArguments;
use super::http::post;
use crate::error::CommandError;
use forebay_control::knobs::plain;
use forebay_host::output;
use serde_json::{Map, Value};

/// Turns all of the knobs, or none, and prints what each was before.
pub(crate) fn run(arguments: &SetArguments) -> Result<(), CommandError> {
    let socket = &arguments.socket;
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
