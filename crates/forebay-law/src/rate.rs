//! The rate at which each writer of a store may dirty pages.

use crate::arithmetic::{MS_PER_S, RATIO_BITS, scaled};
use crate::bandwidth::INITIAL_PAGES_PER_S;

/// The base rate of a store's writers and the last raw estimate of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyRate {
    /// Pages a second that each writer may dirty at ratio one; at least 1.
    pub ratelimit: u64,
    /// The last raw estimate of bandwidth over writers, in pages a second.
    pub balanced: u64,
}

impl Default for DirtyRate {
    fn default() -> Self {
        DirtyRate {
            ratelimit: INITIAL_PAGES_PER_S,
            balanced: INITIAL_PAGES_PER_S,
        }
    }
}

/// What happened since the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateInputs {
    /// The position ratio, 1024 is one.
    pub position_ratio: u64,
    /// The store's write bandwidth in pages a second, from before this step.
    pub average_pages_per_s: u64,
    /// Pages that became dirty on this store.
    pub dirtied_pages: u64,
    /// Milliseconds since the last step.
    pub elapsed_ms: u64,
    /// Dirty pages and pages under write-back of the whole (of the store, if it is strict).
    pub dirty: u64,
    /// Where `dirty` should be.
    pub setpoint: u64,
}

impl DirtyRate {
    /// The rate after one step.
    #[must_use]
    pub fn advanced(self, inputs: &RateInputs) -> DirtyRate {
        let dirty_rate = scaled(inputs.dirtied_pages, MS_PER_S, inputs.elapsed_ms.max(1));
        // The one more lets a rate of 1 grow.
        let task = task_ratelimit(self.ratelimit, inputs.position_ratio).saturating_add(1);
        let average = inputs.average_pages_per_s;
        let balanced = scaled(task, average, dirty_rate | 1).min(average);
        let step = damped(self.gap(balanced, task, inputs), self.ratelimit);
        let ratelimit = if self.ratelimit < balanced {
            self.ratelimit.saturating_add(step)
        } else {
            self.ratelimit.saturating_sub(step)
        };
        DirtyRate {
            ratelimit: ratelimit.max(1),
            balanced,
        }
    }

    /// How far the rate may move: only as far as the old estimate, the new one and the position
    /// agree on.
    fn gap(self, balanced: u64, task: u64, inputs: &RateInputs) -> u64 {
        if inputs.dirty < inputs.setpoint {
            let agreed = self.balanced.min(balanced).min(task);
            agreed.saturating_sub(self.ratelimit)
        } else {
            let agreed = self.balanced.max(balanced).max(task);
            self.ratelimit.saturating_sub(agreed)
        }
    }
}

/// An eighth of the gap, and geometrically less the smaller the gap is against the rate.
fn damped(gap: u64, ratelimit: u64) -> u64 {
    let shift = ratelimit / (gap.saturating_mul(2).saturating_add(1));
    let step = u32::try_from(shift)
        .ok()
        .and_then(|shift| gap.checked_shr(shift))
        .unwrap_or(0);
    step.div_ceil(8)
}

/// The rate that is imposed on a writer, in pages a second.
pub fn task_ratelimit(ratelimit: u64, position_ratio: u64) -> u64 {
    scaled(ratelimit, position_ratio, 1 << RATIO_BITS)
}

/// Where the dirty pages of a strictly limited store should be.
pub fn strict_setpoint(store_dirty: u64, store_thresh: u64, store_background: u64) -> u64 {
    if store_dirty < 8 {
        store_dirty + 1
    } else {
        u64::midpoint(store_thresh, store_background)
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
