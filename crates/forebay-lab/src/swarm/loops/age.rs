//! Age: on a store that answers, nothing stays dirty for longer than expiry, interval and the time
//! to write it (spec/writeback.md 7.3 and 13.2, Q16).
//!
//! Once an interval a flusher looks for what has been dirty since the expiry. What it finds is then
//! written together with all else that is dirty. Pages that the store refused wait for their
//! back-off and are left out.

use forebay_base::{Instant, Span};
use std::collections::BTreeMap;
use std::ops::Range;

/// Allows for requests that are under way when a flusher looks, and for the clock's whole
/// milliseconds.
const GRACE: Span = Span::from_millis(150);

/// A page of an object.
pub(super) type Place = (u64, u64);

/// One store.
#[derive(Debug)]
pub(super) struct Age {
    expire: Span,
    interval: Span,
    pages_per_s: u64,
    /// Since when pages have been dirty, at the latest.
    since: BTreeMap<Place, Instant>,
    most_dirty: u64,
}

impl Age {
    pub(super) fn new(expire: Span, interval: Span, pages_per_s: u64) -> Age {
        Age {
            expire,
            interval,
            pages_per_s,
            since: BTreeMap::new(),
            most_dirty: 0,
        }
    }

    /// Whether an object has dirty pages that the store has not refused.
    pub(super) fn has_dirty(&self, object: u64) -> bool {
        let mut places = self.since.range((object, 0)..=(object, u64::MAX));
        places.next().is_some()
    }

    /// A call begins that dirties `pages` of an object.
    pub(super) fn dirtied(
        &mut self,
        now: Instant,
        object: u64,
        pages: impl IntoIterator<Item = u64>,
    ) {
        for page in pages {
            self.since.entry((object, page)).or_insert(now);
        }
        self.most_dirty = self.most_dirty.max(self.since.len() as u64);
    }

    /// A write of `pages` ended. Refusals do not matter here.
    pub(super) fn written(&mut self, object: u64, pages: Range<u64>) {
        for page in pages {
            self.since.remove(&(object, page));
        }
    }

    pub(super) fn judge(&self, now: Instant) -> Option<String> {
        let drain_us = 2 * self.most_dirty * 1_000_000 / self.pages_per_s;
        let drain = Span::from_micros(drain_us) + GRACE;
        let most = self.expire + self.interval + drain;
        let is_old = |(_, since): &(&Place, &Instant)| now.since(**since) > most;
        let ((object, page), since) = self.since.iter().find(is_old)?;
        Some(format!(
            "page {page} of object {object} has been dirty for {}; {most} may be: expiry {}, \
             interval {}, \
             and {drain} to write {} pages (spec/writeback.md 13.2, Q16)",
            now.since(*since),
            self.expire,
            self.interval,
            self.most_dirty
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    #[test]
    fn a_page_that_stays_dirty_is_found_and_one_that_is_written_is_not() {
        let mut age = Age::new(Span::from_secs(2), Span::from_secs(1), 1_000);
        age.dirtied(at(0), 7, 0..10);
        age.dirtied(at(500), 7, 5..20);
        age.written(7, 0..9);
        // 20 pages take 40 ms at the most.
        assert_eq!(age.judge(at(3_190)), None);
        let found = age.judge(at(3_191)).expect("page 9 is too old");
        assert!(found.contains("page 9 of object 7"), "{found}");
        age.written(7, 9..20);
        assert_eq!(age.judge(at(9_000)), None);
    }
}
