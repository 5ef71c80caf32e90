//! How long a writer pauses, and after how many pages it is checked again.
//!
//! # Question
//!
//! A writer has dirtied its quota. Does it sleep now, how long, and how many pages may it dirty
//! before it is checked again, so that its rate is met with pauses that nobody notices?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `average`, `ratelimit`, `task_ratelimit` | pages/s | 0 and up | the bandwidth and rate laws |
//! | `store_dirty` | pages | 0 and up | the counters |
//! | `clock` | ms, pages | | the writer's own state |
//! | `now_ms` | ms | does not go back | the runtime |
//! | `tick` | ms | 1 to 100 | the settings |
//! | `pause_ms` | ms | 1 to 200, whole ticks | output |
//! | `next_quota_pages` | pages | 0 and up | output |
//!
//! # Formula
//!
//! Times are counted in ticks, of which `hz` make a second; 1000 unless a kernel with a longer one
//! is meant. `up` is `hz` rounded up to a power of two: 1024.
//!
//! ```text
//! max_pause = min(store_dirty / (1 + average / up(1 + hz / 8)) + 1, hz / 5)
//! target    = min(max(hz / 100, 1) + 10 * hz / 1024 * (log2 average - log2 ratelimit),
//!                 1 + max_pause / 2)
//! quota     = ratelimit * target / up
//! quota < 32                   : target = max_pause, quota at most 32
//! quota * hz / task > max_pause: target = max_pause, quota = task * target / up
//! min_pause = 1 + target / 2     (target itself if quota < 32)
//!
//! period = dirtied * hz / task
//! pause  = period - time since the last pause ended
//! pause < min_pause : go on; the time owed or saved is kept in the clock
//! pause > max_pause : sleep max_pause, keep up to one more of it as owed
//! quota while nobody is slowed = 2^(log2(thresh - dirty) / 2)
//! ```
//!
//! # Conditions
//!
//! 1. A sleep lasts whole ticks, from 1 tick to 200 ms, whatever the inputs.
//! 2. `min_pause <= max_pause` and `target <= max_pause`.
//! 3. A writer that only writes gets its rate to within 15 %, from 100 pages a second on, if a tick
//!    is 1 ms.
//! 4. A writer that stayed away for more than a second starts anew: it neither owes nor has saved.
//! 5. A writer that is not slowed is checked before it could use up the square root of the room.
//! 6. All processors together exceed the limit by at most a 32nd before a writer is checked, unless
//!    the limit is below 512 pages each.
//! 7. A rate of 0 sleeps as long as is allowed.
//! 8. With a tick of up to 10 ms a writer that only writes gets its rate at least, and less than
//!    twice of it: a period is rounded down to whole ticks. A second counts as whole ticks too, so
//!    with a tick that is no part of it twice the rate may be passed by one part in 140.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/pause.svg")]
//!
//! The pause that is aimed at, over the number of writers that share a disk of 25 600 pages a
//! second with 100 000 dirty pages, and the quota that goes with it; and that pause with a tick of
//! 4 ms.
//!
//! # Example
//!
//! Ten writers share a disk of 100 MB/s with 100 000 dirty pages. Each dirties 97 pages, sleeps 37
//! ms and so gets its 2560 pages a second.
//!
//! ```
//! use forebay_law::pause::{DirtierClock, PauseDecision, Tick, decide_pause, size_pause};
//!
//! let sizing = size_pause(25_600, 2_560, 100_000, 2_560, Tick::FINE);
//! assert_eq!((sizing.target_ms, sizing.next_quota_pages), (39, 97));
//! let clock = DirtierClock { paused_when_ms: Some(5_000), nr_dirtied: 97, nr_dirtied_pause: 97 };
//! let (decision, after) = decide_pause(clock, &sizing, 2_560, 5_000, Tick::FINE);
//! assert_eq!(decision, PauseDecision::Sleep { pause_ms: 37, period_ms: 37 });
//! assert_eq!(after.paused_when_ms, Some(5_037));
//! ```
//!
//! # Why not the simpler one
//!
//! A pause after every page costs more than the page. A fixed pause is too long for one writer and
//! too short for a thousand: their wake-ups alone would fill a processor. A fixed quota stops a
//! writer of a slow store for seconds. Sleeping the whole period would punish a writer for the time
//! that it spent thinking; hence the clock, which runs in virtual time.
//!
//! # Edges
//!
//! With nothing dirty the longest pause is 1 ms. A quota may be 0: the next dirtied page is checked
//! again. A period that rounds to 0 keeps the pages on the account and raises the quota. A writer
//! without a last pause counts as having paused just now. A clock that went back reads as time
//! owed, at most one longest pause. When the rate is 0 the caller checks again after each sleep.
//!
//! A tick that does not divide a second counts as the whole ticks that fit into one. A period of
//! less than two ticks is one tick, and the shortest pause is two where the target is two: a writer
//! then uses two quotas up before each pause. It gets twice its rate, the level of dirty pages
//! rises, and the position law lowers its rate until its period is two ticks. With ticks of 4 ms
//! and 30 MB/s that is one pause of 8 ms for each quota of 57 pages.
//!
//! # Lineage
//!
//! Linux: throttling without I/O by the writer (3.2), pause control and think time (3.3).

use crate::arithmetic::{MS_PER_S, log2, scaled};

/// The longest pause in milliseconds.
pub const MAX_PAUSE_MS: u64 = 200;

/// The quota of a writer that has never been checked, and the quota from which a short pause is
/// worth it.
pub const POLL_PAGES: u64 = 32;

/// The quota of a writer while its store is over its limit.
pub const EXCEEDED_QUOTA_PAGES: u64 = 8;

