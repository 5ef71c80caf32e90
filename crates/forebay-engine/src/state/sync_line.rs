//! The syncs of a whole object that many callers share.
//!
//! A shared sync covers what was written before it began, whoever wrote it. Shared syncs are
//! numbered in the order in which they begin. A caller asks once for the next number. Then it
//! either carries out the sync of that number, or it sleeps until that sync has ended. The next
//! sync may begin when the writes of the one before have ended: then both can share a commit.
//!
//! invariant SY1: a caller shares only a sync that has begun after the caller asked.
//! invariant SY2: of at most one shared sync the writes are under way.
//! invariant SY3: while callers wait for a sync that may begin, one of them is awake.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::{Listener, WaitQueue};

/// So many syncs in a row have waiting callers that are woken apart from each other. If more are
/// under way, some callers are woken in vain.
const APART: usize = 4;

/// What a caller does next.
#[derive(Debug)]
pub(crate) enum Shared<'a> {
    /// Carry the sync out.
    Begun(Turn<'a>),
    /// Nothing: the sync has ended. If it went well, the caller's pages are durable.
    Ended { went_well: bool },
    /// Listen, and join again.
    UnderWay(Listener<'a>),
}

#[derive(Debug, Default)]
pub(crate) struct SyncLine {
    turns: Mutex<Turns>,
    /// Notified when a sync ends, or when one may begin, by number.
    changed: [WaitQueue; APART],
}

#[derive(Debug, Default)]
struct Turns {
    /// Syncs that have begun.
    begun: u64,
    /// The last of them whose writes have ended.
    written: u64,
    /// The last of them that has ended. Those before it may go on, but it covers what they cover.
    ended: u64,
    /// How that one ended.
    went_well: bool,
}

/// A shared sync. It has failed if it is dropped before it ends well.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    line: &'a SyncLine,
    number: u64,
    went_well: bool,
}

impl SyncLine {
    /// The number of the first sync that has not begun.
    pub(crate) fn next_number(&self) -> u64 {
        lock(&self.turns).begun + 1
    }

    /// Says what to do about sync `number`, which [`SyncLine::next_number`] has given out, and
    /// begins it if it may begin.
    #[track_caller]
    pub(crate) fn join(&self, number: u64) -> Shared<'_> {
        let listener = self.queue(number).listen();
        let mut turns = lock(&self.turns);
        if turns.ended >= number {
            let went_well = turns.went_well;
            return Shared::Ended { went_well };
        }
        if turns.begun >= number || turns.written < turns.begun {
            return Shared::UnderWay(listener);
        }
        turns.begun = number;
        Shared::Begun(Turn {
            line: self,
            number,
            went_well: false,
        })
    }

    fn written(&self, number: u64) {
        let mut turns = lock(&self.turns);
        let is_news = turns.written < number;
        turns.written = turns.written.max(number);
        drop(turns);
        if is_news {
            // If that caller gives up, the wake-up goes on to another one.
            self.queue(number + 1).wake_one();
        }
    }

    fn end(&self, number: u64, went_well: bool) {
        self.written(number);
        let ended = {
            let mut turns = lock(&self.turns);
            let first = turns.ended + 1;
            if first <= number {
                turns.ended = number;
                turns.went_well = went_well;
            }
            first..=number
        };
        for number in ended {
            self.queue(number).wake_all();
        }
    }

    fn queue(&self, number: u64) -> &WaitQueue {
        &self.changed[number as usize % APART]
    }
}

impl Turn<'_> {
    /// The writes have ended: the next sync may begin.
    pub(crate) fn written(&self) {
        self.line.written(self.number);
    }

    /// What was written before it began is durable.
    pub(crate) fn ends_well(mut self) {
        self.went_well = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.line.end(self.number, self.went_well);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn begun(joined: Shared<'_>) -> Turn<'_> {
        match joined {
            Shared::Begun(turn) => turn,
            other => panic!("nothing keeps it from beginning: {other:?}"),
        }
    }

    fn waits(joined: Shared<'_>) -> Listener<'_> {
        match joined {
            Shared::UnderWay(listener) => listener,
            other => panic!("another one is under way: {other:?}"),
        }
    }

    fn is_ready(listener: Listener<'_>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(listener).poll(&mut context) == Poll::Ready(())
    }

    #[test]
    fn invariant_sy1_who_comes_while_one_is_under_way_shares_the_next() {
        let line = SyncLine::default();
        let first = begun(line.join(line.next_number()));
        let number = line.next_number();
        let waiting = waits(line.join(number));
        first.ends_well();
        assert!(is_ready(waiting), "it may begin");
        let second = begun(line.join(number));
        let follows = waits(line.join(number));
        second.ends_well();
        assert!(is_ready(follows));
        assert!(matches!(
            line.join(number),
            Shared::Ended { went_well: true }
        ));
    }

    #[test]
    fn invariant_sy2_the_next_begins_when_the_writes_have_ended() {
        let line = SyncLine::default();
        let first = begun(line.join(1));
        let waiting = waits(line.join(2));
        first.written();
        assert!(is_ready(waiting));
        let second = begun(line.join(2));
        let third = waits(line.join(3));
        first.written();
        first.ends_well();
        assert!(!is_ready(third), "the second one still writes");
        let third = waits(line.join(3));
        second.written();
        assert!(is_ready(third));
    }

    /// The one that began later covers what the other one covers.
    #[test]
    fn the_end_of_a_later_one_counts_for_those_before_it() {
        let line = SyncLine::default();
        let first = begun(line.join(1));
        let follows = waits(line.join(1));
        first.written();
        begun(line.join(2)).ends_well();
        assert!(is_ready(follows));
        assert!(matches!(line.join(1), Shared::Ended { went_well: true }));
        drop(first);
        assert!(matches!(line.join(2), Shared::Ended { went_well: true }));
    }

    #[test]
    fn one_that_is_dropped_has_failed_and_lets_the_next_begin() {
        let line = SyncLine::default();
        let first = begun(line.join(1));
        let (follows, next) = (waits(line.join(1)), waits(line.join(2)));
        drop(first);
        assert!(is_ready(follows) && is_ready(next));
        assert!(matches!(line.join(1), Shared::Ended { went_well: false }));
        begun(line.join(2)).ends_well();
    }

    #[test]
    fn invariant_sy3_a_caller_that_gives_up_hands_its_wake_up_on() {
        let line = SyncLine::default();
        let first = begun(line.join(1));
        let (gives_up, stays) = (waits(line.join(2)), waits(line.join(2)));
        first.written();
        drop(gives_up);
        assert!(is_ready(stays));
        begun(line.join(2)).ends_well();
    }
}
