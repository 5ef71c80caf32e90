//! A file's write-error sequence: each failure is reported once to each handle
//! (spec/writeback.md 7.9), and to each of its syncs that was under way when it happened.
//!
//! invariant E1: an error that nobody has seen is reported to the next check of every handle,
//! opened before or after it.
//! invariant E2: an error is reported to a handle once, except to syncs under way at the same time.
//! invariant E3: a check reports every failure that came after its mark, whoever saw it before.

use forebay_base::sync::{Mutex, lock};
use forebay_store::StoreError;

#[derive(Debug, Default)]
pub(crate) struct ErrorSequence {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Failures so far, unseen ones in a row counted once.
    count: u64,
    /// Failures so far.
    failures: u64,
    seen: bool,
    latest: Option<StoreError>,
}

/// Up to where failures were reported to a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// The moment at which a sync began: what fails after it concerns that sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl ErrorSequence {
    /// Records a failure.
    pub(crate) fn set(&self, error: StoreError) {
        let mut state = lock(&self.state);
        if state.seen || state.count == 0 {
            state.count += 1;
        }
        state.failures += 1;
        state.seen = false;
        state.latest = Some(error);
    }

    /// Where a new handle starts: an error that nobody has seen will be reported to it.
    pub(crate) fn sample(&self) -> Cursor {
        let state = lock(&self.state);
        Cursor(if state.seen {
            state.count
        } else {
            state.count.saturating_sub(1)
        })
    }

    /// Now, for a later [`ErrorSequence::check_and_advance`].
    pub(crate) fn mark(&self) -> Mark {
        Mark(lock(&self.state).failures)
    }

    /// The error that was not reported to this handle yet, if any. It stays unreported.
    pub(crate) fn check(&self, cursor: Cursor) -> Option<StoreError> {
        let state = lock(&self.state);
        if cursor.0 == state.count {
            return None;
        }
        state.latest
    }

    /// The error that was not reported to this handle yet, or that came after `mark`, if any. Now
    /// it is reported. Another sync of the same handle may have reported it in between, and it is
    /// still a failure of this sync.
    pub(crate) fn check_and_advance(&self, cursor: &mut Cursor, mark: Mark) -> Option<StoreError> {
        let mut state = lock(&self.state);
        if cursor.0 == state.count && mark.0 == state.failures {
            return None;
        }
        cursor.0 = state.count;
        state.seen = true;
        state.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_store::{Failure, IoKind, ObjectId, Request};

    fn error(errno: i32) -> StoreError {
        Request {
            kind: IoKind::Write,
            object: ObjectId(1),
            offset_bytes: 0,
            length_bytes: 1,
        }
        .error(Failure::Device(errno))
    }

    /// What a sync reports if nothing fails while it runs.
    fn check(sequence: &ErrorSequence, cursor: &mut Cursor) -> Option<StoreError> {
        let mark = sequence.mark();
        sequence.check_and_advance(cursor, mark)
    }

    #[test]
    fn the_trace_of_the_specification() {
        let sequence = ErrorSequence::default();
        let mut a = sequence.sample();
        sequence.set(error(5));
        let mut b = sequence.sample();
        assert_eq!(check(&sequence, &mut a), Some(error(5)));
        assert_eq!(check(&sequence, &mut a), None);
        let mut c = sequence.sample();
        assert_eq!(check(&sequence, &mut b), Some(error(5)));
        assert_eq!(
            check(&sequence, &mut c),
            None,
            "it was seen before c was opened"
        );
        sequence.set(error(28));
        sequence.set(error(5));
        assert_eq!(check(&sequence, &mut c), Some(error(5)), "the latest one");
        assert_eq!(check(&sequence, &mut c), None, "once (invariant E2)");
    }

    #[test]
    fn an_unseen_error_reaches_a_handle_opened_later() {
        let sequence = ErrorSequence::default();
        sequence.set(error(5));
        let mut late = sequence.sample();
        assert_eq!(
            check(&sequence, &mut late),
            Some(error(5)),
            "not lost (invariant E1)"
        );
    }

    #[test]
    fn two_syncs_of_one_handle_both_report_what_failed_meanwhile() {
        let sequence = ErrorSequence::default();
        let mut cursor = sequence.sample();
        let (first, second) = (sequence.mark(), sequence.mark());
        sequence.set(error(5));
        let third = sequence.mark();
        let mut reported = |mark| sequence.check_and_advance(&mut cursor, mark);
        assert_eq!(reported(first), Some(error(5)));
        assert_eq!(reported(second), Some(error(5)), "(invariant E3)");
        assert_eq!(reported(third), None, "it began later (invariant E2)");
    }
}
