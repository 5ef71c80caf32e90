//! How fast a store reads: one of its requests at a time is measured, and the law's result is kept.
//!
//! invariant L1: at most one read request of a store is measured at a time, and its end ends the
//! measurement.

use forebay_base::Instant;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::reach::{Probe, ReadPace};

/// The sequence in the token of the measured request; all other reads have 0.
pub(crate) const MEASURED: u64 = 1;

/// The reads of one store.
#[derive(Debug, Default)]
pub(crate) struct ReadMeter {
    in_flight_pages: AtomicU64,
    ended_pages: AtomicU64,
    is_measuring: AtomicBool,
    measured: Mutex<Measured>,
}

#[derive(Debug, Default)]
struct Measured {
    pace: ReadPace,
    /// For the request that is measured now: when it was submitted, and what had ended by then.
    submitted: Option<(Instant, u64)>,
    was_alone: bool,
}

impl ReadMeter {
    /// A request for `pages` pages is about to be submitted. True if it is to be measured.
    pub(crate) fn begins(&self, pages: u64, now: impl FnOnce() -> Instant) -> bool {
        let in_flight = self.in_flight_pages.fetch_add(pages, Ordering::AcqRel);
        if self.is_measuring.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut measured = lock(&self.measured);
        measured.submitted = Some((now(), self.ended_pages.load(Ordering::Relaxed)));
        measured.was_alone = in_flight == 0;
        true
    }

    /// A request for `pages` pages has ended. A failed request says nothing about the store's
    /// speed.
    pub(crate) fn ends(
        &self,
        pages: u64,
        is_measured: bool,
        is_read: bool,
        now: impl FnOnce() -> Instant,
    ) {
        self.in_flight_pages.fetch_sub(pages, Ordering::AcqRel);
        let ended = self.ended_pages.fetch_add(pages, Ordering::Relaxed) + pages;
        if !is_measured {
            return;
        }
        let mut measured = lock(&self.measured);
        let (submitted, ended_before) = measured
            .submitted
            .take()
            .expect("the measured request was submitted");
        if is_read {
            let probe = Probe {
                took_us: now().since(submitted).as_micros(),
                ended_pages: ended - ended_before,
                own_pages: pages,
                was_alone: measured.was_alone,
            };
            measured.pace = measured.pace.observed(probe);
        }
        drop(measured);
        self.is_measuring.store(false, Ordering::Release);
    }

    /// What is known about the store's reads.
    pub(crate) fn pace(&self) -> ReadPace {
        lock(&self.measured).pace
    }

    /// Pages that the store is reading now.
    pub(crate) fn in_flight_pages(&self) -> u64 {
        self.in_flight_pages.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::Span;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn invariant_l1_one_request_is_measured_until_it_ends() {
        let meter = ReadMeter::default();
        assert!(meter.begins(8, || at(1_000)));
        assert!(!meter.begins(4, || unreachable!("nobody asks for the time")));
        meter.ends(4, false, true, || unreachable!("nobody asks for the time"));
        assert_eq!(meter.in_flight_pages(), 8);
        meter.ends(8, true, true, || at(3_000));
        let pace = meter.pace();
        assert_eq!((pace.latency_us, pace.latency_pages), (2_000, 8));
        // Twelve pages in 2 ms.
        assert_eq!(pace.pages_per_s, 6_000);
        assert!(meter.begins(1, || at(4_000)));
    }

    #[test]
    fn a_request_that_failed_says_nothing() {
        let meter = ReadMeter::default();
        assert!(meter.begins(1, || at(0)));
        meter.ends(1, true, false, || at(1));
        assert_eq!(meter.pace(), ReadPace::default());
        assert!(meter.begins(1, || at(2)), "the next one is measured");
    }
}