/// The pause at which a single writer aims, as a part of a second.
const TARGET_PARTS: u64 = 100;

/// What a doubling of the writers adds to it, in ticks of a second of 1024 of them.
const TICKS_PER_DOUBLING: u64 = 10;

/// The part of a second in which a store must be able to write what it has.
const DRAIN_PARTS: u64 = 8;

/// The part of a second that the longest pause takes: [`MAX_PAUSE_MS`].
const MAX_PAUSE_PARTS: u64 = 5;

/// Unspent time beyond which a writer counts as new, in milliseconds.
const FORGET_MS: i128 = 1_000;

/// The tick in which pauses are counted.
///
/// ```
/// use forebay_law::pause::{Tick, size_pause};
///
/// let aim = |tick| size_pause(25_600, 25_600, 100_000, 25_600, tick).target_ms;
/// assert_eq!((aim(Tick::FINE), aim(Tick::of_ms(4))), (10, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    ms: u64,
}

impl Tick {
    /// A millisecond.
    pub const FINE: Tick = Tick { ms: 1 };

    /// A tick of 1 to 100 ms; another number counts as the next of these.
    pub fn of_ms(ms: u64) -> Tick {
        Tick {
            ms: ms.clamp(1, 100),
        }
    }

    /// Its length in milliseconds.
    pub fn ms(self) -> u64 {
        self.ms
    }

    /// Whole ticks in a second.
    fn per_s(self) -> u64 {
        MS_PER_S / self.ms
    }

    /// The time that a clock shows that advances with the tick.
    fn shown_ms(self, now_ms: u64) -> u64 {
        now_ms - now_ms % self.ms
    }
}

impl Default for Tick {
    fn default() -> Tick {
        Tick::FINE
    }
}

/// The bounds of a pause and what may be dirtied after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseSizing {
    /// The longest pause in milliseconds.
    pub max_pause_ms: u64,
    /// The shortest pause worth taking, in milliseconds.
    pub min_pause_ms: u64,
    /// The pause that is aimed at, in milliseconds.
    pub target_ms: u64,
    /// Pages until the writer is checked again; may be 0.
    pub next_quota_pages: u64,
}

/// What one writer has done since it last paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtierClock {
    /// When its last pause ended, in milliseconds of virtual time; none if it never paused.
    pub paused_when_ms: Option<u64>,
    /// Pages it dirtied since.
    pub nr_dirtied: u64,
    /// Pages after which it is checked.
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
    /// Pages after which the writer is checked; fewer while its store is over its limit.
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
        /// For this many milliseconds.
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
    tick: Tick,
) -> PauseSizing {
    let hz = tick.per_s();
    // A second rounded up to a power of two: what a pause is divided by.
    let second = hz.next_power_of_two();
    let drain = (1 + hz / DRAIN_PARTS).next_power_of_two();
    let max = (store_dirty / (1 + average / drain))
        .saturating_add(1)
        .min(hz / MAX_PAUSE_PARTS);
    let doublings = u64::from(log2(average).saturating_sub(log2(ratelimit)));
    let stretched = (hz / TARGET_PARTS).max(1) + doublings * TICKS_PER_DOUBLING * hz / 1024;
    let mut target = stretched.min(1 + max / 2);
    let mut pages = scaled(ratelimit, target, second);
    if pages < POLL_PAGES {
        target = max;
        pages = scaled(ratelimit, target, second);
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            target = hz * POLL_PAGES / ratelimit;
        }
    }
    if scaled(hz, pages, task_ratelimit.saturating_add(1)) > max {
        target = max;
        pages = scaled(task_ratelimit, target, second);
    }
    let min = if pages >= POLL_PAGES {
        1 + target / 2
    } else {
        target
    };
    PauseSizing {
        max_pause_ms: max * tick.ms,
        min_pause_ms: min * tick.ms,
        target_ms: target * tick.ms,
        next_quota_pages: pages,
    }
}

/// How many pages a writer may dirty before it is checked again while no writer is slowed: about
/// the square root of what is left to `thresh`.
pub fn poll_interval(dirty: u64, thresh: u64) -> u64 {
    match thresh.checked_sub(dirty) {
        None | Some(0) => 1,
        Some(room) => 1 << (log2(room) / 2),
    }
}

/// Whether a writer that dirtied `clock.nr_dirtied` pages sleeps at `now_ms`, and its clock after
/// that. The tick is that of the sizing.
pub fn decide_pause(
    clock: DirtierClock,
    sizing: &PauseSizing,
    task_ratelimit: u64,
    now_ms: u64,
    tick: Tick,
) -> (PauseDecision, DirtierClock) {
    let now_ms = tick.shown_ms(now_ms);
    let max_ms = sizing.max_pause_ms;
    if task_ratelimit == 0 {
        return slept(sizing, max_ms, max_ms, now_ms);
    }
    let period_ms = scaled(tick.per_s(), clock.nr_dirtied, task_ratelimit).saturating_mul(tick.ms);
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

/// The clock of a writer that was checked while no writer is slowed.
pub fn freerun_clock(now_ms: u64, dirty: u64, thresh: u64, tick: Tick) -> DirtierClock {
    DirtierClock {
        paused_when_ms: Some(tick.shown_ms(now_ms)),
        nr_dirtied: 0,
        nr_dirtied_pause: poll_interval(dirty, thresh),
    }
}

/// Pages that may be dirtied on one processor, by any writers, before one of them is checked.
pub fn ratelimit_pages(thresh: u64, writers_or_cpus: u64) -> u64 {
    (thresh / writers_or_cpus.max(1).saturating_mul(32)).max(16)
}

/// Whether the store is over its limit, so that its writers are checked more often.
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
