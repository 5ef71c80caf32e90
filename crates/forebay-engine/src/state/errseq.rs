//! A file's write-error sequence: each failure is reported once to each handle
//! (spec/writeback.md 7.9), and to each of its syncs that was under way when it happened.
//!
//! A failure that was made good is no news to a handle that was opened after it: its pages were
//! written since, nothing was lost, and the handle had no part in it. What a store lost by a failed
//! commit is never made good.
//!
//! invariant E1: an error that nobody has seen is reported to the next check of every handle that
//! was open when it happened, and of every later one while it is not made good.
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
    /// Bytes may be lost for good, and nobody has seen that.
    is_loss: bool,
}

/// Up to where failures were reported to a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    count: u64,
    /// Failures before it was opened.
    failures: u64,
}

/// The moment at which a sync began: what fails after it concerns that sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl ErrorSequence {
    /// Records a failure after which every byte is still in memory, to be written again.
    pub(crate) fn set(&self, error: StoreError) {
        self.note(error, false);
    }

    /// Records a failure that may have lost what the store had taken.
    pub(crate) fn set_loss(&self, error: StoreError) {
        self.note(error, true);
    }

    fn note(&self, error: StoreError, is_loss: bool) {
        let mut state = lock(&self.state);
        if state.seen || state.count == 0 {
            state.count += 1;
            state.is_loss = false;
        }
        state.failures += 1;
        state.seen = false;
        state.latest = Some(error);
        state.is_loss |= is_loss;
    }

    /// Where a new handle starts: an error that nobody has seen will be reported to it, unless it
    /// is made good by then.
    pub(crate) fn sample(&self) -> Cursor {
        let state = lock(&self.state);
        let count = if state.seen {
            state.count
        } else {
            state.count.saturating_sub(1)
        };
        Cursor {
            count,
            failures: state.failures,
        }
    }

    /// Now, for a later [`ErrorSequence::check_and_advance`].
    pub(crate) fn mark(&self) -> Mark {
        Mark(lock(&self.state).failures)
    }

    /// The error that was not reported to this handle yet, if any. It stays unreported. `is_good`
    /// says that nothing that was refused is left to write.
    pub(crate) fn check(&self, cursor: Cursor, is_good: bool) -> Option<StoreError> {
        let state = lock(&self.state);
        if cursor.count == state.count || state.is_old_news(cursor, is_good) {
            return None;
        }
        state.latest
    }

    /// The error that was not reported to this handle yet, or that came after `mark`, if any. Now
    /// it is reported. Another sync of the same handle may have reported it in between, and it is
    /// still a failure of this sync. `is_good` as for [`ErrorSequence::check`].
    pub(crate) fn check_and_advance(
        &self,
        cursor: &mut Cursor,
        mark: Mark,
        is_good: bool,
    ) -> Option<StoreError> {
        let mut state = lock(&self.state);
        if cursor.count == state.count && mark.0 == state.failures {
            return None;
        }
        let is_old_news = state.is_old_news(*cursor, is_good);
        cursor.count = state.count;
        // Also if it is old news: the next failure is then another one, and reaches this handle.
        state.seen = true;
        if is_old_news { None } else { state.latest }
    }
}

impl State {
    /// Whether all that the handle of `cursor` could be told happened before it was opened, and was
    /// made good.
    fn is_old_news(&self, cursor: Cursor, is_good: bool) -> bool {
        is_good && !self.is_loss && cursor.failures == self.failures
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

    /// What a sync reports if nothing fails while it runs, and what failed is not made good.
    fn check(sequence: &ErrorSequence, cursor: &mut Cursor) -> Option<StoreError> {
        let mark = sequence.mark();
        sequence.check_and_advance(cursor, mark, false)
    }

    /// The same once all is made good.
    fn check_good(sequence: &ErrorSequence, cursor: &mut Cursor) -> Option<StoreError> {
        let mark = sequence.mark();
        sequence.check_and_advance(cursor, mark, true)
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
    fn what_was_made_good_is_no_news_to_a_handle_that_was_opened_after_it() {
        let sequence = ErrorSequence::default();
        let mut before = sequence.sample();
        sequence.set(error(28));
        let mut after = sequence.sample();
        assert_eq!(sequence.check(after, false), Some(error(28)));
        assert_eq!(sequence.check(after, true), None);
        assert_eq!(check_good(&sequence, &mut after), None);
        assert_eq!(
            check_good(&sequence, &mut before),
            Some(error(28)),
            "(invariant E1)"
        );
        sequence.set(error(5));
        let other = Some(error(5));
        assert_eq!(check_good(&sequence, &mut after), other, "it was open then");
        assert_eq!(check_good(&sequence, &mut after), None);
    }

    #[test]
    fn a_failure_after_old_news_reaches_the_handle_that_passed_over_it() {
        let sequence = ErrorSequence::default();
        sequence.set(error(28));
        let mut after = sequence.sample();
        assert_eq!(check_good(&sequence, &mut after), None);
        sequence.set(error(5));
        assert_eq!(
            check(&sequence, &mut after),
            Some(error(5)),
            "not lost (invariant E1)"
        );
    }

    #[test]
    fn a_loss_is_never_made_good() {
        let sequence = ErrorSequence::default();
        sequence.set_loss(error(5));
        sequence.set(error(28));
        let mut late = sequence.sample();
        assert_eq!(check_good(&sequence, &mut late), Some(error(28)));
        let mut later = sequence.sample();
        sequence.set(error(28));
        let mut last = sequence.sample();
        assert_eq!(
            check_good(&sequence, &mut last),
            None,
            "the loss was reported"
        );
        assert_eq!(
            check_good(&sequence, &mut later),
            Some(error(28)),
            "it was open then"
        );
    }

    #[test]
    fn two_syncs_of_one_handle_both_report_what_failed_meanwhile() {
        let sequence = ErrorSequence::default();
        let mut cursor = sequence.sample();
        let (first, second) = (sequence.mark(), sequence.mark());
        sequence.set(error(5));
        let third = sequence.mark();
        let mut reported = |mark| sequence.check_and_advance(&mut cursor, mark, true);
        assert_eq!(reported(first), Some(error(5)));
        assert_eq!(reported(second), Some(error(5)), "(invariant E3)");
        assert_eq!(reported(third), None, "it began later (invariant E2)");
    }
}
