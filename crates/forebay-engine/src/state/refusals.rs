//! What a store refused: how often, by kind and reason, and whether it still does.
//!
//! invariant RF1: each request that failed is counted once, under its kind and its reason, and a
//! kind is in trouble from the first of them on until a request of the kind went well.

use crate::trouble::{KINDS, REASONS, Refused, Trouble, reason_of};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_store::{Failure, IoKind};
// Not the atomics of the schedule explorer: counts may be added in any order, and a success that
// is seen late ends a trouble late.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Without a failure for this long, and with a success since, a trouble is over. It is longer than
/// the pause between two looks of a server, so that none is missed.
const CALM: Span = Span::from_secs(10);
/// Without a failure for this long, what nobody asks for any more is no trouble.
const QUIET: Span = Span::from_secs(60);

/// A time in which one kind of requests failed.
#[derive(Clone, Copy, Debug)]
struct Episode {
    since: Instant,
    last: Instant,
    failure: Failure,
    requests: u64,
    /// A request of the kind has ended well since the last failure.
    has_gone_well: bool,
}

impl Episode {
    fn is_over(&self, kind: IoKind, kept_pages: u64, now: Instant) -> bool {
        let calm = now.since(self.last);
        let is_kept = kind == IoKind::Write && kept_pages > 0;
        let is_unasked = kind != IoKind::Commit && calm >= QUIET;
        !is_kept && (self.has_gone_well && calm >= CALM || is_unasked)
    }
}

/// One kind of requests.
#[derive(Debug, Default)]
struct OfKind {
    counts: [AtomicU64; REASONS.len()],
    /// The last request failed.
    is_failing: AtomicBool,
    latest: Mutex<Option<Episode>>,
}

/// What one store refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals([OfKind; KINDS.len()]);

impl Refusals {
    /// A request has failed; `kept_pages` pages that were refused are kept. What says nothing about
    /// the store's health is only counted.
    pub(crate) fn refused(&self, kind: IoKind, failure: Failure, kept_pages: u64, now: Instant) {
        let of = &self.0[kind as usize];
        of.counts[reason_of(failure)].fetch_add(1, Ordering::Relaxed);
        if matches!(failure, Failure::Forgotten | Failure::Unsupported) {
            return;
        }
        let mut latest = lock(&of.latest);
        let known = latest.filter(|episode| !episode.is_over(kind, kept_pages, now));
        let (since, requests) = known.map_or((now, 0), |known| (known.since, known.requests));
        *latest = Some(Episode {
            since,
            last: now,
            failure,
            requests: requests + 1,
            has_gone_well: false,
        });
        of.is_failing.store(true, Ordering::Relaxed);
    }

    /// A request has ended well.
    pub(crate) fn went_well(&self, kind: IoKind) {
        let of = &self.0[kind as usize];
        if !of.is_failing.load(Ordering::Relaxed) {
            return;
        }
        let mut latest = lock(&of.latest);
        of.is_failing.store(false, Ordering::Relaxed);
        if let Some(episode) = latest.as_mut() {
            episode.has_gone_well = true;
        }
    }

    /// All that was refused.
    pub(crate) fn counts(&self) -> Refused {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Refused(self.0.each_ref().map(|of| of.counts.each_ref().map(count)))
    }

    /// The latest trouble of each kind, also if it is over.
    pub(crate) fn latest(&self, kept_pages: u64, now: Instant) -> [Option<Trouble>; KINDS.len()] {
        KINDS.map(|kind| {
            let episode = (*lock(&self.0[kind as usize].latest))?;
            let is_over = episode.is_over(kind, kept_pages, now);
            let until = if is_over { episode.last } else { now };
            Some(Trouble {
                kind,
                failure: episode.failure,
                requests: episode.requests,
                since: episode.since,
                lasted: until.since(episode.since),
                is_over,
            })
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Span::from_secs(seconds)
    }

    fn of(refusals: &Refusals, kind: IoKind, kept_pages: u64, seconds: u64) -> Trouble {
        refusals.latest(kept_pages, at(seconds))[kind as usize].expect("it has failed")
    }

    #[test]
    fn invariant_rf1_failures_are_counted_once_and_a_kind_is_in_trouble_until_one_goes_well() {
        let refusals = Refusals::default();
        refusals.went_well(IoKind::Write);
        assert_eq!(refusals.latest(0, at(1)), [None; KINDS.len()]);
        for second in 1..=3 {
            refusals.refused(IoKind::Write, Failure::NoSpace, 5, at(second));
        }
        refusals.refused(IoKind::Read, Failure::Device(5), 5, at(3));
        let counted: Vec<_> = refusals.counts().iter().collect();
        assert_eq!(counted, [("read", "device", 1), ("write", "no_space", 3)]);
        let trouble = of(&refusals, IoKind::Write, 5, 500);
        assert_eq!(
            (trouble.requests, trouble.is_over),
            (3, false),
            "nothing went well"
        );
        assert_eq!(trouble.lasted, Span::from_secs(499));
        refusals.went_well(IoKind::Write);
        assert!(
            !of(&refusals, IoKind::Write, 1, 500).is_over,
            "a page is kept"
        );
        assert!(
            !of(&refusals, IoKind::Write, 0, 12).is_over,
            "it is too early"
        );
        let over = of(&refusals, IoKind::Write, 0, 500);
        assert_eq!((over.is_over, over.lasted), (true, Span::from_secs(2)));
        refusals.refused(IoKind::Write, Failure::NoSpace, 0, at(501));
        assert_eq!(
            of(&refusals, IoKind::Write, 1, 502).requests,
            1,
            "it is another one"
        );
    }

    #[test]
    fn what_nobody_asks_for_again_is_no_trouble_after_a_minute() {
        let refusals = Refusals::default();
        for kind in [IoKind::Read, IoKind::Write, IoKind::Commit] {
            refusals.refused(kind, Failure::Device(5), 0, at(1));
        }
        for kind in [IoKind::Read, IoKind::Write] {
            assert!(!of(&refusals, kind, 0, 60).is_over);
            assert!(of(&refusals, kind, 0, 61).is_over);
        }
        assert!(
            !of(&refusals, IoKind::Write, 1, 61).is_over,
            "a page is kept"
        );
        assert!(
            !of(&refusals, IoKind::Commit, 0, 1_000).is_over,
            "it may have lost bytes"
        );
    }

    #[test]
    fn a_store_that_started_anew_or_cannot_do_it_is_well() {
        let refusals = Refusals::default();
        refusals.refused(IoKind::Commit, Failure::Forgotten, 0, at(1));
        refusals.refused(IoKind::Discard, Failure::Unsupported, 0, at(1));
        assert_eq!(refusals.latest(0, at(2)), [None; KINDS.len()]);
        assert_eq!(refusals.counts().of_kind(IoKind::Commit), 1);
    }
}
