//! What is recorded of a cache: counters, the arms that were taken when something went wrong, and
//! events for a listener.
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
pub(crate) struct Records {
    /// The memory counts here too.
    pub(crate) counters: Arc<Counters>,
    marks: Marks,
    sink: Option<Arc<dyn EventSink>>,
    /// The sink panicked: it is not called any more.
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

    /// Something went wrong, and this is where it was taken care of.
    pub(crate) fn mark(&self, mark: Mark) {
        self.marks.reach(mark);
    }

    pub(crate) fn times_reached(&self, mark: Mark) -> u32 {
        self.marks.reached(mark)
    }

    /// Whether an event is worth making.
    pub(crate) fn has_listener(&self) -> bool {
        self.sink.is_some()
    }

    /// Hands an event of `now` to the listener.
    pub(crate) fn record(&self, now: Instant, event: &Event) {
        let Some(sink) = &self.sink else { return };
        if self.sink_failed.load(Ordering::Relaxed) {
            return;
        }
        // Somebody else's code, in the middle of ours: the flusher does not end with it.
        let record = AssertUnwindSafe(|| sink.record(now, event));
        if catch_unwind(record).is_err() && !self.sink_failed.swap(true, Ordering::Relaxed) {
            forebay_rt::say("the sink for events panicked; it gets no more of them");
        }
    }
}
