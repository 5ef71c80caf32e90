//! What happened to a cache that a reader of its stalls has to know: knobs that were turned, other
//! budgets, and requests that a store refused. [`crate::Cache::incidents`] has the latest.

use crate::retune::Changes;
use forebay_base::Instant;
use forebay_store::{Failure, IoKind};

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When it happened, or happened first.
    pub at: Instant,
    /// What happened.
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// [`crate::Cache::retune`] turned knobs.
    Turned {
        /// The old values of the knobs that were turned.
        from: Box<Changes>,
        /// Their new values.
        to: Box<Changes>,
        /// Pages that could be dirty before.
        limit_pages_before: u64,
        /// Pages that could be dirty after it.
        limit_pages: u64,
    },
    /// [`crate::Cache::set_memory`] set another budget, or an elastic one followed the memory of
    /// the machine. Budgets that follow each other within ten seconds, with no other turn between
    /// them, are one.
    Memory {
        /// The budget before the first of them.
        from_bytes: u64,
        /// The budget after the last of them.
        to_bytes: u64,
    },
    /// A task of the cache ended unexpectedly, by a panic perhaps; a task that keeps something was
    /// started again.
    TaskEnded {
        /// Its name.
        name: &'static str,
        /// How often it has ended.
        times: u64,
        /// When it ended last.
        last: Instant,
    },
    /// A store refused requests. Those of one kind that failed in the same way within a second of
    /// each other are one.
    Failed(Refusal),
}

/// Requests that a store refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the store.
    pub bdi: usize,
    /// What they asked for.
    pub kind: IoKind,
    /// Why they were refused. [`Failure::Fenced`]: another writer has taken the object over.
    pub failure: Failure,
    /// How many there were.
    pub requests: u64,
    /// When the last one failed.
    pub last: Instant,
}
