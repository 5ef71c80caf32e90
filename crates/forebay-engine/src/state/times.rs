//! How long calls waited and stores took, counted by length.
//!
//! A call that waited adds to it once, at its end, and a request to a store once, at its answer.
//! What is found in memory adds nothing.
//!
//! invariant HT1: the waits of a cause are those that the ledger has of it, in number and in sum.

use crate::event::CallKind;
use crate::histogram::{BUCKETS, Histogram, bucket_of};
use forebay_base::Span;
use forebay_law::blame::{CAUSES, Cause};
use forebay_store::IoKind;
// Not the atomics of the schedule explorer: counts may be added in any order.
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of requests that are counted, in this order.
const KINDS: [IoKind; 3] = [IoKind::Read, IoKind::Write, IoKind::Commit];

#[derive(Debug, Default)]
struct Counts {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Counts {
    fn note(&self, took: Span) {
        self.buckets[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
        let us = took.as_micros();
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// None if nothing was counted.
    fn histogram(&self) -> Option<Histogram> {
        let count = |bucket: &AtomicU64| bucket.load(Ordering::Relaxed);
        let histogram = Histogram {
            buckets: self.buckets.each_ref().map(count),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        };
        (histogram.count() > 0).then_some(histogram)
    }
}

/// The waits of calls.
#[derive(Debug, Default)]
pub(crate) struct WaitTimes {
    waits: [Counts; CAUSES],
    calls: [Counts; CallKind::ALL.len()],
}

/// Bytes of the waits, which are part of the budget. The calls, 832 bytes, lie in the engine
/// itself, as the knobs do.
pub(crate) const BYTES: usize = size_of::<[Counts; CAUSES]>();

// No more than half a page, so that most caches do not have a page less for it.
const _: () = assert!(BYTES <= 2 << 10);

impl WaitTimes {
    /// A call has ended that took `took` from its first wait on, and waited for `causes`.
    pub(crate) fn note(
        &self,
        kind: CallKind,
        took: Span,
        causes: impl Iterator<Item = (Cause, Span)>,
    ) {
        self.calls[kind as usize].note(took);
        for (cause, waited) in causes {
            self.waits[cause as usize].note(waited);
        }
    }

    /// Waits by cause.
    pub(crate) fn waits(&self) -> Vec<(Cause, Histogram)> {
        counted(Cause::ALL.into_iter().zip(&self.waits))
    }

    /// Calls by kind.
    pub(crate) fn calls(&self) -> Vec<(CallKind, Histogram)> {
        counted(CallKind::ALL.into_iter().zip(&self.calls))
    }
}

/// The requests of one store.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts([Counts; KINDS.len()]);

impl RequestCounts {
    /// The store has answered a request after `took`.
    pub(crate) fn note(&self, kind: IoKind, took: Span) {
        if let Some(at) = KINDS.iter().position(|known| *known == kind) {
            self.0[at].note(took);
        }
    }

    /// Requests by kind.
    pub(crate) fn requests(&self) -> Vec<(IoKind, Histogram)> {
        counted(KINDS.into_iter().zip(&self.0))
    }
}

fn counted<'c, T>(all: impl Iterator<Item = (T, &'c Counts)>) -> Vec<(T, Histogram)> {
    let one = |(key, counts): (T, &Counts)| Some((key, counts.histogram()?));
    all.filter_map(one).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_counted_where_it_belongs() {
        fn sums<T: Copy>(all: &[(T, Histogram)]) -> Vec<(T, u64, u64)> {
            let one = |&(key, it): &(T, Histogram)| (key, it.count(), it.sum_us);
            all.iter().map(one).collect()
        }
        let us = Span::from_micros;
        let times = WaitTimes::default();
        let causes = [(Cause::OwnRate, us(150)), (Cause::PageHeld, us(50))];
        times.note(CallKind::Write, us(250), causes.into_iter());
        times.note(CallKind::Memory, us(10), causes[..1].iter().copied());
        let expected = [(Cause::OwnRate, 2, 300), (Cause::PageHeld, 1, 50)];
        assert_eq!(sums(&times.waits()), expected);
        let expected = [(CallKind::Write, 1, 250), (CallKind::Memory, 1, 10)];
        assert_eq!(sums(&times.calls()), expected);
        let requests = RequestCounts::default();
        requests.note(IoKind::Commit, us(2_000_000));
        requests.note(IoKind::Discard, us(1));
        requests.note(IoKind::Read, us(1));
        let expected = [(IoKind::Read, 1, 1), (IoKind::Commit, 1, 2_000_000)];
        assert_eq!(sums(&requests.requests()), expected);
    }

    #[test]
    fn causes_and_kinds_stand_in_the_order_of_their_numbers() {
        for (at, kind) in CallKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at);
        }
    }
}
