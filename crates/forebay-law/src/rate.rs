//! The rate at which each writer of a store may dirty pages.
//!
//! # Question
//!
//! How many pages a second may each writer of a store dirty, when nobody knows how many writers
//! there are or will be in a second?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `position_ratio` | 1/1024 | 0 and up | the position law |
//! | `average_pages_per_s` | pages/s | 1 and up | the bandwidth law, before this step |
//! | `dirtied_pages` | pages | 0 and up | the store, since the last step |
//! | `elapsed_ms` | ms | 1 and up, 200 as a rule | the runtime |
//! | `dirty`, `setpoint` | pages | 0 and up | the counters, the limits law |
//! | `ratelimit` | pages/s | 1 and up | output: settles at bandwidth / writers |
//! | `balanced` | pages/s | 0 to average | output: the raw estimate |
//!
//! # Formula
//!
//! ```text
//! dirty_rate = dirtied_pages * 1000 / elapsed
//! task       = ratelimit * position_ratio / 1024 + 1
//! balanced'  = min(task * average / dirty_rate, average)
//! dirty < setpoint : gap = min(balanced, balanced', task) - ratelimit
//! otherwise        : gap = ratelimit - max(balanced, balanced', task)
//! step       = ceil((max(gap, 0) >> (ratelimit / (2 * gap + 1))) / 8)
//! ratelimit := max(1, ratelimit + step or - step, towards balanced')
//! balanced  := balanced'
//! ```
//!
//! # Conditions
//!
//! 1. The rate is at least 1 and the estimate at most the bandwidth.
//! 2. A step is at most an eighth of the gap, rounded up, and never overshoots its aim.
//! 3. The rate rises only below the setpoint and falls only from the setpoint on.
//! 4. Unless both estimates and the position agree, nothing moves.
//! 5. From a cold start the rate of 1, 10 or 100 writers is within a quarter of bandwidth / writers
//!    after 30 s.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/rate.svg")]
//!
//! The rate of each of ten writers of a disk that writes 25 600 pages a second, from a cold start:
//! it falls from 25 600 to 2560. The dirty pages and the position law close the loop.
//!
//! # Example
//!
//! Ten writers on a disk of 100 MB/s (25 600 pages a second), base rate still at 10 000, half way
//! between setpoint and limit: the estimate of 2340 is already right, and the rate takes a small
//! step since the last estimate was much higher.
//!
//! ```
//! use forebay_law::rate::{DirtyRate, RateInputs};
//!
//! let rate = DirtyRate { ratelimit: 10_000, balanced: 4_000 };
//! let next = rate.advanced(&RateInputs {
//!     position_ratio: 896,
//!     average_pages_per_s: 25_600,
//!     dirtied_pages: 19_140,
//!     elapsed_ms: 200,
//!     dirty: 187_500,
//!     setpoint: 175_000,
//! });
//! assert_eq!(next, DirtyRate { ratelimit: 9_990, balanced: 2_340 });
//! ```
//!
//! # Why not the simpler one
//!
//! Bandwidth over the number of writers needs that number, and writers come, go and think. Taking
//! the raw estimate as the rate makes every writer follow its noise, and the loop through dirty
//! pages and bandwidth oscillates. Moving towards it by a fixed part still drifts at rest. Here a
//! step needs three witnesses, and shrinks geometrically as the gap becomes small against the
//! rate.
//!
//! # Edges
//!
//! If nothing was dirtied since the last step, the raw estimate is the bandwidth itself, not
//! infinity. A rate of 1 can still grow, because of the one added to `task`. Without a measurement
//! no step must be taken, but the stamp of the dirtied pages still has to move. A ratio of 0 leaves
//! `task` at 1: the rate falls by eighths until the position allows more.
//!
//! # Lineage
//!
//! Linux: `bdi_update_dirty_ratelimit` (3.2), the bound by the bandwidth (3.3).

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
