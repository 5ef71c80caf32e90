//! A recorded pause, computed again from its inputs.

use crate::event::{PauseLimit, PauseRecord};
use crate::policy::DirtyThrottle;
use forebay_law::pace::{LONGEST_US, PaceInputs, pace};
use forebay_law::pause::{PauseDecision, decide_pause, size_pause};
use forebay_law::position::position;
use forebay_law::rate::task_ratelimit;

impl PauseRecord {
    /// The record that the laws make from the inputs of this one: its position, the base rate, the
    /// pages dirtied and the writer's clock. It is equal to this one. A pause whose limit is
    /// [`PauseLimit::Unmeasured`] is returned as it is, because it ended when a write did.
    #[must_use]
    pub fn recomputed(&self) -> PauseRecord {
        if self.limit == PauseLimit::Unmeasured {
            return *self;
        }
        let place = position(&self.position);
        let task = task_ratelimit(self.dirty_ratelimit, place.ratio);
        let sizing = size_pause(
            self.position.average_pages_per_s,
            self.dirty_ratelimit,
            self.position.store_dirty,
            task,
            self.tick,
        );
        let limit = match (task, self.position.strict) {
            (0, _) => PauseLimit::Hard,
            (_, true) => PauseLimit::Store,
            (_, false) => PauseLimit::Global,
        };
        let is_paced = self.throttle == DirtyThrottle::Paced;
        let pause_us = if is_paced && task > 0 {
            let inputs = PaceInputs {
                dirtied_pages: self.dirtied,
                task_ratelimit: task,
                paused_when_us: self.paused_when_us,
                now_us: self.now_us,
                max_pause_us: sizing.max_pause_ms * 1_000,
            };
            pace(&inputs).sleep_us
        } else {
            let longest_us = if is_paced { LONGEST_US } else { u64::MAX };
            let now_ms = self.now_us / 1_000;
            match decide_pause(self.clock, &sizing, task, now_ms, self.tick).0 {
                PauseDecision::Sleep { pause_ms, .. } => (pause_ms * 1_000).min(longest_us),
                PauseDecision::NoSleep => 0,
            }
        };
        PauseRecord {
            limit,
            setpoint: place.setpoint,
            pos_ratio: place.ratio,
            task_ratelimit: task,
            sizing,
            pause_us,
            ..*self
        }
    }
}
