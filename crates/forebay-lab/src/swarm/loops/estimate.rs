//! The estimate: a store's rate is known to within a factor of two once the store has had enough to
//! do for some time, and again after each change of the rate (spec/writeback.md 3.2;
//! docs/decisions/writeback-and-throttling.md).
//!
//! The first sixteen samples come 20 ms apart or, if the store is slow, with each request that
//! ends. They count by their number: twice as many requests are enough, and half a second. Later a
//! moving average over four seconds is smoothed once more. Three of its windows bring it to within
//! a factor of two of a rate that fell to an eighth or rose to eight times its value.

use forebay_base::{Instant, Span};

/// A new store is known after this much work, and this many requests of this many pages.
const NEW: Span = Span::from_millis(500);
const NEW_REQUESTS: u64 = 32;
const REQUEST_PAGES: u64 = 256;
/// After this much work a store is known again whose rate has changed by a factor of eight.
const CHANGED: Span = Span::from_secs(12);
/// The factor by which the estimate may be off.
const FACTOR: u64 = 2;
/// Looks further apart than this prove nothing.
const LONGEST_LOOK: Span = Span::from_millis(50);

/// The work after which a new store of this rate is known.
fn of_a_new_store(pages_per_s: u64) -> Span {
    let requests_us = NEW_REQUESTS * REQUEST_PAGES * 1_000_000 / pages_per_s;
    NEW + Span::from_micros(requests_us)
}

/// One store.
#[derive(Debug)]
pub(super) struct Estimate {
    /// Its rate.
    pages_per_s: u64,
    /// Work that is needed before the rate is known, and work done so far.
    needed: Span,
    worked: Span,
    until: Instant,
}

impl Estimate {
    pub(super) fn new(pages_per_s: u64) -> Estimate {
        Estimate {
            pages_per_s,
            needed: of_a_new_store(pages_per_s),
            worked: Span::ZERO,
            until: Instant::ZERO,
        }
    }

    /// The store takes `pages_per_s` from now on.
    pub(super) fn change(&mut self, pages_per_s: u64) {
        if self.pages_per_s != pages_per_s {
            // It may not have been known yet.
            self.needed = CHANGED.max(of_a_new_store(pages_per_s));
            self.worked = Span::ZERO;
        }
        self.pages_per_s = pages_per_s;
    }

    /// The cache estimates the store's rate as `estimate`. `is_loaded` says whether its writers
    /// want more than it takes.
    pub(super) fn note(&mut self, now: Instant, estimate: u64, is_loaded: bool) -> Option<String> {
        let passed = now.since(self.until);
        self.until = now;
        if is_loaded && passed <= LONGEST_LOOK {
            self.worked += passed;
        }
        if self.worked < self.needed {
            return None;
        }
        let known = self.pages_per_s / FACTOR..=self.pages_per_s * FACTOR;
        (!known.contains(&estimate)).then(|| {
            format!(
                "at {} ms it is taken for {estimate} pages/s and has {}, after {} with enough \
                 to do ({} are enough for a factor of {FACTOR}; spec/writeback.md 3.2)",
                now.as_millis(),
                self.pages_per_s,
                self.worked,
                self.needed
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(estimate: &mut Estimate, ms: std::ops::Range<u64>, seen: u64) -> Option<String> {
        ms.step_by(10).find_map(|ms| {
            let now = Instant::ZERO + Span::from_millis(ms);
            estimate.note(now, seen, true)
        })
    }

    #[test]
    fn an_estimate_that_is_never_renewed_is_found() {
        let mut estimate = Estimate::new(16_384);
        assert_eq!(judge(&mut estimate, 0..900, 300), None);
        assert_eq!(judge(&mut estimate, 900..5_000, 8_192), None);
        estimate.change(4_096);
        assert_eq!(judge(&mut estimate, 5_000..16_900, 8_193), None);
        let found = judge(&mut estimate, 16_900..17_100, 8_193).expect("12 s have passed");
        assert!(
            found.contains("taken for 8193 pages/s and has 4096"),
            "{found}"
        );
    }

    #[test]
    fn time_with_too_little_to_do_does_not_count() {
        let mut estimate = Estimate::new(1_000);
        for ms in 0..10_000 {
            let now = Instant::ZERO + Span::from_millis(ms);
            assert_eq!(estimate.note(now, 10, false), None);
        }
    }
}
