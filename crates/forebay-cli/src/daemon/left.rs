//! What is left to write at the end of a server, and how long that will take.
//!
//! The stores are written side by side, so it takes as long as the slowest of them. What a store
//! took since the last line says more of the end than what was measured while it had little to do.

use crate::daemon::status::show_pages;
use forebay::statistics::BackingStatistics;
use forebay::{Cache, Statistics};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;

/// A store that has accepted nothing for this long has no estimate.
const STALLED: Span = Span::from_secs(5);

/// What one store did up to the last line.
#[derive(Clone, Copy, Debug)]
struct Seen {
    taken_pages: u64,
    /// When it had last taken something.
    at: Instant,
    /// How much it takes, pages/s; none if that is not known.
    rate: Option<u64>,
}

impl Seen {
    fn at_first(store: &BackingStatistics, now: Instant) -> Seen {
        Seen {
            taken_pages: store.written,
            at: now,
            rate: store.is_measured.then_some(store.write_bandwidth),
        }
    }

    fn look(&mut self, store: &BackingStatistics, now: Instant) {
        let (taken, passed) = (store.written - self.taken_pages, now.since(self.at));
        if taken > 0 {
            let per_s = u128::from(taken) * 1_000_000 / u128::from(passed.as_micros().max(1));
            *self = Seen {
                taken_pages: store.written,
                at: now,
                rate: Some(u64::try_from(per_s).unwrap_or(u64::MAX).max(1)),
            };
        } else if passed >= STALLED {
            self.rate = None;
        }
    }
}

/// How long one store will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Takes {
    Seconds(u64),
    /// It was never measured.
    Unmeasured,
    /// It has taken nothing for this many seconds.
    Stalled(u64),
}

/// The word about the end, line by line.
pub(crate) struct Left {
    cache: Cache,
    rt: Rt,
    seen: Vec<Seen>,
}

impl Left {
    pub(crate) fn new(cache: &Cache, rt: &Rt) -> Left {
        Left {
            cache: cache.clone(),
            rt: rt.clone(),
            seen: Vec::new(),
        }
    }

    /// How much is left now, and how long it will take.
    pub(crate) fn show(&mut self) -> String {
        let (statistics, now) = (self.cache.statistics(), self.rt.now());
        let longest = longest(&mut self.seen, &statistics, now);
        let left = format!("{} left to write", show_pages(statistics.dirty()));
        let Some((bdi, takes)) = longest else {
            return left;
        };
        let name = self.cache.store_name(bdi);
        match takes {
            Takes::Seconds(seconds) => {
                let rate = self.seen[bdi].rate.map(show_pages).unwrap_or_default();
                format!("{left}, about {seconds} s: {name} takes {rate}/s")
            }
            Takes::Unmeasured => {
                format!("{left}; how long that takes is not known: {name} was not measured yet")
            }
            Takes::Stalled(seconds) => format!(
                "{left}; how long that takes is not known: {name} has taken nothing for {seconds} s"
            ),
        }
    }
}

/// The store that will take longest of those that have something to write; one of which that is not
/// known before all others.
fn longest(seen: &mut Vec<Seen>, statistics: &Statistics, now: Instant) -> Option<(usize, Takes)> {
    let mut longest = None;
    for (bdi, store) in statistics.backings.iter().enumerate() {
        match seen.get_mut(bdi) {
            Some(seen) => seen.look(store, now),
            None => seen.push(Seen::at_first(store, now)),
        }
        let left = store.reclaimable + store.writeback;
        if left == 0 {
            continue;
        }
        let stalled = now.since(seen[bdi].at);
        let takes = match seen[bdi].rate {
            Some(rate) => Takes::Seconds(left.div_ceil(rate.max(1))),
            None if stalled >= STALLED => Takes::Stalled(stalled.as_millis() / 1_000),
            None => Takes::Unmeasured,
        };
        if longest.is_none_or(|(_, most)| takes > most) {
            longest = Some((bdi, takes));
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Settings;
    use forebay_base::sync::Arc;
    use forebay_store::MemoryStore;

    /// The statistics of two stores with 1,000 pages to write each.
    fn two() -> Statistics {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        for _ in 0..2 {
            let store = Arc::new(MemoryStore::new());
            cache.attach(store).expect("it is new");
        }
        let mut statistics = cache.statistics();
        for store in &mut statistics.backings {
            store.reclaimable = 1_000;
        }
        statistics
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn the_slowest_store_says_how_long_it_takes_and_progress_renews_it() {
        let (mut statistics, mut seen) = (two(), Vec::new());
        for (store, rate) in statistics.backings.iter_mut().zip([50_000, 100]) {
            (store.is_measured, store.write_bandwidth) = (true, rate);
        }
        let first = longest(&mut seen, &statistics, at(0));
        assert_eq!(first, Some((1, Takes::Seconds(10))));
        // It takes half of what was measured.
        let slow = &mut statistics.backings[1];
        (slow.written, slow.reclaimable) = (50, 950);
        let second = longest(&mut seen, &statistics, at(1));
        assert_eq!(second, Some((1, Takes::Seconds(19))));
        statistics.backings[1].reclaimable = 0;
        let third = longest(&mut seen, &statistics, at(2));
        assert_eq!(third, Some((0, Takes::Seconds(1))));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let (mut statistics, mut seen) = (two(), Vec::new());
        (
            statistics.backings[0].is_measured,
            statistics.backings[0].write_bandwidth,
        ) = (true, 10);
        let first = longest(&mut seen, &statistics, at(0));
        assert_eq!(
            first,
            Some((1, Takes::Unmeasured)),
            "the first guess is no measure"
        );
        statistics.backings[1].written = 100;
        let second = longest(&mut seen, &statistics, at(1));
        assert_eq!(second, Some((0, Takes::Seconds(100))));
        let stalled = longest(&mut seen, &statistics, at(7));
        assert_eq!(stalled, Some((0, Takes::Stalled(7))));
        for store in &mut statistics.backings {
            store.reclaimable = 0;
        }
        assert_eq!(longest(&mut seen, &statistics, at(8)), None);
    }
}
