//! How much of memory may be dirty, and where throttling aims.
//!
//! # Question
//!
//! From how many dirty pages on does the flusher write, from how many are writers slowed, and at
//! how many are they stopped?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `available_pages` | pages | 1 and up | free pages beyond the reserve, and file pages |
//! | `knobs` | percent or bytes | 0 to 100; 0 and up | an operator |
//! | `dirty` | pages | 0 and up | the counters: dirty and under write-back |
//! | `now_ms` | ms | does not go back | the runtime |
//! | `thresh`, `background` | pages | `background < thresh` | output |
//! | `freerun`, `setpoint`, `limit` | pages | in this order | output |
//!
//! # Formula
//!
//! ```text
//! thresh     = dirty_bytes / 4096, or available * (dirty_ratio * 4096 / 100) / 4096
//! background = the same of its own knobs; thresh / 2 if it is not below thresh
//! freerun    = (thresh + background) / 2
//! hard limit = max(thresh, smoothed)
//! smoothed  := thresh                                   if it is below thresh
//!              smoothed - (smoothed - max(thresh, dirty)) / 32    else, once in 200 ms
//! setpoint   = (freerun + hard limit) / 2
//! zone limit = dirty_ratio * dirtyable of the zone / 100, or its part of dirty_bytes
//! ```
//!
//! # Conditions
//!
//! 1. `background < thresh` and `background <= freerun < thresh`, unless there is nothing at all.
//! 2. `freerun <= setpoint <= hard limit`, and the hard limit is never below `thresh`.
//! 3. The smoothed limit rises in one step and falls by no more than 1/32 of the gap in 200 ms.
//! 4. It never falls below what is dirty.
//! 5. The limits of the zones sum to no more than that of the whole.
//! 6. More memory never lowers a threshold for writers that is given in percent.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/limits.svg")]
//!
//! The smoothed limit after the threshold fell from 200 000 to 120 000 pages. It stops 31 pages
//! above the threshold, where 1/32 of the gap is less than a page.
//!
//! # Example
//!
//! A cache of 1 000 000 pages (3.8 GiB) with the usual 20 and 10 percent writes in the background
//! from 99 853 pages, slows writers from 149 902 and stops them at 199 951.
//!
//! ```
//! use forebay_law::limits::{DirtyKnobs, dirty_limits, setpoint};
//!
//! let limits = dirty_limits(1_000_000, &DirtyKnobs::default());
//! assert_eq!((limits.background, limits.freerun(), limits.thresh), (99_853, 149_902, 199_951));
//! assert_eq!(setpoint(limits.freerun(), limits.thresh), 174_926);
//! ```
//!
//! # Why not the simpler one
//!
//! One limit that stops writers makes them run free, then stop dead. If the hard limit followed a
//! falling threshold at once, all writers would stop until the surplus is written, which takes
//! minutes on a slow store. So it falls as slowly as pages can be written. With only a limit for
//! the whole, a small zone could fill with dirty pages, and reclaim there would find nothing to
//! free.
//!
//! # Edges
//!
//! The available pages are at least 1 so that nothing is divided by 0. Bytes win over a
//! percentage. A background limit that is too high is halved, not refused, since both follow
//! memory. A limit that has never moved is 0, and the threshold counts. If the clock stands still
//! the limit does too: the error is on the side of letting writers go on. A zone at its limit is
//! skipped; that is never an error.
//!
//! # Lineage
//!
//! Linux: the two ratios (2.6), the smoothed limit (3.1), limits of zones (3.3), of nodes (4.8).

use crate::arithmetic::{PAGE_BYTES, scaled};

/// Milliseconds between two steps of the smoothed limit.
pub const LIMIT_INTERVAL_MS: u64 = 200;

/// The part of the gap by which the smoothed limit falls at each step, as a shift.
const LIMIT_DECAY_BITS: u32 = 5;

/// The largest threshold in pages.
const MAX_THRESH: u64 = u32::MAX as u64;

/// What an operator sets. A byte value above 0 wins over its percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyKnobs {
    /// Percent of the available pages that may be dirty.
    pub dirty_ratio_percent: u64,
    /// Bytes that may be dirty; 0 leaves it to the percentage.
    pub dirty_bytes: u64,
    /// Percent of the available pages from which the flusher writes in the background.
    pub background_ratio_percent: u64,
    /// Bytes from which the flusher writes in the background; 0 leaves it to the percentage.
    pub background_bytes: u64,
}

