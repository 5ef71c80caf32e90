//! The limit: dirty pages stay below their limit, and a writer at the hard limit does not go on
//! (spec/writeback.md 13.1, I15, and 5.5; docs/decisions/writeback-and-throttling.md).
//!
//! A writer is checked after each stretch of its call, and it does not go on if the hard limit is
//! reached. Pages that writers dirty are not counted until they fill the writers' common quota. So
//! the dirty pages exceed the limit by at most that quota and one stretch of each writer. While
//! they exceed it, each writer reaches the end of one stretch and goes no further. A store that
//! stands still adds the pages that it has above its part, at most the limit once more.
//!
//! Whether the level stayed above the limit is seen only at the ends of requests, where the pages
//! of a stable store leave it. Pages of an unstable store leave it after the end of a commit. The
//! level may then have been below the limit between two looks, so what writers dirtied meanwhile
//! proves nothing.

use super::super::scene::{Scene, Site};
use forebay_base::{Instant, Span};

/// The most pages that a writer dirties before it is checked.
const STRETCH_PAGES: u64 = 64;
/// The common quota: the limit divided by the first number, and at least the second number of pages
/// (spec/writeback.md 5.1).
const COMMON_QUOTA: (u64, u64) = (32, 16);
/// After this time the pages of a silent store are not counted against the others.
const STANDS_STILL: Span = Span::from_millis(500);
/// The same where the cache and the judge do not see the end of a request at the same instant: the
/// cache may have seen twice the silence.
const SEEMS_STILL: Span = Span::from_millis(250);

/// Dirty pages at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// Dirty pages and pages under writeback of all stores.
    pub(super) dirty: u64,
    /// The hard limit.
    pub(super) limit: u64,
    /// Pages dirtied so far, without those of stores that had hardly any dirty pages.
    pub(super) dirtied: u64,
    /// How long the store that has been silent longest has been silent.
    pub(super) silent: Span,
}

/// The oracle of a whole scene.
#[derive(Debug, Default)]
pub(super) struct Limit {
    writers: u64,
    stores: u64,
    /// Every fall of the level is seen: no store is unstable.
    sees_each_fall: bool,
    /// A store that has been silent for this long may be left out of account.
    stands_still: Span,
    /// Pages that had been dirtied when the limit was reached, while the level is there.
    full_at: Option<u64>,
    /// Pages were left out of account, and have not been written since.
    is_left_out: bool,
}

impl Limit {
    pub(super) fn new(scene: &Scene) -> Limit {
        Limit {
            writers: scene.writers(),
            stores: scene.sites.len() as u64,
            sees_each_fall: !scene.sites.iter().any(Site::is_unstable),
            stands_still: STANDS_STILL,
            ..Limit::default()
        }
    }

    /// An oracle of levels alone, for worlds in which some falls of the level are not seen.
    pub(super) fn of_levels(writers: u64, stores: u64) -> Limit {
        Limit {
            writers,
            stores,
            stands_still: SEEMS_STILL,
            ..Limit::default()
        }
    }

    pub(super) fn note(&mut self, now: Instant, level: Level) -> Option<String> {
        let stands_still = level.silent >= self.stands_still;
        self.is_left_out |= self.stores > 1 && stands_still;
        self.is_left_out &= level.dirty >= level.limit || stands_still;
        let common = (level.limit / COMMON_QUOTA.0).max(COMMON_QUOTA.1);
        let stretches = self.writers * STRETCH_PAGES;
        let overrun = common + stretches;
        let left_out = if self.is_left_out { level.limit } else { 0 };
        let most = level.limit + left_out + overrun;
        if level.dirty > most {
            return Some(format!(
                "at {} ms {} pages are dirty, and {most} may be: the limit of {}, {left_out} of a \
                 store that stands still, the common quota of {common} and a stretch of \
                 {STRETCH_PAGES} of {} writers (spec/writeback.md 13.1, I15)",
                now.as_millis(),
                level.dirty,
                level.limit,
                self.writers
            ));
        }
        if level.dirty < level.limit || self.is_left_out || !self.sees_each_fall {
            self.full_at = None;
            return None;
        }
        let since = level.dirtied - *self.full_at.get_or_insert(level.dirtied);
        (since > overrun).then(|| {
            format!(
                "at {} ms writers have dirtied {since} pages while at least the limit of {} was \
                 dirty, {} now; {overrun} may be: the common quota of {common} and a stretch of \
                 {STRETCH_PAGES} of {} writers (spec/writeback.md 5.5)",
                now.as_millis(),
                level.limit,
                level.dirty,
                self.writers
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(stores: u64) -> Limit {
        Limit {
            writers: 2,
            stores,
            sees_each_fall: true,
            stands_still: STANDS_STILL,
            ..Limit::default()
        }
    }

    fn level(dirty: u64, dirtied: u64, silent_ms: u64) -> Level {
        Level {
            dirty,
            limit: 3_200,
            dirtied,
            silent: Span::from_millis(silent_ms),
        }
    }

    #[test]
    fn dirty_pages_above_the_limit_and_its_overrun_are_found() {
        // 100 of the common quota and 128 of two writers.
        assert_eq!(limit(1).note(Instant::ZERO, level(3_428, 0, 0)), None);
        let found = limit(1).note(Instant::ZERO, level(3_429, 0, 0));
        assert!(found.expect("one too many").contains("3428 may be"));
        let found = limit(1).note(Instant::ZERO, level(3_429, 0, 900));
        assert!(found.is_some(), "its own store is nobody else's");
        assert_eq!(limit(2).note(Instant::ZERO, level(3_429, 0, 900)), None);
        assert!(limit(2).note(Instant::ZERO, level(7_000, 0, 900)).is_some());
    }

    #[test]
    fn a_writer_that_goes_on_at_the_limit_is_found() {
        let mut at_limit = limit(1);
        for dirtied in [1_000, 1_100, 1_228] {
            assert_eq!(at_limit.note(Instant::ZERO, level(3_200, dirtied, 0)), None);
        }
        let found = at_limit.note(Instant::ZERO, level(3_200, 1_229, 0));
        assert!(found.expect("one too many").contains("dirtied 229 pages"));
        assert_eq!(at_limit.note(Instant::ZERO, level(3_199, 1_300, 0)), None);
        assert_eq!(at_limit.note(Instant::ZERO, level(3_200, 1_400, 0)), None);
    }

    #[test]
    fn what_was_left_out_is_allowed_until_it_is_written() {
        let mut of_two = limit(2);
        assert_eq!(of_two.note(Instant::ZERO, level(6_000, 0, 600)), None);
        assert_eq!(of_two.note(Instant::ZERO, level(5_000, 0, 0)), None);
        assert_eq!(of_two.note(Instant::ZERO, level(3_000, 0, 0)), None);
        assert!(of_two.note(Instant::ZERO, level(5_000, 0, 0)).is_some());
    }
}
