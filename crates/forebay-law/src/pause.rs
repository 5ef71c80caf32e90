//! How long a writer pauses, and after how many pages it is asked again.

use crate::arithmetic::{MS_PER_S, log2, scaled};

/// The longest pause in milliseconds.
pub const MAX_PAUSE_MS: u64 = 200;

/// The quota of a writer that has never been asked, and the quota from which a pause is worth
/// being short.
pub const POLL_PAGES: u64 = 32;

/// The quota of a writer while its store is over its limit.
pub const EXCEEDED_QUOTA_PAGES: u64 = 8;

/// The pause at which a single writer aims, in milliseconds.
const TARGET_PAUSE_MS: u64 = 10;

/// A second rounded up to a power of two: what a pause is divided by.
const SECOND_POWER_MS: u64 = 1024;

/// The part of a second in which a store must be able to write what it has: an eighth, as a power
/// of two of milliseconds.
const DRAIN_DIVISOR: u64 = 128;

/// Unspent time beyond which a writer counts as new, in milliseconds.
const FORGET_MS: i128 = 1_000;

/// The bounds of a pause and what may be dirtied after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseSizing {
    /// The longest pause in milliseconds.
    pub max_pause_ms: u64,
    /// The shortest pause worth taking, in milliseconds.
    pub min_pause_ms: u64,
    /// The pause that is aimed at, in milliseconds.
    pub target_ms: u64,
    /// Pages until the writer is asked again; may be 0.
    pub next_quota_pages: u64,
}

/// What one writer has done since it last paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtierClock {
    /// When its last pause ended, in milliseconds of virtual time; none if it never paused.
    pub paused_when_ms: Option<u64>,
    /// Pages it dirtied since.
    pub nr_dirtied: u64,
    /// Pages after which it is asked.
    pub nr_dirtied_pause: u64,
}

impl Default for DirtierClock {
    fn default() -> Self {
        DirtierClock {
            paused_when_ms: None,
            nr_dirtied: 0,
            nr_dirtied_pause: POLL_PAGES,
        }
    }
}

impl DirtierClock {
    /// Pages after which the writer is asked; fewer while its store is over its limit.
    pub fn quota_pages(&self, dirty_exceeded: bool) -> u64 {
        if dirty_exceeded {
            self.nr_dirtied_pause.min(EXCEEDED_QUOTA_PAGES)
        } else {
            self.nr_dirtied_pause
        }
    }
}

/// What a writer does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseDecision {
    /// Go on.
    NoSleep,
    /// Sleep.
    Sleep {
        /// For so many milliseconds.
        pause_ms: u64,
        /// The milliseconds its pages are worth at its rate.
        period_ms: u64,
    },
}

/// The bounds of a pause, from the store's bandwidth, its base rate, its dirty pages and the
/// writer's own rate (pages a second).
pub fn size_pause(
    average: u64,
    ratelimit: u64,
    store_dirty: u64,
    task_ratelimit: u64,
) -> PauseSizing {
    let max_pause_ms = (store_dirty / (1 + average / DRAIN_DIVISOR))
        .saturating_add(1)
        .min(MAX_PAUSE_MS);
    let doublings = u64::from(log2(average).saturating_sub(log2(ratelimit)));
    let stretched = TARGET_PAUSE_MS + doublings * TARGET_PAUSE_MS * MS_PER_S / SECOND_POWER_MS;
    let mut target_ms = stretched.min(1 + max_pause_ms / 2);
    let mut pages = scaled(ratelimit, target_ms, SECOND_POWER_MS);
    if pages < POLL_PAGES {
        target_ms = max_pause_ms;
        pages = scaled(ratelimit, target_ms, SECOND_POWER_MS);
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            target_ms = MS_PER_S * POLL_PAGES / ratelimit;
        }
    }
    if scaled(MS_PER_S, pages, task_ratelimit.saturating_add(1)) > max_pause_ms {
        target_ms = max_pause_ms;
        pages = scaled(task_ratelimit, target_ms, SECOND_POWER_MS);
    }
    let min_pause_ms = if pages >= POLL_PAGES {
        1 + target_ms / 2
    } else {
        target_ms
    };
    PauseSizing {
        max_pause_ms,
        min_pause_ms,
        target_ms,
        next_quota_pages: pages,
    }
}

