//! Callers and what they waited for, as JSON.

use super::incidents::{IncidentWords, incidents};
use super::knobs::{self, plain};
use super::time::show_time;
use super::troubles::{TroubleWords, trouble_of};
use forebay::event::{PauseView, WaitedCall};
use forebay::trouble::StoreTrouble;
use forebay::why::{Advice, WaitRow, WhyLine};
use forebay::{Cache, Caller, CallerKey, CallerKind, Why};
use forebay_base::Span;
use forebay_base::units::byte_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A caller, for programs and for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallerWords {
    pub kind: String,
    pub number: u32,
    pub name: String,
    pub text: String,
}

impl From<&Caller> for CallerWords {
    fn from(caller: &Caller) -> CallerWords {
        let kind = match caller.kind() {
            CallerKind::Handle => "handle",
            CallerKind::Named => "named",
            CallerKind::Connection => "connection",
            CallerKind::Process => "process",
            CallerKind::Cache => "cache",
            _ => "others",
        };
        CallerWords {
            kind: kind.into(),
            number: caller.number(),
            name: caller.name().into(),
            text: caller.to_string(),
        }
    }
}

/// How long a caller waited for one store and one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitWords {
    pub caller: CallerWords,
    pub store: Option<usize>,
    pub cause: String,
    pub calls: u64,
    pub waited_us: u64,
    pub longest_us: u64,
}

/// The rows of the ledger.
pub fn waits(cache: &Cache, rows: &[WaitRow]) -> Vec<WaitWords> {
    let words = |row: &WaitRow| WaitWords {
        caller: CallerWords::from(&cache.caller(row.caller)),
        store: row.bdi,
        cause: row.cause.name().into(),
        calls: row.calls,
        waited_us: row.waited.as_micros(),
        longest_us: row.longest.as_micros(),
    };
    rows.iter().map(words).collect()
}

/// Who waited for what, and who is to blame.
#[derive(Debug, Serialize)]
pub struct WhyWords {
    window_us: u64,
    waited_us: u64,
    lines: Vec<WhyLineWords>,
    /// The stores that are silent or refuse something, now.
    troubles: Vec<StoreTroubleWords>,
    /// The same for people.
    text: String,
}

/// What is wrong with a store.
#[derive(Debug, Serialize)]
struct StoreTroubleWords {
    store: usize,
    name: String,
    silent_us: u64,
    kept_bytes: u64,
    refuses: Vec<TroubleWords>,
}

