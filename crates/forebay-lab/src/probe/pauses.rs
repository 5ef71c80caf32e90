//! Pauses of one process or one store, and at what rates its writers were held.

use super::Latencies;
use crate::outcome::Distribution;
use forebay_base::{PAGE_BYTES, Span};
use forebay_engine::event::{PauseLimit, PauseRecord};

/// The pauses of one process or one store.
#[derive(Default)]
pub(super) struct PausesOf {
    pauses: Latencies,
    /// Sums over the pauses that the laws decided.
    ratio: f64,
    pages_per_s: f64,
    decided: u64,
}

/// What is reported of them.
#[derive(Clone)]
pub(crate) struct WatchedPauses {
    pub(crate) pauses: Distribution,
    /// The mean position ratio, 1 at the setpoint; none if no law decided a pause.
    pub(crate) pos_ratio: Option<f64>,
    /// The mean rate that the writer was allowed, bytes a second.
    pub(crate) task_ratelimit: Option<f64>,
}

impl PausesOf {
    /// One more pause; `record` is that of the laws, if they decided it.
    pub(super) fn add(&mut self, pause: Span, record: Option<&PauseRecord>) {
        self.pauses.record(pause);
        let decided = record.filter(|record| record.limit != PauseLimit::Unmeasured);
        if let Some(record) = decided {
            self.ratio += record.pos_ratio as f64 / 1_024.0;
            self.pages_per_s += record.task_ratelimit as f64;
            self.decided += 1;
        }
    }

    pub(super) fn watched(&self) -> WatchedPauses {
        let mean = |sum: f64| (self.decided > 0).then(|| sum / self.decided as f64);
        WatchedPauses {
            pauses: self.pauses.distribution_ms(),
            pos_ratio: mean(self.ratio),
            task_ratelimit: mean(self.pages_per_s * PAGE_BYTES as f64),
        }
    }
}