impl Default for DirtyKnobs {
    fn default() -> Self {
        DirtyKnobs {
            dirty_ratio_percent: 20,
            dirty_bytes: 0,
            background_ratio_percent: 10,
            background_bytes: 0,
        }
    }
}

/// The two thresholds, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtyLimits {
    /// Where writers stop.
    pub thresh: u64,
    /// Where the flusher starts.
    pub background: u64,
}

impl DirtyLimits {
    /// The dirty pages up to which no writer is slowed.
    pub fn freerun(&self) -> u64 {
        u64::midpoint(self.thresh, self.background)
    }
}

/// The pages that could be dirty: free ones beyond the reserve, and those of files. Never 0.
pub fn available_pages(free: u64, file_lru: u64, total_reserve: u64) -> u64 {
    node_dirtyable(free, file_lru, total_reserve).saturating_add(1)
}

/// The thresholds for `available_pages` (Linux since 4.2). The background threshold stays below the
/// other one.
pub fn dirty_limits(available_pages: u64, knobs: &DirtyKnobs) -> DirtyLimits {
    let part = |bytes: u64, percent: u64| {
        if bytes > 0 {
            bytes.div_ceil(PAGE_BYTES)
        } else {
            let per_page = scaled(percent, PAGE_BYTES, 100);
            scaled(available_pages, per_page, PAGE_BYTES)
        }
    };
    let thresh = part(knobs.dirty_bytes, knobs.dirty_ratio_percent).min(MAX_THRESH);
    let background = part(knobs.background_bytes, knobs.background_ratio_percent);
    DirtyLimits {
        thresh,
        background: if background >= thresh {
            thresh / 2
        } else {
            background
        },
    }
}

/// The hard limit: rises at once with the threshold and falls slowly after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmoothedLimit {
    /// The limit in pages; 0 before the first step.
    pub limit: u64,
    /// When the last step was taken, in milliseconds.
    pub updated_ms: u64,
}

impl SmoothedLimit {
    /// The limit at `now_ms`; it moves at most once in [`LIMIT_INTERVAL_MS`].
    #[must_use]
    pub fn advanced(self, thresh: u64, dirty: u64, now_ms: u64) -> Self {
        if now_ms < self.updated_ms.saturating_add(LIMIT_INTERVAL_MS) {
            return self;
        }
        let limit = if self.limit < thresh {
            thresh
        } else {
            let target = thresh.max(dirty);
            self.limit - (self.limit.saturating_sub(target) >> LIMIT_DECAY_BITS)
        };
        SmoothedLimit {
            limit,
            updated_ms: now_ms,
        }
    }

    /// The dirty pages at which writers stop.
    pub fn hard_limit(&self, thresh: u64) -> u64 {
        self.limit.max(thresh)
    }
}

/// The dirty pages at which throttling aims: half way from `freerun` to `limit`.
pub fn setpoint(freerun: u64, limit: u64) -> u64 {
    u64::midpoint(freerun, limit)
}

/// The pages of a zone that could be dirty.
pub fn zone_dirtyable(free: u64, file_lru: u64, reserve: u64) -> u64 {
    free.saturating_add(file_lru).saturating_sub(reserve)
}

/// The pages of a node that could be dirty: its reserve is taken from the free pages only (Linux
/// since 4.8).
pub fn node_dirtyable(free: u64, file_lru: u64, reserve: u64) -> u64 {
    free.saturating_sub(reserve).saturating_add(file_lru)
}

/// The dirty pages a zone may hold: its part of the whole limit. `global_dirtyable` is that of all
/// zones together, and is used only if the limit is in bytes and has to be divided.
pub fn zone_limit(
    dirtyable: u64,
    global_dirtyable: impl FnOnce() -> u64,
    knobs: &DirtyKnobs,
) -> u64 {
    if knobs.dirty_bytes > 0 {
        let pages = knobs.dirty_bytes.div_ceil(PAGE_BYTES);
        scaled(pages, dirtyable, global_dirtyable().max(1))
    } else {
        scaled(dirtyable, knobs.dirty_ratio_percent, 100)
    }
}

/// Whether a zone may take another page that is going to be written.
pub fn zone_is_ok(dirty_and_writeback: u64, limit: u64) -> bool {
    dirty_and_writeback <= limit
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
