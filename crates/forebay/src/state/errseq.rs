//! A file's write-error sequence: each handle hears of each failure once (spec/writeback.md 7.9).
//!
//! invariant E1: an error that nobody has seen is reported to the next check of every handle,
//! opened before or after it.
//! invariant E2: one handle is told of one error once.

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
    seen: bool,
    latest: Option<StoreError>,
}

/// How far a handle has heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

impl ErrorSequence {
    /// Records a failure.
    pub(crate) fn set(&self, error: StoreError) {
        let mut state = lock(&self.state);
        if state.seen || state.count == 0 {
            state.count += 1;
        }
        state.seen = false;
        state.latest = Some(error);
    }

    /// Where a new handle starts: it will hear of an error that nobody has seen.
    pub(crate) fn sample(&self) -> Cursor {
        let state = lock(&self.state);
        Cursor(if state.seen {
            state.count
        } else {
            state.count.saturating_sub(1)
        })
    }

    /// The error that this handle has not heard of, if any; it has now.
    pub(crate) fn check_and_advance(&self, cursor: &mut Cursor) -> Option<StoreError> {
        let mut state = lock(&self.state);
        if cursor.0 == state.count {
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

    #[test]
    fn the_trace_of_the_specification() {
        let sequence = ErrorSequence::default();
        let mut a = sequence.sample();
        sequence.set(error(5));
        let mut b = sequence.sample();
        assert_eq!(sequence.check_and_advance(&mut a), Some(error(5)));
        assert_eq!(sequence.check_and_advance(&mut a), None);
        let mut c = sequence.sample();
        assert_eq!(sequence.check_and_advance(&mut b), Some(error(5)));
        assert_eq!(
            sequence.check_and_advance(&mut c),
            None,
            "it was seen before c was opened"
        );
        sequence.set(error(28));
        sequence.set(error(5));
        assert_eq!(
            sequence.check_and_advance(&mut c),
            Some(error(5)),
            "the latest one"
        );
        assert_eq!(
            sequence.check_and_advance(&mut c),
            None,
            "told once (invariant E2)"
        );
    }

    #[test]
    fn an_unseen_error_reaches_who_opens_later() {
        let sequence = ErrorSequence::default();
        sequence.set(error(5));
        let mut late = sequence.sample();
        assert_eq!(
            sequence.check_and_advance(&mut late),
            Some(error(5)),
            "not lost (invariant E1)"
        );
    }
}
