//! The verdict: what a run has found.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::WaitQueue;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The oracle that noticed that something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Oracle {
    /// A byte or a length that nobody made.
    Bytes,
    /// A crash image that lacks what a returned sync promised.
    Crash,
    /// Counters, lists and gauges that contradict each other or the stores' own counts.
    Books,
    /// A declared bound that was exceeded.
    Bounds,
    /// A failure that a handle did not hear of or heard of twice, or one that never happened.
    Errors,
    /// A call that does not return, or dirty pages that do not drain.
    Stuck,
    /// Equal writers that get unequal shares, or a light writer that is held back.
    Shares,
    /// A store that idles while one of its writers waits and there is something to write.
    Work,
    /// A sync that returned before the store had all that it promises.
    Sync,
    /// A page that stays dirty for too long.
    Age,
    /// A failed write that is tried again before it is due, or long after that.
    BackOff,
    /// More dirty pages than the limit allows, or a writer that goes on at the limit.
    Limit,
    /// A store whose estimated rate is much faster or slower than the real one.
    Estimate,
    /// A store with a promise in seconds that has more dirty pages than it can write in that time,
    /// or far fewer, or whose writers hang.
    Drain,
    /// A budget that leaves other programs without memory, swings, or does not come back.
    Elastic,
    /// A kswapd that sleeps where it should not, a flag or mark that is left, or a reclaimer that
    /// is not woken by what it waits for.
    Reclaim,
    /// A decision about a writer that does not follow from what was recorded with it, or from the
    /// gauges.
    Recomputed,
    /// A store without a request while its writers pause at a limit.
    Busy,
    /// A call that waited and does not say for what, or sums of waits that disagree.
    Waits,
    /// Two runs of one seed that differ.
    Twin,
    /// The program stopped itself.
    Panic,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}").to_lowercase();
        f.write_str(&name)
    }
}

impl Oracle {
    /// What it finds.
    pub(super) fn finds(self, what: impl Into<String>) -> Violation {
        Violation {
            oracle: self,
            what: what.into(),
        }
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The oracle that noticed it.
    pub oracle: Oracle,
    /// What is wrong, in one line.
    pub what: String,
}

impl Violation {
    /// The same, with the scene in which it was found.
    pub(super) fn of(self, scene: impl fmt::Display) -> Violation {
        Violation {
            what: format!("{} ({scene})", self.what),
            ..self
        }
    }
}

/// Keeps the first violation of a run. What follows from it is of no interest.
#[derive(Debug)]
pub(super) struct Verdict {
    first: Mutex<Option<Violation>>,
    /// Woken when there is a violation.
    news: Arc<WaitQueue>,
}

impl Verdict {
    pub(super) fn new(news: Arc<WaitQueue>) -> Verdict {
        Verdict {
            first: Mutex::new(None),
            news,
        }
    }

    pub(super) fn broken(&self, oracle: Oracle, what: impl Into<String>) {
        let mut first = lock(&self.first);
        if first.is_none() {
            *first = Some(Violation {
                oracle,
                what: what.into().replace('\n', "; "),
            });
            drop(first);
            self.news.wake_all();
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        lock(&self.first).is_some()
    }

    pub(super) fn take(&self) -> Option<Violation> {
        lock(&self.first).take()
    }
}
