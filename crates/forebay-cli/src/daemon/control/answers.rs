//! The answer to each request.

use super::feed::{Feed, News};
use super::request::{Request, Unserved};
use crate::daemon::history::History;
use crate::daemon::metrics::{self, Beside};
use crate::daemon::page::page;
use crate::daemon::say::say;
use forebay::{BuildError, Cache, Changes};
use forebay_base::Span;
use forebay_base::sync::Arc;
use forebay_control::knobs::{self, Refused};
use forebay_control::state::State;
use forebay_control::waits::{Stalls, WhyWords};
use forebay_rt::Rt;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Everything that answers are made from.
pub(crate) struct Source {
    pub(crate) cache: Cache,
    pub(crate) rt: Rt,
    /// The sink of the cache.
    pub(crate) feed: Arc<Feed>,
    /// The last minutes, for the status page.
    pub(crate) history: History,
    /// What is served, for people.
    pub(crate) served: String,
    /// The path of the control socket, absolute.
    pub(crate) socket: PathBuf,
    /// What the server knows beside the cache.
    pub(crate) beside: Box<dyn Fn() -> Beside + Send>,
}

/// An answer, ready to be sent.
pub(super) struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

const OK: &str = "200 OK";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Answer {
    /// `value` as JSON, in one line.
    fn json(status: &'static str, value: &impl Serialize) -> Answer {
        let mut body = serde_json::to_vec(value).expect("our own words are JSON");
        body.push(b'\n');
        Answer {
            status,
            kind: JSON,
            body,
        }
    }

    fn text(status: &'static str, text: &str) -> Answer {
        Answer {
            status,
            kind: TEXT,
            body: text.into(),
        }
    }

    fn error(status: &'static str, text: &str) -> Answer {
        Answer::json(status, &json!({ "error": text }))
    }

    /// For one listener too many.
    pub(super) fn too_many_listeners() -> Answer {
        let text = "too many clients listen already; try again when one has left";
        Answer::error("503 Service Unavailable", text)
    }

    /// The bytes to send.
    pub(super) fn bytes(self) -> Vec<u8> {
        let (status, kind, length) = (self.status, self.kind, self.body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        [head.into_bytes(), self.body].concat()
    }
}

impl From<Unserved> for Answer {
    fn from(unserved: Unserved) -> Answer {
        Answer::error(unserved.status, unserved.text)
    }
}

impl Source {
    /// The answer to `request`.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        match (&*request.method, &*request.path) {
            ("GET", "/metrics") => self.metrics(),
            ("GET", "/state") => Answer::json(OK, &self.state()),
            ("GET", "/why") => with_last(request, |last| self.why(last)),
            ("GET", "/stalls") => with_last(request, |last| Stalls::of(&self.cache, last)),
            ("POST", "/set") => self.set(&request.body),
            (_, "/metrics" | "/state" | "/why" | "/stalls" | "/events") => {
                Answer::error("405 Method Not Allowed", "ask for it with GET")
            }
            (_, "/set") => Answer::error("405 Method Not Allowed", "set with POST"),
            _ => Answer::text("404 Not Found", HELP),
        }
    }

    /// The answer to `request` of somebody who may be anybody.
    pub(super) fn public_answer(&self, request: &Request) -> Answer {
        match (&*request.method, &*request.path) {
            ("GET", "/metrics") => self.metrics(),
            ("GET", "/") => self.page(),
            ("GET", _) => Answer::text("404 Not Found", "try / or /metrics\n"),
            ("POST", "/set") => {
                let text = "knobs are set over the control socket only\n";
                Answer::text("403 Forbidden", text)
            }
            _ => Answer::text("400 Bad Request", "only GET is served\n"),
        }
    }

    fn page(&self) -> Answer {
        let troubles = (self.beside)().troubles;
        let page = page(&self.cache, &self.history, self.rt.now(), &troubles);
        Answer {
            status: OK,
            kind: HTML,
            body: page.into_bytes(),
        }
    }

    fn metrics(&self) -> Answer {
        Answer {
            status: OK,
            kind: OPEN_METRICS,
            body: metrics::of(&self.cache, &(self.beside)()).into_bytes(),
        }
    }

    /// Who waited for what. What keeps the server from its work now comes first.
    fn why(&self, last: Option<Span>) -> Value {
        let words = WhyWords::of(&self.cache, &self.cache.why(last), &self.socket);
        let mut why = serde_json::to_value(words).expect("our own words are JSON");
        let troubles = (self.beside)().troubles;
        let lines = troubles.iter().map(|trouble| format!("{trouble}\n"));
        let before: String = lines.collect();
        why["text"] = format!("{before}{}", why["text"].as_str().unwrap_or_default()).into();
        why["troubles"] = troubles.into();
        why
    }

    fn state(&self) -> State {
        let connections = (self.beside)().connections;
        State::of(&self.cache, self.rt.now(), &self.served, connections)
    }

    /// Turns the knobs of `body`, all of them or none.
    fn set(&self, body: &[u8]) -> Answer {
        let Ok(given) = serde_json::from_slice::<Map<String, Value>>(body) else {
            let text = "the body is a JSON object of knobs, as {\"dirty_ratio\": 10}";
            return Answer::error("400 Bad Request", text);
        };
        let changes = match knobs::changes(&given) {
            Ok(changes) => changes,
            Err(refused) => return unprocessable(&refused),
        };
        match self.cache.retune(&changes) {
            Ok(old) => Answer::json(OK, &self.report_changes(changes, old)),
            Err(BuildError::BadSetting {
                setting,
                given,
                allowed,
            }) => unprocessable(&Refused {
                knob: setting.into(),
                given,
                allowed: allowed.into(),
            }),
            Err(BuildError::Closed) => Answer::error("409 Conflict", "the server is ending"),
            Err(error) => Answer::error("422 Unprocessable Content", &error.to_string()),
        }
    }

    /// Reports the changes to the user and to listeners, and returns them.
    fn report_changes(&self, changes: Changes, old: Changes) -> Value {
        let (new, old) = (knobs::values(changes), knobs::values(old));
        let pairs = new.into_iter().map(|(name, new)| {
            let old = old.get(&name).cloned().unwrap_or_default();
            say(format_args!("{name} is set from {old} to {new}"));
            (name, json!({ "old": old, "new": new }))
        });
        let changed: Map<String, Value> = pairs.collect();
        let line = json!({ "changed": changed }).to_string();
        self.feed.publish(self.rt.now(), || News::Set(line));
        json!({ "changed": changed, "times_tuned": self.cache.times_tuned() })
    }
}

