//! Which part of the dirty limit belongs to which store.
//!
//! # Question
//!
//! Several stores share one dirty limit. How many of the dirty pages may be this store's, so that
//! each has about as many seconds of work waiting as any other?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `pages` | pages | 0 and up | completed writes, failed ones included |
//! | `now_ms` | ms | does not go back | the runtime |
//! | `max_ratio_1024` | 1/1024 | 0 to 1024 (no bound) | an operator |
//! | `limits` | percent | minima sum to less than 100 | an operator |
//! | [`Share`] | fraction | 0 to 1 | output |
//! | `store_thresh` | pages | 0 to `thresh` | output: a soft target |
//! | `excess` | pages | 0 and up | what stores have above their parts, summed up |
//! | answerable | pages | 0 to `dirty` | output: what a writer is judged by |
//!
//! # Formula
//!
//! ```text
//! a completion of n pages : store.events += n;  global.events += n
//! every 3 s               : every count is halved (a store's when it is next looked at)
//! share        = store.events / global.events
//! store_thresh = thresh * (100 - sum of minima) / 100 * share + thresh * min / 100
//!                at most thresh * max / 100
//! bounded      : count only ceil((den * f - num * 1024) / (1024 - f)) of n, f = max_ratio_1024
//! answerable   = dirty - min(excess, thresh, dirtyable * 3/4 - thresh),  at least own
//! ```
//!
//! # Conditions
//!
//! 1. A share is at most one, and its denominator at least 1.
//! 2. The shares of all stores sum to no more than one.
//! 3. Ageing late gives the same count as ageing in time.
//! 4. Silence does not change who has more: the counts of two stores age alike.
//! 5. A bounded share exceeds its bound by less than one page.
//! 6. The thresholds of all stores sum to no more than the whole.
//! 7. No store gets more than its maximum.
//! 8. The writers of a store answer for all of its own pages, and for no more than there are.
//! 9. As long as nobody answers for more than `thresh`, a quarter of the memory stays clean.
//! 10. What a store has above its part does not count against others, up to `thresh`.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/share.svg")]
//!
//! The share of a store that begins to write at time 0 beside one that has long been writing as
//! fast, and that of the other.
//!
//! # Example
//!
//! A disk of 100 MB/s and a stick of 10 MB/s, both busy: out of 200 000 pages that may be dirty,
//! the stick owns 18 181 (71 MiB), which it writes in the same 7 seconds that the disk needs for
//! its own.
//!
//! ```
//! use forebay_law::share::{GlobalCompletions, ShareLimits, StoreCompletions};
//! use forebay_law::share::{complete, share, store_thresh};
//!
//! let mut global = GlobalCompletions::default();
//! let (mut disk, mut stick) = Default::default();
//! for second in 0..60 {
//!     complete(&mut global, &mut disk, 25_600, 1_024, second * 1_000);
//!     complete(&mut global, &mut stick, 2_560, 1_024, second * 1_000);
//! }
//! let part = share(&global, &mut stick);
//! let pages = store_thresh(200_000, part, ShareLimits::default());
//! assert!((18_000..=18_181).contains(&pages), "{pages}");
//! ```
//!
//! # Why not the simpler one
//!
//! An equal part for each store gives the slow stick minutes of dirty pages and the fast disk a
//! second's worth. A part by measured bandwidth gives an idle store its full part, which no other
//! store may then use. Counts of completions without ageing take hours to notice that a store went
//! idle. If all dirty pages count against every writer, as in Linux, a store that stands still with
//! the whole limit dirty stops the writers of all others.
//!
//! # Edges
//!
//! A store that never wrote has share 0; the position law's floor lets it start. When everything
//! has aged out the timer stops and the count of 1 that the whole starts with keeps the
//! denominator above
//! 0. A store's count, aged on its own, may be rounded above its part of the whole: the denominator
//!    then follows. Failed writes count, or the writers of a failing store would stand still.
//!
//! # Lineage
//!
//! Linux: floating proportions (2.6.24), flexible periods of three seconds (3.6). Which pages a
//! writer answers for is Forebay's own rule.

use crate::arithmetic::{RATIO_ONE, scaled};

/// Milliseconds after which an event counts half.
pub const PERIOD_MS: u64 = 3_000;

/// Completed page writes of all stores, halved every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalCompletions {
    /// Pages, aged; one more than what was counted.
    pub events: u64,
    /// How many periods have passed.
    pub period: u64,
    /// When the current period ends, in milliseconds; none while everything has aged out.
    pub period_ends_ms: Option<u64>,
}

impl Default for GlobalCompletions {
    fn default() -> Self {
        GlobalCompletions {
            events: 1,
            period: 0,
            period_ends_ms: None,
        }
    }
}

