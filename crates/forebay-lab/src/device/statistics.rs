//! What iostat would show of a device (spec/workloads.md 2.2).

use super::drive::DriveCounts;
use super::transfer::TransferKind;
use forebay_base::{Instant, Span};

/// What has passed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Requests that have ended, after merging.
    pub requests: u64,
    /// Transfers that became part of another's request.
    pub merged: u64,
    /// Bytes of the requests that have ended.
    pub bytes: u64,
    /// Sum of their times from joining the queue to their end.
    pub waited: Span,
}

/// What a device has done, as totals since the start. The figures of an interval come from two of
/// them, by [`Statistics::since`].
///
/// ```
/// use forebay_lab::device::Statistics;
/// let nothing = Statistics::default();
/// assert_eq!(nothing.await_ms(), 0.0);
/// assert_eq!(nothing.since(&nothing), nothing);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Reads.
    pub reads: Passed,
    /// Writes.
    pub writes: Passed,
    /// Flushes that have ended.
    pub flushes: u64,
    /// Requests that did not begin where the one before ended, in the order in which the drive got
    /// them.
    pub seeks: u64,
    /// Time during which at least one request was in the queue or in the drive.
    pub busy: Span,
    /// Sum over time of the requests in the queue and in the drive, in request nanoseconds.
    pub queued_ns: u64,
    /// Time that the totals cover.
    pub covered: Span,
    /// Changes of erase block away from where the one before ended (sticks).
    pub unit_changes: u64,
    /// Bytes copied to close erase blocks (sticks).
    pub copied_bytes: u64,
}

impl Passed {
    fn since(&self, earlier: &Passed) -> Passed {
        Passed {
            requests: self.requests - earlier.requests,
            merged: self.merged - earlier.merged,
            bytes: self.bytes - earlier.bytes,
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }

    fn plus(&self, other: &Passed) -> Passed {
        Passed {
            requests: self.requests + other.requests,
            merged: self.merged + other.merged,
            bytes: self.bytes + other.bytes,
            waited: self.waited + other.waited,
        }
    }

    /// Mean time from joining the queue to the end, in milliseconds; 0 if none has ended.
    pub fn await_ms(&self) -> f64 {
        ratio(self.waited.as_nanos() as f64 / 1e6, self.requests as f64)
    }
}

impl Statistics {
    /// What was done since `earlier`, which is of the same device.
    #[must_use]
    pub fn since(&self, earlier: &Statistics) -> Statistics {
        Statistics {
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            flushes: self.flushes - earlier.flushes,
            seeks: self.seeks - earlier.seeks,
            busy: self.busy.saturating_sub(earlier.busy),
            queued_ns: self.queued_ns - earlier.queued_ns,
            covered: self.covered.saturating_sub(earlier.covered),
            unit_changes: self.unit_changes - earlier.unit_changes,
            copied_bytes: self.copied_bytes - earlier.copied_bytes,
        }
    }

    /// Both devices together. Busy times add up: two busy devices are 200 % utilised.
    #[must_use]
    pub fn plus(&self, other: &Statistics) -> Statistics {
        Statistics {
            reads: self.reads.plus(&other.reads),
            writes: self.writes.plus(&other.writes),
            flushes: self.flushes + other.flushes,
            seeks: self.seeks + other.seeks,
            busy: self.busy + other.busy,
            queued_ns: self.queued_ns + other.queued_ns,
            covered: self.covered.max(other.covered),
            unit_changes: self.unit_changes + other.unit_changes,
            copied_bytes: self.copied_bytes + other.copied_bytes,
        }
    }

    /// Reads and writes together.
    pub fn both(&self) -> Passed {
        self.reads.plus(&self.writes)
    }

    /// iostat's await: mean time from joining the queue to the end, in milliseconds.
    pub fn await_ms(&self) -> f64 {
        self.both().await_ms()
    }

    /// Mean number of requests in the queue and in the drive.
    pub fn mean_queued(&self) -> f64 {
        ratio(self.queued_ns as f64, self.covered.as_nanos() as f64)
    }

    /// Percent of the time during which the device had something to do.
    pub fn utilised_percent(&self) -> f64 {
        let covered = self.covered.as_nanos() as f64;
        100.0 * ratio(self.busy.as_nanos() as f64, covered)
    }

    /// Bytes of both directions a second.
    pub fn bytes_per_s(&self) -> f64 {
        ratio(self.both().bytes as f64, self.covered.as_secs_f64())
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The counting itself.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    totals: Statistics,
    in_flight: u64,
    /// Up to when the sums over time go.
    summed_to: Instant,
    /// Where the last request ended that the drive got.
    last_end_bytes: Option<u64>,
}

impl Ledger {
    fn sum_up(&mut self, now: Instant) {
        let passed = now - self.summed_to;
        self.summed_to = now;
        if self.in_flight > 0 {
            self.totals.busy += passed;
            self.totals.queued_ns += passed.as_nanos() * self.in_flight;
        }
    }

    /// From `now` on this many requests are in the queue and in the drive.
    pub(crate) fn in_flight(&mut self, requests: u64, now: Instant) {
        self.sum_up(now);
        self.in_flight = requests;
    }

    /// The drive gets a request for this range.
    pub(crate) fn begun(&mut self, start_bytes: u64, end_bytes: u64) {
        if self.last_end_bytes != Some(start_bytes) {
            self.totals.seeks += 1;
        }
        self.last_end_bytes = Some(end_bytes);
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self, kind: TransferKind, bytes: u64, waited: Span) {
        let passed = match kind {
            TransferKind::Read => &mut self.totals.reads,
            TransferKind::Write => &mut self.totals.writes,
            TransferKind::Flush => {
                self.totals.flushes += 1;
                return;
            }
        };
        passed.requests += 1;
        passed.bytes += bytes;
        passed.waited += waited;
    }

    /// The totals up to `now`.
    pub(crate) fn totals(
        &mut self,
        now: Instant,
        merged: (u64, u64),
        counts: DriveCounts,
    ) -> Statistics {
        self.sum_up(now);
        let mut totals = self.totals;
        totals.covered = now - Instant::ZERO;
        totals.reads.merged = merged.0;
        totals.writes.merged = merged.1;
        totals.unit_changes = counts.unit_changes;
        totals.copied_bytes = counts.copied_bytes;
        totals
    }
}
