//! When a reclaimer that cannot progress sleeps, and who wakes it.
//!
//! # Question
//!
//! Reclaim finds nothing that it could free at once. Does the reclaimer sleep, for how long at
//! most, and which event is worth waking it for?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `reclaimed`, `scanned` | pages | 0 and up | the run; the pass |
//! | `priority` | - | 12 to 0 | the reclaim loop |
//! | `isolated`, `inactive` | pages | 0 and up | the lists |
//! | `written_since_first` | pages | 0 and up | completions since the first waiter came |
//! | `write_pending`, `reclaimable` | pages | 0 and up | the node |
//! | decision | | | output |
//!
//! # Formula
//!
//! ```text
//! wake the waiters for writes = written since the first > 32 * waiters
//! too many isolated           = isolated > inactive / 8   (inactive, if the caller may do less)
//! after a pass : wake others   if reclaimed > scanned / 8
//!                sleep         if priority = 1, nothing reclaimed, and not background reclaim
//! do not sleep = background reclaim gave up 16 times, or 2 * write pending <= reclaimable
//! longest sleep: 100 ms for writes, 20 ms for isolation, one tick otherwise
//! ```
//!
//! # Conditions
//!
//! 1. Background reclaim never sleeps for want of progress.
//! 2. A reclaimer that freed more than an eighth of what it looked at wakes the others; one that
//!    freed anything does not sleep.
//! 3. A caller that may do less waits only where one that may do everything would wait too.
//! 4. With w waiters, 32 * w + 1 completed pages wake them all.
//! 5. On a node that was given up no reclaimer sleeps for want of progress.
//! 6. Every sleep ends within 100 ms, if a tick is no longer.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/throttle.svg")]
//!
//! The pages that have to be written before all waiters are woken, over the number of waiters.
//!
//! # Example
//!
//! Four callers sleep until pages have been written. The 129th page wakes all of them: 32 for
//! each, as many as one of them takes at once, and one more.
//!
//! ```
//! use forebay_law::throttle::wakes_writeback_waiters;
//!
//! assert!(!wakes_writeback_waiters(128, 4));
//! assert!(wakes_writeback_waiters(129, 4));
//! ```
//!
//! # Why not the simpler one
//!
//! Sleeping for a fixed time when a store is busy sleeps too long on a fast one and spins on a
//! slow one, and a store with many queues never says that it is busy. Waking on every completed
//! page makes all waiters run for one page. Sleeping half a second for want of progress let
//! programs that should have been refused memory hang for minutes.
//!
//! # Edges
//!
//! Counts may be a little old; the longest sleep makes that harmless. A run that looked at no page
//! and freed none at priority 1 sleeps like any other. Reclaimers without a write to wait for do
//! not wait: with less than half of the pages pending, another pass is worth more.
//!
//! # Lineage
//!
//! Linux: throttling by event (5.16), its last form (5.16-rc8).

use crate::scan::{SWAP_CLUSTER_MAX, TOP_PRIORITY};

/// Failed runs after which background reclaim gives a node up.
pub const MAX_RECLAIM_RETRIES: u64 = 16;

/// Why a reclaimer sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThrottleReason {
    /// The pages it meets are under write-back.
    Writeback,
    /// Others hold too many isolated pages.
    Isolated,
    /// A whole run freed nothing.
    NoProgress,
    /// Every dirty page it met is already being written.
    Congested,
}

impl ThrottleReason {
    /// The longest sleep in milliseconds; `tick_ms` is the grain of the clock.
    pub fn timeout_ms(self, tick_ms: u64) -> u64 {
        match self {
            ThrottleReason::Writeback => 100,
            ThrottleReason::Isolated => 20,
            ThrottleReason::NoProgress | ThrottleReason::Congested => tick_ms,
        }
    }
}

/// What a direct reclaimer does after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Go on.
    Nothing,
    /// Wake those that sleep because nothing was freed.
    Wake,
    /// Sleep because nothing was freed.
    Sleep,
}

/// Whether enough was written since the first of `waiters` went to sleep to wake them all.
pub fn wakes_writeback_waiters(written_since_first: u64, waiters: u64) -> bool {
    written_since_first > waiters.saturating_mul(SWAP_CLUSTER_MAX)
}

/// Whether so many pages are isolated that another reclaimer has to wait. A caller that may do
/// everything waits earlier, so it never makes one that may not wait.
pub fn too_many_isolated(isolated: u64, inactive: u64, may_io_and_fs: bool) -> bool {
    let allowed = if may_io_and_fs {
        inactive >> 3
    } else {
        inactive
    };
    isolated > allowed
}

/// What a reclaimer does after a pass at `priority` that looked at `scanned` pages, when
/// `reclaimed` were freed in its whole run.
pub fn consider_throttle(reclaimed: u64, scanned: u64, priority: u32, is_kswapd: bool) -> Progress {
    if reclaimed > scanned >> 3 {
        Progress::Wake
    } else if !is_kswapd && priority == 1 && reclaimed == 0 {
        Progress::Sleep
    } else {
        Progress::Nothing
    }
}

/// Whether the reasons without progress and with congestion do not sleep: less than half of what
/// could be freed waits for a write, or the node was given up.
pub fn skips_sleep(write_pending: u64, reclaimable: u64, kswapd_failures: u64) -> bool {
    kswapd_failures >= MAX_RECLAIM_RETRIES || write_pending.saturating_mul(2) <= reclaimable
}

/// Whether a batch met so many pages under write-back that its reclaimer napped (Linux 3.2 to
/// 3.10). The threshold halves with each priority.
pub fn batch_waits_for_writeback(writeback: u64, taken: u64, priority: u32) -> bool {
    writeback > 0 && writeback >= taken >> TOP_PRIORITY.saturating_sub(priority)
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