/// How many pages a writer may dirty before it is asked again while nobody is slowed: about the
/// square root of what is left to `thresh`.
pub fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    match thresh.checked_sub(dirty) {
        None | Some(0) => 1,
        Some(room) => 1 << (log2(room) / 2),
    }
}

/// Whether a writer that dirtied `clock.nr_dirtied` pages sleeps at `now_ms`, and its clock after
/// that.
pub fn decide_pause(
    clock: DirtierClock,
    sizing: &PauseSizing,
    task_ratelimit: u64,
    now_ms: u64,
) -> (PauseDecision, DirtierClock) {
    let max_ms = sizing.max_pause_ms;
    if task_ratelimit == 0 {
        return slept(sizing, max_ms, max_ms, now_ms);
    }
    let period_ms = scaled(MS_PER_S, clock.nr_dirtied, task_ratelimit);
    let thought_ms = clock
        .paused_when_ms
        .map_or(0, |paused| i128::from(now_ms) - i128::from(paused));
    let due_ms = i128::from(period_ms) - thought_ms;
    if due_ms < i128::from(sizing.min_pause_ms) {
        let next = carried_on(clock, period_ms, due_ms, now_ms);
        return (PauseDecision::NoSleep, next);
    }
    let due_ms = u64::try_from(due_ms).unwrap_or(u64::MAX);
    let excess_ms = due_ms.saturating_sub(max_ms).min(max_ms);
    slept(sizing, due_ms.min(max_ms), period_ms, now_ms + excess_ms)
}

/// The clock of a writer that need not sleep.
fn carried_on(clock: DirtierClock, period_ms: u64, due_ms: i128, now_ms: u64) -> DirtierClock {
    if due_ms < -FORGET_MS {
        DirtierClock {
            paused_when_ms: Some(now_ms),
            nr_dirtied: 0,
            ..clock
        }
    } else if period_ms != 0 {
        let started_ms = clock.paused_when_ms.unwrap_or(now_ms);
        DirtierClock {
            paused_when_ms: Some(started_ms.saturating_add(period_ms)),
            nr_dirtied: 0,
            ..clock
        }
    } else if clock.nr_dirtied_pause <= clock.nr_dirtied {
        DirtierClock {
            nr_dirtied_pause: clock.nr_dirtied_pause.saturating_add(clock.nr_dirtied),
            ..clock
        }
    } else {
        clock
    }
}

fn slept(
    sizing: &PauseSizing,
    pause_ms: u64,
    period_ms: u64,
    now_ms: u64,
) -> (PauseDecision, DirtierClock) {
    let decision = PauseDecision::Sleep {
        pause_ms,
        period_ms,
    };
    let clock = DirtierClock {
        paused_when_ms: Some(now_ms.saturating_add(pause_ms)),
        nr_dirtied: 0,
        nr_dirtied_pause: sizing.next_quota_pages,
    };
    (decision, clock)
}

/// The clock of a writer that was asked while nobody is slowed.
pub fn freerun_clock(now_ms: u64, dirty: u64, thresh: u64) -> DirtierClock {
    DirtierClock {
        paused_when_ms: Some(now_ms),
        nr_dirtied: 0,
        nr_dirtied_pause: poll_interval(dirty, thresh),
    }
}

/// Pages that may be dirtied on one processor, whoever dirties them, before somebody is asked.
pub fn ratelimit_pages(thresh: u64, writers_or_cpus: u64) -> u64 {
    (thresh / writers_or_cpus.max(1).saturating_mul(32)).max(16)
}

/// Whether the store is over its limit, so that its writers are asked more often.
pub fn dirty_exceeded(
    store_dirty: u64,
    store_thresh: u64,
    dirty: u64,
    thresh: u64,
    strict: bool,
) -> bool {
    store_dirty > store_thresh && (dirty > thresh || strict)
}

/// Whether a writer that has slept may go on: it has a rate, or its store has next to nothing
/// dirty (`store_error_pages` is by how much that count may be wrong).
pub fn may_leave(task_ratelimit: u64, store_dirty: u64, store_error_pages: u64) -> bool {
    task_ratelimit != 0 || store_dirty <= store_error_pages
}

#[cfg(test)]
#[path = "pause_tests.rs"]
mod tests;
