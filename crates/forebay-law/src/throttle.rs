//! When a reclaimer that cannot progress sleeps, and who wakes it.

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

/// Whether so much is isolated that another reclaimer has to wait. A caller that may do everything
/// waits earlier, so that one that may not is never kept waiting by it.
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
/// 3.10). The share that is too many halves with each priority.
pub fn batch_waits_for_writeback(writeback: u64, taken: u64, priority: u32) -> bool {
    writeback > 0 && writeback >= taken >> TOP_PRIORITY.saturating_sub(priority)
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
