//! The events of a cache, passed on to the `tracing` crate: a warning for each call that waited for
//! long, an error for each write that failed, and debug events for shorter waits and for the
//! flusher's work. `cargo run -p forebay --example tracing` writes for a moment to a slow store and
//! prints what is passed on.
//!
//! The library depends on no crate for this: [`EventSink`] is all that it needs. A program installs
//! the subscriber of its choice, as `tracing_subscriber::fmt().init()`; here a few lines print.

use forebay::event::{Event, EventSink, WaitedCall};
use forebay::{Cache, Caller, Parts, Settings};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_store::{MemoryStore, ObjectId, Rate, RateStore};
use std::fmt::{self, Write};
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

type Failure = Box<dyn std::error::Error>;

/// A call that waited this long or longer is worth a warning.
const LONG: Span = Span::from_millis(10);

/// Passes events on to `tracing`. It is called from hot paths, so it formats nothing: a subscriber
/// that does not want an event does not format it either.
struct ToTracing;

impl EventSink for ToTracing {
    fn record(&self, at: Instant, event: &Event) {
        let at_us = at.as_micros();
        match *event {
            Event::CallWaited { ref call } => pass_on(at_us, call),
            Event::WritebackFailed {
                bdi,
                ino,
                pages,
                errno,
            } => tracing::error!(at_us, bdi, ino, pages, errno, "writeback failed"),
            Event::WritebackWritten { bdi, reason, pages } => {
                tracing::debug!(at_us, bdi, ?reason, pages, "writeback written");
            }
            Event::WaitOverdue { what, bound } => {
                tracing::warn!(at_us, what, bound_us = bound.as_micros(), "wait overdue");
            }
            _ => {}
        }
    }
}

fn pass_on(at_us: u64, call: &WaitedCall) {
    let (caller, kind, took_us) = (call.caller, call.kind.name(), call.took.as_micros());
    // The causes are in the order of their times.
    let cause = call.causes.iter().next().map(|(cause, _)| cause.name());
    let (bdi, bytes) = (call.bdi, call.bytes);
    if call.took >= LONG {
        tracing::warn!(at_us, %caller, bdi, kind, bytes, took_us, cause, "call waited");
    } else {
        tracing::debug!(at_us, %caller, bdi, kind, bytes, took_us, cause, "call waited");
    }
}

/// A subscriber that gives each event as a line.
struct Lines<W>(W);

/// The fields of an event, as a line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A text takes every character.
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<W: Fn(&str) + 'static> Subscriber for Lines<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        (self.0)(&line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Writes more than a slow store takes at once.
fn load() -> Result<(), Failure> {
    let settings = Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    };
    let parts = Parts {
        sink: Some(Arc::new(ToTracing)),
        ..Parts::default()
    };
    let cache = Cache::with_parts(settings, parts)?;
    let rate = Rate::bytes(32_000_000);
    let store = RateStore::new(Rt::real(), Arc::new(MemoryStore::new()), rate);
    let store = cache.attach(Arc::new(store))?;
    let length_bytes = 8 << 20;
    let caller = Caller::named("backup");
    let file = cache.open_for(&store, ObjectId(1), length_bytes, &caller)?;
    let file = file.blocking();
    let block = vec![7; 65_536];
    for at in (0..length_bytes).step_by(block.len()) {
        file.write_at(&block, at)?;
    }
    file.sync()?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    tracing::subscriber::set_global_default(Lines(|line: &str| println!("{line}")))?;
    load()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_call_that_waits_is_passed_on() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = lines.clone();
        let keep = move |line: &str| into.lock().unwrap().push(line.to_owned());
        tracing::subscriber::set_global_default(Lines(keep)).unwrap();
        load().unwrap();
        let lines = lines.lock().unwrap();
        let of = |words: &[&str]| {
            let found = lines
                .iter()
                .find(|line| words.iter().all(|word| line.contains(word)));
            found.is_some()
        };
        assert!(
            of(&["call waited", "kind=\"write\"", "cause=\""]),
            "{lines:?}"
        );
        assert!(of(&["call waited", "kind=\"sync\"", "bdi=0"]), "{lines:?}");
        assert!(of(&["writeback written"]), "{lines:?}");
    }
}