/// The paths, for a client that asks for another one.
const HELP: &str = "GET /metrics, /state, /why?last=300, /stalls?last=300, /events; POST /set\n";
/// The head of an answer with events.
pub(super) const EVENTS_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\
                                      Connection: close\r\n\r\n";

/// Whether `request` asks for events until the client leaves.
pub(super) fn is_for_events(request: &Request) -> bool {
    request.method == "GET" && request.path == "/events"
}

fn unprocessable(refused: &Refused) -> Answer {
    let Refused {
        knob,
        given,
        allowed,
    } = refused;
    let error = json!({
        "error": format!("{knob} cannot be {given}: {allowed}"),
        "knob": knob,
        "given": given,
        "allowed": allowed,
    });
    Answer::json("422 Unprocessable Content", &error)
}

/// An answer about as many last seconds as the query says; without a query, since the start.
fn with_last<T: Serialize>(request: &Request, about: impl FnOnce(Option<Span>) -> T) -> Answer {
    if request.query.is_empty() {
        return Answer::json(OK, &about(None));
    }
    let seconds = request.query.strip_prefix("last=");
    match seconds.map(str::parse::<u32>) {
        Some(Ok(seconds)) => {
            let last = Span::from_secs(u64::from(seconds));
            Answer::json(OK, &about(Some(last)))
        }
        _ => Answer::error("400 Bad Request", "the query is last=SECONDS"),
    }
}