impl From<&StoreTrouble> for StoreTroubleWords {
    fn from(of: &StoreTrouble) -> StoreTroubleWords {
        let refused = of.refused.iter();
        let refuses = refused.map(|trouble| trouble_of(&of.name, of.kept_pages, trouble));
        StoreTroubleWords {
            store: of.bdi,
            name: of.name.clone(),
            silent_us: of.silent.as_micros(),
            kept_bytes: byte_of(of.kept_pages),
            refuses: refuses.collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct WhyLineWords {
    caller: CallerWords,
    store: Option<usize>,
    waited_us: u64,
    dirtied_bytes: u64,
    accusation: String,
    is_clear: bool,
    culprit: Option<CallerWords>,
    memory_helps: bool,
    store_helps: bool,
    /// For how long it has been waiting, if it waits now.
    waits_now_us: Option<u64>,
    /// Of its store, now.
    oldest_dirty_us: Option<u64>,
    advice: Option<AdviceWords>,
    waits: Vec<WaitWords>,
}

/// Knobs that would help.
#[derive(Debug, Serialize)]
struct AdviceWords {
    reason: String,
    knobs: Map<String, Value>,
    command: String,
}

impl WhyWords {
    /// `socket` is the server's, for commands that turn knobs.
    pub fn of(cache: &Cache, why: &Why, socket: &Path) -> WhyWords {
        let command = |knobs: &Map<String, Value>| {
            let words = knobs
                .iter()
                .map(|(name, value)| format!(" {name}={}", plain(value)));
            let words: String = words.collect();
            format!("forebay set {}{words}", socket.display())
        };
        let advice = |advice: &Advice| {
            let knobs = knobs::values(advice.changes.clone());
            AdviceWords {
                reason: advice.reason.to_string(),
                command: command(&knobs),
                knobs,
            }
        };
        let line = |line: &WhyLine| WhyLineWords {
            caller: CallerWords::from(&line.caller),
            store: line.bdi,
            waited_us: line.waited.as_micros(),
            dirtied_bytes: byte_of(line.dirtied_pages),
            accusation: line.accusation(),
            is_clear: line.verdict.is_clear(),
            culprit: line.culprit.as_ref().map(CallerWords::from),
            memory_helps: line.savings.memory_helps(),
            store_helps: line.savings.store_helps(),
            waits_now_us: line.waits_now.map(Span::as_micros),
            oldest_dirty_us: line.oldest_dirty.map(Span::as_micros),
            advice: line.advice.as_ref().map(advice),
            waits: waits(cache, &line.rows),
        };
        WhyWords {
            window_us: why.window.as_micros(),
            waited_us: why.waited.as_micros(),
            lines: why.lines.iter().map(line).collect(),
            troubles: why.troubles.iter().map(StoreTroubleWords::from).collect(),
            text: why.text(|advice| command(&knobs::values(advice.changes.clone()))),
        }
    }
}

/// A call that waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallWords {
    /// Since the server was started.
    pub began_us: u64,
    pub took_us: u64,
    pub caller: CallerWords,
    pub store: Option<usize>,
    pub kind: String,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub causes: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pause: Option<PauseWords>,
}

/// The last decision that made it pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseWords {
    pub limit: String,
    pub dirty_bytes: u64,
    pub setpoint_bytes: u64,
    pub limit_bytes: u64,
    /// 1024 for 1.
    pub pos_ratio: u64,
    pub rate_bytes_per_s: u64,
    pub dirtied_bytes: u64,
    pub own_dirty_bytes: u64,
    pub heaviest_other: Option<String>,
}

/// The waits for causes that the record of a call has no room to name.
pub const OTHER_CAUSES: &str = "other causes";

impl CallWords {
    /// `name_of` gives the name of a caller.
    pub fn of(call: &WaitedCall, name_of: &dyn Fn(CallerKey) -> Caller) -> CallWords {
        let rest = (OTHER_CAUSES, call.causes.rest());
        let named = call.causes.iter().map(|(cause, us)| (cause.name(), us));
        let causes = named.chain(Some(rest).filter(|&(_, us)| us > Span::ZERO));
        let causes = causes.map(|(cause, us)| (cause.into(), us.as_micros()));
        CallWords {
            began_us: call.began.as_nanos() / 1_000,
            took_us: call.took.as_micros(),
            caller: CallerWords::from(&name_of(call.caller)),
            store: call.bdi,
            kind: call.kind.name().into(),
            offset_bytes: call.offset_bytes,
            bytes: call.bytes,
            causes: causes.collect(),
            pause: call.pause.map(|pause| pause_words(&pause, name_of)),
        }
    }
}

fn pause_words(pause: &PauseView, name_of: &dyn Fn(CallerKey) -> Caller) -> PauseWords {
    let other = pause.heaviest_other.map(|key| name_of(key).to_string());
    PauseWords {
        limit: format!("{:?}", pause.limit).to_lowercase(),
        dirty_bytes: byte_of(pause.dirty),
        setpoint_bytes: byte_of(pause.setpoint),
        limit_bytes: byte_of(pause.hard_limit),
        pos_ratio: pause.pos_ratio,
        rate_bytes_per_s: byte_of(pause.task_ratelimit),
        dirtied_bytes: byte_of(pause.dirtied),
        own_dirty_bytes: byte_of(pause.own_dirty),
        heaviest_other: other,
    }
}

/// The stalls kept, newest first.
#[derive(Debug, Default, Serialize, Deserialize)]
#[allow(clippy::struct_field_names, reason = "the name in JSON")]
pub struct Stalls {
    /// A call that took longer is a stall.
    pub threshold: String,
    /// How many more are kept, without room in this answer.
    pub left_out: usize,
    pub stalls: Vec<CallWords>,
    /// What happened meanwhile, the oldest first.
    #[serde(default)]
    pub incidents: Vec<IncidentWords>,
}

/// An answer has at most this many of them, the newest ones.
const STALLS_LIMIT: usize = 1_000;

impl Stalls {
    /// Those of the `last` time, or since the start, as many as an answer has room for.
    pub fn of(cache: &Cache, last: Option<Span>) -> Stalls {
        Stalls::newest(cache, last, STALLS_LIMIT)
    }

    /// All that are kept.
    pub fn all(cache: &Cache) -> Stalls {
        Stalls::newest(cache, None, usize::MAX)
    }

    fn newest(cache: &Cache, last: Option<Span>, limit: usize) -> Stalls {
        let calls = cache.stalls(last);
        let newest = calls.iter().take(limit);
        let threshold = cache.tuned().stall_threshold;
        Stalls {
            threshold: threshold.map(show_time).unwrap_or_default(),
            left_out: calls.len().saturating_sub(limit),
            stalls: newest
                .map(|call| CallWords::of(call, &|key| cache.caller(key)))
                .collect(),
            incidents: incidents(cache, last),
        }
    }
}
