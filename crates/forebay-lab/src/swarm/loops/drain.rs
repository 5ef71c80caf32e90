//! Drain: the dirty pages of a store with a promise in seconds can be written in that time at the
//! store's real rate. The promise does not slow the store down, and a limit that fell rises again
//! (docs/decisions/writeback-and-throttling.md and testing.md).
//!
//! Nothing is judged until the estimate and the limit have had time to follow. A new store is
//! measured after 1.6 s of work. Its limit then falls from four floors by 1/32 every 200 ms, and
//! the pages above it are written when a turn of the flusher is over. After a change the moving
//! average of the rate needs three to four windows of 4 s, and the limit follows meanwhile.

use forebay_base::{Instant, Span};

/// What keeps a store of a bare rate busy, whatever its promise is: four requests of 256 pages (the
/// drain law).
pub(super) const FLOOR_PAGES: u64 = 4 * 256;
/// The rate of a new store is known after two windows of the average, and that of one whose rate
/// changed, with the limit that follows from it, after five.
const NEW: Span = Span::from_secs(8);
const CHANGED: Span = Span::from_secs(20);
/// A store counts as measured after this time at work. Up to then its limit may be four floors
/// (conditions 3 and 4 of the drain law).
const MEASURED: Span = Span::from_millis(1_600);
const COLD_FLOORS: u64 = 4;
const FALL_PART: u64 = 32;
const FALL_STEP: Span = Span::from_millis(200);
/// A turn writes these pages and half a second of the rate (the chunk law).
const TURN_PAGES: u64 = 1_024;
/// Dirty pages may exceed the promise by a quarter during a look of the law, and by a tenth because
/// the estimate may be above the true rate; percent.
const MOST_PERCENT: u64 = 125 * 110 / 100;
/// A writer is checked after a stretch of this many pages.
const STRETCH_PAGES: u64 = 64;
/// In each window at least this part of the promise is dirty at some instant, and this part of the
/// rate is written; percent. The level is held at three quarters of the limit.
const WINDOW: Span = Span::from_secs(6);
const LEAST_DIRTY_PERCENT: u64 = 40;
const LEAST_WRITTEN_PERCENT: u64 = 80;

/// What is seen of a store at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Pages that are dirty or under writeback.
    pub(super) dirty: u64,
    /// Pages written so far.
    pub(super) written: u64,
}

/// A store whose writers want more than it takes.
#[derive(Debug)]
pub(super) struct Drain {
    promise: Span,
    pages_per_s: u64,
    /// Pages that the store needs to be busy, whatever the promise is.
    floor_pages: u64,
    writers: u64,
    judged_from: Instant,
    /// The current window: its beginning, the pages written by then, and the most dirty pages.
    window: Option<(Instant, u64, u64)>,
}

impl Drain {
    pub(super) fn new(promise: Span, pages_per_s: u64, floor_pages: u64, writers: u64) -> Drain {
        Drain {
            promise,
            pages_per_s,
            floor_pages,
            writers,
            judged_from: Instant::ZERO + NEW.max(settled(promise, pages_per_s, floor_pages)),
            window: None,
        }
    }

    /// The store takes `pages_per_s` from now on.
    pub(super) fn change(&mut self, now: Instant, pages_per_s: u64) {
        if pages_per_s != self.pages_per_s {
            self.pages_per_s = pages_per_s;
            self.judged_from = now + CHANGED;
            self.window = None;
        }
    }

