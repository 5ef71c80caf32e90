//! Whether waits are explained: every call that waited says why, the ledger has the same sums as
//! the counters, and every recorded pause follows from its inputs.

use super::verdict::{Oracle, Verdict};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_engine::event::{PauseRecord, WaitedCall};
use forebay_engine::why::Cause;
use forebay_engine::{Cache, Counter, Statistics};

/// A call may take this much longer than the waits that it reports: each wait is rounded down to
/// whole microseconds, and between two waits a call gives way to others.
const UNEXPLAINED: Span = Span::from_millis(1);

/// The waits that the calls of the running task have reported.
#[derive(Debug, Default)]
pub(super) struct ReportedWaits {
    us: AtomicU64,
}

/// A writer that waits along has the cause of the pause. Only while another call of it is evaluated
/// there is none yet, and that is over sooner than this.
const UNDECIDED: Span = Span::from_millis(10);

/// Judges that `call` has a cause for each long wait. `decides` says whether the policy of the run
/// gives one for each pause.
pub(super) fn judge_causes(call: &WaitedCall, decides: bool, verdict: &Verdict) {
    let mut undecided = call
        .causes
        .iter()
        .filter(|(cause, _)| *cause == Cause::Along);
    if decides && undecided.any(|(_, span)| span >= UNDECIDED) {
        let what = format!("it is not known for what a call waited along: {call:?}");
        verdict.broken(Oracle::Waits, what);
    }
}

impl ReportedWaits {
    /// Notes a call that has ended. Its waits must not be longer than the call.
    pub(super) fn note(&self, call: &WaitedCall, verdict: &Verdict) {
        let named: u64 = call.causes.iter().map(|(_, span)| span.as_micros()).sum();
        let us = named + call.causes.rest().as_micros();
        if us > call.took.as_micros() {
            let what = format!("a call reports waits of {us} us in {call:?}");
            verdict.broken(Oracle::Waits, what);
        }
        self.us.fetch_add(us, Ordering::Relaxed);
    }

    /// The waits that were reported since the last call of this.
    pub(super) fn take_us(&self) -> u64 {
        self.us.swap(0, Ordering::Relaxed)
    }
}

/// Sums that both the ledger and a counter have.
const SUMS: [(&[Counter], &[Cause]); 2] = [
    (
        &[Counter::BalancePausedUs, Counter::BalanceAlongUs],
        &[
            Cause::OwnRate,
            Cause::OthersDirty,
            Cause::Unmeasured,
            Cause::SilentStore,
            Cause::FailedPages,
            Cause::Along,
        ],
    ),
    (
        &[Counter::AllocstallUs],
        &[
            Cause::NoFrames,
            Cause::DirectReclaim,
            Cause::ReclaimWriteback,
            Cause::ReclaimIsolated,
            Cause::ReclaimNoProgress,
            Cause::ReclaimCongested,
        ],
    ),
];

/// Judges a call `what` that has returned: it took `took` and reported waits of `reported_us`.
pub(super) fn judge_reported(verdict: &Verdict, what: &str, took: Span, reported_us: u64) {
    let unexplained = took.saturating_sub(Span::from_micros(reported_us));
    if unexplained > UNEXPLAINED {
        let what = format!("{what} took {took} and explains {reported_us} us of it");
        verdict.broken(Oracle::Waits, what);
    }
}

/// Judges that the ledger and the counters agree when nothing is under way.
pub(super) fn judge_ledger(verdict: &Verdict, cache: &Cache, statistics: &Statistics) {
    let rows = cache.wait_rows(None);
    for (counters, causes) in SUMS {
        let of_counter = rows.iter().filter(|row| causes.contains(&row.cause));
        let ledger_us: u64 = of_counter.map(|row| row.waited.as_micros()).sum();
        let counted_us = counters
            .iter()
            .map(|counter| statistics.get(*counter))
            .sum::<u64>();
        if ledger_us != counted_us {
            let names: Vec<&str> = counters.iter().map(|counter| counter.name()).collect();
            let name = names.join(" and ");
            let what = format!("{name} is {counted_us}, and the ledger has {ledger_us} us");
            verdict.broken(Oracle::Waits, what);
        }
    }
}

/// Judges that callers have made no more pages dirty than the counter says. Cuts dirty a page in
/// part without being writers, and writers that still have files open are not noted to the end.
pub(super) fn judge_dirtied(verdict: &Verdict, cache: &Cache, statistics: &Statistics) {
    let rows = cache.dirtied_rows(None);
    let pages: u64 = rows.iter().map(|row| row.pages).sum();
    let counted = statistics.get(Counter::NrDirtied);
    if pages > counted {
        let what = format!("nr_dirtied is {counted}, and callers have dirtied {pages} pages");
        verdict.broken(Oracle::Waits, what);
    }
}

/// Judges that a recorded pause is the one that its inputs give.
pub(super) fn judge_pause(record: &PauseRecord, verdict: &Verdict) {
    let again = record.recomputed();
    if again != *record {
        let what = format!("{record:?} is recorded, but its inputs give {again:?}");
        verdict.broken(Oracle::Waits, what);
    }
}
