//! The state of a client that its connection and the server share while both run.

use crate::writes::Writes;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_rt::thread::Stopwatch;

/// Shared by a connection's thread and the server.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Runs since the client came.
    watch: Stopwatch,
    /// Since when, by `watch`, the client has taken none of the bytes that wait for it, in
    /// milliseconds plus one; 0 while it takes them.
    stalled_since_ms: AtomicU64,
    is_draining: AtomicBool,
    /// What the client's requests may still change.
    pub(crate) writes: Writes,
}

impl ConnectionState {
    pub(crate) fn new() -> ConnectionState {
        ConnectionState {
            watch: Stopwatch::start(),
            stalled_since_ms: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
            writes: Writes::new(),
        }
    }

    /// Records that the client has no room for the bytes that wait for it.
    pub(crate) fn is_full(&self) {
        let (now_ms, order) = (self.watch.elapsed().as_millis() + 1, Ordering::Relaxed);
        // The first call counts, until the client takes something.
        let _ = self
            .stalled_since_ms
            .compare_exchange(0, now_ms, order, order);
    }

    /// Records that the client took something, or that no bytes wait for it any more.
    pub(crate) fn took(&self) {
        if self.stalled_since_ms.load(Ordering::Relaxed) != 0 {
            self.stalled_since_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Whether bytes waited for the client and it took none of them for `patience`.
    pub(crate) fn is_stalled(&self, patience: Span) -> bool {
        let since_ms = self.stalled_since_ms.load(Ordering::Relaxed);
        let now_ms = self.watch.elapsed().as_millis() + 1;
        since_ms != 0 && now_ms >= since_ms + patience.as_millis()
    }

    /// Records that the server ends.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Set once the server ends.
    pub(crate) fn ending(&self) -> &AtomicBool {
        &self.is_draining
    }

    /// Whether the server ends.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