    /// Whether the estimate and the limit have had time to follow by `now`.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        now >= self.judged_from
    }

    pub(super) fn note(&mut self, now: Instant, seen: Seen) -> Option<String> {
        if !self.is_settled(now) {
            return None;
        }
        let promised = self.pages_per_s * self.promise.as_millis() / 1_000;
        let limit = promised.max(self.floor_pages);
        let most = limit * MOST_PERCENT / 100 + self.writers * STRETCH_PAGES;
        if seen.dirty > most {
            return Some(format!(
                "at {} ms {} pages are dirty, and {most} may be: {promised} can be written in {}, \
                 its floor is {}, {MOST_PERCENT} % of the greater for a look and the estimate, and \
                 a stretch of {STRETCH_PAGES} of {} writers (docs/decisions/testing.md)",
                now.as_millis(),
                seen.dirty,
                self.promise,
                self.floor_pages,
                self.writers
            ));
        }
        let (from, written, most_dirty) = self.window.unwrap_or((now, seen.written, 0));
        let most_dirty = most_dirty.max(seen.dirty);
        self.window = Some((from, written, most_dirty));
        let passed = now.since(from);
        if passed < WINDOW {
            return None;
        }
        self.window = None;
        let pages = seen.written - written;
        let wanted = self.pages_per_s * passed.as_millis() / 1_000;
        let is_low = most_dirty * 100 < promised * LEAST_DIRTY_PERCENT;
        let is_slow = pages * 100 < wanted * LEAST_WRITTEN_PERCENT;
        (is_low || is_slow).then(|| {
            format!(
                "in {passed} up to {} ms at most {most_dirty} pages were dirty of {promised} that \
                 the promise allows, and {pages} were written of {wanted}; at least \
                 {LEAST_DIRTY_PERCENT} % and {LEAST_WRITTEN_PERCENT} % have to be \
                 (docs/decisions/testing.md)",
                now.as_millis()
            )
        })
    }
}

/// After this time a new store has the limit of its promise, and no more is dirty.
fn settled(promise: Span, pages_per_s: u64, floor_pages: u64) -> Span {
    let aim = floor_pages.max(pages_per_s * promise.as_millis() / 1_000);
    let mut limit = COLD_FLOORS * floor_pages;
    let turn_ms = 500 + TURN_PAGES * 1_000 / pages_per_s;
    let mut after = MEASURED + Span::from_millis(turn_ms);
    while limit > aim {
        limit -= limit / FALL_PART;
        after += FALL_STEP;
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of 1 000 pages a second with a promise of 2 s.
    fn judge(drain: &mut Drain, s: std::ops::Range<u64>, dirty: u64, rate: u64) -> Option<String> {
        (s.start * 10..s.end * 10).find_map(|tenth| {
            let now = Instant::ZERO + Span::from_millis(tenth * 100);
            let written = tenth * rate / 10;
            drain.note(now, Seen { dirty, written })
        })
    }

    fn store() -> Drain {
        Drain::new(Span::from_secs(2), 1_000, 512, 2)
    }

    #[test]
    fn more_than_can_be_written_in_time_is_found_once_the_rate_is_known() {
        assert_eq!(judge(&mut store(), 0..60, 2_868, 1_000), None);
        assert_eq!(judge(&mut store(), 0..8, 9_000, 1_000), None);
        let found = judge(&mut store(), 8..60, 2_869 + 10, 1_000).expect("too many");
        assert!(found.contains("2868 may be"), "{found}");
        let mut slower = store();
        slower.change(Instant::ZERO + Span::from_secs(10), 500);
        assert_eq!(judge(&mut slower, 10..30, 1_800, 500), None);
        assert!(judge(&mut slower, 30..31, 1_800, 500).is_some());
    }

    #[test]
    fn a_slow_store_is_judged_when_its_limit_has_fallen_from_four_floors() {
        let after = |pages_per_s| settled(Span::from_secs(1), pages_per_s, 1_024);
        // 44 steps from 4 096 to 1 024 pages, and none.
        assert_eq!(
            after(400),
            Span::from_millis(1_600 + 500 + 2_560 + 44 * 200)
        );
        assert_eq!(after(8_000), Span::from_millis(1_600 + 500 + 128));
    }

    #[test]
    fn a_limit_that_stays_low_and_a_store_that_is_not_written_to_are_found() {
        assert_eq!(judge(&mut store(), 8..60, 800, 800), None);
        let low = judge(&mut store(), 8..60, 799, 1_000).expect("too few are dirty");
        assert!(low.contains("at most 799 pages"), "{low}");
        let slow = judge(&mut store(), 8..60, 1_500, 790).expect("too few are written");
        assert!(slow.contains("of 6000"), "{slow}");
    }
}
