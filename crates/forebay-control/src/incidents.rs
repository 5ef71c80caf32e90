//! What happened beside the stalls, as JSON: knobs that were turned, and requests that failed.

use super::knobs;
use forebay::incident::{Happening, Incident, Refusal};
use forebay::{Cache, Changes};
use forebay_base::Span;
use forebay_base::units::show_bytes;
use forebay_store::{Failure, IoKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncidentWords {
    /// Since the server was started.
    pub at_us: u64,
    /// set, memory, failed, fenced or task.
    pub kind: String,
    /// The store, if it is about one.
    pub store: Option<usize>,
    /// How many requests failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<u64>,
    /// When the last of them failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_us: Option<u64>,
    /// For people.
    pub text: String,
}

/// The incidents of the `last` time, or all that are kept, the oldest first.
pub fn incidents(cache: &Cache, last: Option<Span>) -> Vec<IncidentWords> {
    cache.incidents(last).iter().map(words).collect()
}

fn words(incident: &Incident) -> IncidentWords {
    let at_us = incident.at.as_micros();
    let of = |kind: &str, text| IncidentWords {
        at_us,
        kind: kind.into(),
        text,
        ..IncidentWords::default()
    };
    match &incident.what {
        Happening::Turned { from, to, .. } => of("set", turned(from, to)),
        Happening::Memory {
            from_bytes,
            to_bytes,
        } => {
            let (from, to) = (show_bytes(*from_bytes), show_bytes(*to_bytes));
            of("memory", format!("memory: {from} -> {to}"))
        }
        Happening::Failed(refusal) => IncidentWords {
            store: Some(refusal.bdi),
            requests: Some(refusal.requests),
            last_us: Some(refusal.last.as_micros()),
            ..of(kind_of(refusal.failure), refused(refusal))
        },
        Happening::TaskEnded { name, times, last } => IncidentWords {
            last_us: Some(last.as_micros()),
            ..of(
                "task",
                format!("the task '{name}' ended unexpectedly, {times} times so far"),
            )
        },
        _ => of("other", format!("{:?}", incident.what)),
    }
}

/// Every knob that was turned, as `forebay set` prints it.
fn turned(from: &Changes, to: &Changes) -> String {
    let (from, to) = (knobs::values(from.clone()), knobs::values(to.clone()));
    let line = |(name, new): (&String, &Value)| {
        let old = from.get(name).map_or_else(|| "?".into(), knobs::plain);
        format!("{name}: {old} -> {}", knobs::plain(new))
    };
    to.iter().map(line).collect::<Vec<_>>().join(", ")
}

fn kind_of(failure: Failure) -> &'static str {
    match failure {
        Failure::Fenced => "fenced",
        _ => "failed",
    }
}

fn refused(refusal: &Refusal) -> String {
    let what = match refusal.kind {
        IoKind::Read => "read",
        IoKind::Write => "write",
        IoKind::Commit => "commit",
        IoKind::Discard => "discard",
        IoKind::SetLength => "new length",
    };
    let (bdi, failure) = (refusal.bdi, refusal.failure);
    let what = match refusal.requests {
        1 => format!("a {what}"),
        count => format!("{count} {what}s"),
    };
    format!("store {bdi} refused {what}: {failure}")
}
