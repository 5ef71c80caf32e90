//! What is recorded about a cache: counters, marks of the branches that were taken when something
//! went wrong, and events for a listener.
//!
//! It owns all three, and knows neither the engine nor the clock: each event comes with its time.

use crate::counters::{Counter, Counters};
use crate::event::{Event, EventSink};
use crate::marks::{Mark, Marks};
use forebay_base::Instant;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Counters, marks and the listener of one cache.
pub struct Records {
    /// Shared with the memory, which counts here too.
    pub counters: Arc<Counters>,
    marks: Marks,
    sink: Option<Arc<dyn EventSink>>,
    /// The sink panicked and is no longer called.
    sink_failed: AtomicBool,
}

impl Records {
    /// Nothing is recorded yet; events will go to `sink`.
    pub(crate) fn new(sink: Option<Arc<dyn EventSink>>) -> Records {
        Records {
            counters: Arc::new(Counters::new()),
            marks: Marks::new(),
            sink,
            sink_failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn count(&self, counter: Counter, count: u64) {
        self.counters.add(counter, count);
    }

    /// Notes that something went wrong and where it was handled.
    pub(crate) fn mark(&self, mark: Mark) {
        self.marks.reach(mark);
    }

    pub(crate) fn times_reached(&self, mark: Mark) -> u32 {
        self.marks.reached(mark)
    }

    /// Whether anybody takes events.
    pub(crate) fn has_listener(&self) -> bool {
        self.sink.is_some()
    }

    /// Gives the listener an event that happened at `now`.
    pub(crate) fn record(&self, now: Instant, event: &Event) {
        let Some(sink) = &self.sink else { return };
        if self.sink_failed.load(Ordering::Relaxed) {
            return;
        }
        // This is the program's code, called from the middle of ours: its panic must not end the
        // flusher.
        let record = AssertUnwindSafe(|| sink.record(now, event));
        if catch_unwind(record).is_err() && !self.sink_failed.swap(true, Ordering::Relaxed) {
            forebay_rt::say("the sink for events panicked; it gets no more of them");
        }
    }
}
