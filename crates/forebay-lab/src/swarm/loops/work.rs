//! Work: a store does not idle while one of its writers is held up and it has something to write
//! (spec/writeback.md 7.3 and 13.2, Q2 and Q9; docs/decisions/writeback-and-throttling.md).
//!
//! In virtual time a call that is not held up takes no time, so a writer that is in a call at two
//! instants is held up between them. A store has something to do in the background if two things
//! hold. First, more is dirty, or waits for a commit, than the background threshold. Second, a part
//! of that belongs to the store and is not on its way.

use forebay_base::{Instant, Span};

/// A flusher whose last round was in vain rests for at most 100 ms. The rest ends
/// when a writer asks, which a writer does at the end of a pause of at most 180 ms.
const LONGEST: Span = Span::from_millis(200);
/// The share of the time in which a writer is held up that a store may idle, in percent:
/// spec/writeback.md 13.2, Q2.
const MOST_PERCENT: u64 = 1;
/// Idle time that is allowed in addition, while a changed rate is learned.
const GRACE: Span = Span::from_millis(250);

/// Dirty pages at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dirty {
    /// Dirty pages of the store that are in no request.
    pub(super) reclaimable: u64,
    /// Pages of the store in requests, and those that wait for a commit.
    pub(super) writeback: u64,
    /// Dirty pages of all stores.
    pub(super) of_all: u64,
    /// The background threshold.
    pub(super) background: u64,
}

/// One store.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Requests that it has, and the pages of the writes among them.
    requests: u64,
    pages: u64,
    in_calls: u64,
    /// There is something to write or to commit.
    is_due: bool,
    /// The same without the pages that wait for a commit.
    is_due_for_writes: bool,
    /// The sums are complete up to this instant.
    until: Instant,
    held_up: Span,
    idle: Span,
    /// How long it has been idle without a break up to now.
    in_a_row: Span,
}

impl Work {
    /// Forgets what was seen before `now`: it excuses nothing and proves nothing.
    pub(super) fn restart(&mut self, now: Instant) {
        self.until = now;
        (self.held_up, self.idle, self.in_a_row) = (Span::ZERO, Span::ZERO, Span::ZERO);
    }

    /// Makes a change that holds from `now` on: of requests, writers in a call, or dirty pages.
    pub(super) fn note(&mut self, now: Instant, change: impl FnOnce(&mut Work)) -> Option<String> {
        let passed = now.since(self.until);
        self.until = now;
        if passed > Span::ZERO && self.in_calls > 0 {
            self.held_up += passed;
        }
        if self.in_calls == 0 || self.requests > 0 || !self.is_due {
            self.in_a_row = Span::ZERO;
        } else {
            self.idle += passed;
            self.in_a_row += passed;
        }
        change(self);
        self.verdict()
    }

    /// A request begins. If it is a write, it has this many pages.
    pub(super) fn begins(&mut self, pages: u64) {
        self.requests += 1;
        self.pages += pages;
    }

    pub(super) fn ends(&mut self, pages: u64) {
        self.requests -= 1;
        self.pages -= pages;
    }

    /// A commit has ended. The engine learns of it after this, so the pages that waited for it
    /// still count as under writeback. Whether others wait for another commit shows at the next
    /// look.
    pub(super) fn commit_ends(&mut self) {
        self.ends(0);
        self.is_due = self.is_due_for_writes;
    }

    pub(super) fn has_requests(&self) -> bool {
        self.requests > 0
    }

    /// Whether one of its writers is held up.
    pub(super) fn is_wanted(&self) -> bool {
        self.in_calls > 0
    }

    pub(super) fn call_begins(&mut self) {
        self.in_calls += 1;
    }

    pub(super) fn call_ends(&mut self) {
        self.in_calls -= 1;
    }

    /// Notes how many pages are dirty.
    pub(super) fn sees(&mut self, seen: Dirty) {
        // Pages that are under writeback and not on their way wait for a commit.
        let uncommitted = seen.writeback.saturating_sub(self.pages);
        let reclaimable = seen.reclaimable + uncommitted;
        self.is_due = reclaimable > 0 && seen.of_all + uncommitted > seen.background;
        self.is_due_for_writes = seen.reclaimable > 0 && seen.of_all > seen.background;
    }

    fn verdict(&self) -> Option<String> {
        let allowed = self.held_up.as_micros() * MOST_PERCENT / 100;
        let is_often = self.idle > Span::from_micros(allowed) + GRACE;
        (is_often || self.in_a_row > LONGEST).then(|| {
            format!(
                "idle for {} of {} in which a writer was held up and something was to be done, \
                 {} of them in a row (allowed: {MOST_PERCENT} % and {GRACE}, {LONGEST} in a row; \
                 spec/writeback.md 13.2, Q2)",
                self.idle, self.held_up, self.in_a_row
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    fn dirty(reclaimable: u64, of_all: u64) -> Dirty {
        Dirty {
            reclaimable,
            of_all,
            background: 40,
            ..Dirty::default()
        }
    }

    /// A writer is in a call from 0 on, and the store is idle for `idle_ms` of each second.
    fn history(idle_ms: u64) -> Option<String> {
        let mut work = Work::default();
        work.note(at(0), Work::call_begins);
        work.note(at(0), |work| work.sees(dirty(5, 50)));
        (0..20).find_map(|second| {
            let begins = at(1_000 * second);
            let ends = at(1_000 * (second + 1) - idle_ms);
            let began = work.note(begins, |work| work.begins(1));
            began.or_else(|| work.note(ends, |work| work.ends(1)))
        })
    }

    #[test]
    fn a_store_that_idles_while_a_writer_waits_is_found() {
        assert_eq!(history(0), None);
        assert_eq!(history(9), None);
        let often = history(50).expect("50 ms of each second");
        assert!(often.contains("1 %"), "{often}");
        let long = history(240).expect("240 ms in a row");
        assert!(long.contains("240 ms of them in a row"), "{long}");
    }

    #[test]
    fn pages_that_wait_for_a_commit_are_due_until_one_ends() {
        let waiting = || Dirty {
            writeback: 5,
            ..dirty(0, 50)
        };
        let mut work = Work::default();
        work.note(at(0), Work::call_begins);
        work.note(at(0), |work| work.sees(waiting()));
        work.note(at(100), |work| work.begins(0));
        assert_eq!(work.note(at(200), Work::commit_ends), None);
        assert_eq!(work.idle, Span::from_millis(100));
        assert_eq!(work.note(at(900), |work| work.sees(waiting())), None);
        assert!(work.note(at(1_200), |_| ()).is_some(), "300 ms in a row");
    }

    #[test]
    fn a_store_may_idle_with_nothing_to_write_or_nobody_who_waits() {
        let mut work = Work::default();
        work.note(at(0), |work| work.sees(dirty(5, 50)));
        assert_eq!(work.note(at(10_000), Work::call_begins), None);
        assert_eq!(work.note(at(10_000), |work| work.sees(dirty(5, 40))), None);
        assert_eq!(work.note(at(20_000), |work| work.sees(dirty(0, 50))), None);
        assert_eq!(work.note(at(30_000), Work::call_ends), None);
    }
}