impl GlobalCompletions {
    /// The count at `now_ms`: halved once for each period that ended.
    #[must_use]
    pub fn advanced(self, now_ms: u64) -> GlobalCompletions {
        let Some(ends_ms) = self.period_ends_ms else {
            return self;
        };
        if now_ms < ends_ms {
            return self;
        }
        if self.events <= 1 {
            return GlobalCompletions {
                period_ends_ms: None,
                ..self
            };
        }
        let periods = (now_ms - ends_ms) / PERIOD_MS + 1;
        GlobalCompletions {
            events: halved(self.events, periods),
            period: self.period + periods,
            period_ends_ms: Some(ends_ms + periods * PERIOD_MS),
        }
    }
}

/// Completed page writes of one store, halved when they are next looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCompletions {
    /// Pages, aged to `period`.
    pub events: u64,
    /// The period to which `events` was aged.
    pub period: u64,
}

impl StoreCompletions {
    /// The count aged to the period of `global`.
    #[must_use]
    pub fn caught_up(self, global: &GlobalCompletions) -> StoreCompletions {
        let periods = global.period.saturating_sub(self.period);
        StoreCompletions {
            events: halved(self.events, periods),
            period: global.period,
        }
    }
}

/// A store's part of the recent completions: `numerator / denominator`, at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Completions of the store.
    pub numerator: u64,
    /// Completions of all stores, at least 1.
    pub denominator: u64,
}

/// The least and the most a store may have of the dirty limit, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    /// What the store gets even when it has written nothing.
    pub min_percent: u64,
    /// What the store never exceeds.
    pub max_percent: u64,
    /// Sum of the minima of all stores, below 100.
    pub min_percent_sum: u64,
}

impl Default for ShareLimits {
    fn default() -> Self {
        ShareLimits {
            min_percent: 0,
            max_percent: 100,
            min_percent_sum: 0,
        }
    }
}

fn halved(events: u64, periods: u64) -> u64 {
    u32::try_from(periods)
        .ok()
        .and_then(|shift| events.checked_shr(shift))
        .unwrap_or(0)
}

/// Notes `pages` completed by a store whose share is held below `max_ratio_1024 / 1024`.
pub fn complete(
    global: &mut GlobalCompletions,
    store: &mut StoreCompletions,
    pages: u64,
    max_ratio_1024: u64,
    now_ms: u64,
) {
    *global = global.advanced(now_ms);
    let counted = counted_pages(share(global, store), pages, max_ratio_1024);
    store.events = store.events.saturating_add(counted);
    global.events = global.events.saturating_add(counted);
    if global.period_ends_ms.is_none() {
        global.period_ends_ms = Some(now_ms.saturating_add(PERIOD_MS));
    }
}

/// How many of `pages` completions may count without lifting the share above its bound.
pub fn counted_pages(share: Share, pages: u64, max_ratio_1024: u64) -> u64 {
    if max_ratio_1024 >= RATIO_ONE {
        return pages;
    }
    let allowed = u128::from(share.denominator) * u128::from(max_ratio_1024);
    let taken = u128::from(share.numerator) * u128::from(RATIO_ONE);
    let Some(room) = allowed.checked_sub(taken) else {
        return 0;
    };
    let room_pages = room.div_ceil(u128::from(RATIO_ONE - max_ratio_1024));
    u64::try_from(room_pages).map_or(pages, |room| room.min(pages))
}

/// The store's part of the recent completions; ages the store first.
pub fn share(global: &GlobalCompletions, store: &mut StoreCompletions) -> Share {
    *store = store.caught_up(global);
    Share {
        numerator: store.events,
        denominator: global.events.max(store.events).max(1),
    }
}

/// The dirty pages that belong to a store: a soft target, not a wall.
pub fn store_thresh(thresh: u64, share: Share, limits: ShareLimits) -> u64 {
    let divided = scaled(thresh, 100_u64.saturating_sub(limits.min_percent_sum), 100);
    scaled(divided, share.numerator, share.denominator.max(1))
        .saturating_add(scaled(thresh, limits.min_percent, 100))
        .min(scaled(thresh, limits.max_percent, 100))
}

/// The part of `dirty` pages for which the writers of a store with `own` of them answer. What
/// stores have above their own parts of the limit (`excess`) is left out, up to `thresh`, and only
/// while a quarter of the memory that may be dirtied (`dirtyable`) stays clean.
pub fn answerable_pages(dirty: u64, own: u64, excess: u64, thresh: u64, dirtyable: u64) -> u64 {
    let room = (dirtyable - dirtyable / 4).saturating_sub(thresh);
    let left_out = excess.min(thresh).min(room);
    dirty.saturating_sub(left_out).max(own)
}

/// The background threshold of a store: the same part of it as of the whole.
pub fn store_background(store_thresh: u64, thresh: u64, background: u64) -> u64 {
    if thresh == 0 {
        0
    } else {
        scaled(store_thresh, background, thresh)
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
