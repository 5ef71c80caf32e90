//! How long calls waited, and how long stores took, counted by length.

use forebay_base::Span;
use forebay_law::blame::Cause;
use forebay_store::IoKind;

use crate::event::CallKind;

/// Number of buckets of a [`Histogram`].
pub const BUCKETS: usize = 12;

/// The longest time of each bucket except the last one, us. The last one has all longer times.
pub const BOUNDS_US: [u64; BUCKETS - 1] = [
    30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 200_000, 1_000_000, 10_000_000,
];

/// Times counted by their length.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::histogram::{BOUNDS_US, Histogram};
/// let none = Histogram::default();
/// assert_eq!((none.count(), none.buckets.len()), (0, BOUNDS_US.len() + 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many times were at most as long as the bound of their bucket, and longer than the bound
    /// before it.
    pub buckets: [u64; BUCKETS],
    /// The sum of all, us.
    pub sum_us: u64,
}

impl Histogram {
    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Histograms of one cache, since its start. Only what happened has one.
///
/// ```
/// # use forebay_engine as forebay;
/// # use forebay::{Cache, Settings};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// assert!(cache.histograms().waits.is_empty(), "nobody has waited yet");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// Waits by cause: the same that [`crate::Cache::wait_rows`] sums up.
    pub waits: Vec<(Cause, Histogram)>,
    /// Calls that waited, from their first wait to their end.
    pub calls: Vec<(CallKind, Histogram)>,
    /// Requests to stores.
    pub requests: Vec<RequestTimes>,
}

/// How long a store took for its requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Number of the store.
    pub bdi: usize,
    /// [`IoKind::Read`], [`IoKind::Write`] or [`IoKind::Commit`].
    pub kind: IoKind,
    /// From the submission to the answer, failures too.
    pub times: Histogram,
}

/// The bucket of a time.
pub(crate) fn bucket_of(took: Span) -> usize {
    let us = took.as_nanos().div_ceil(1_000);
    BOUNDS_US.partition_point(|&bound| bound < us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_part_of_its_bucket() {
        for (at, bound) in BOUNDS_US.into_iter().enumerate() {
            assert_eq!(bucket_of(Span::from_micros(bound)), at);
            assert_eq!(bucket_of(Span::from_nanos(bound * 1_000 + 1)), at + 1);
        }
        assert_eq!(bucket_of(Span::ZERO), 0);
        assert_eq!(bucket_of(Span::MAX), BUCKETS - 1);
    }
}
