//! The commits of an object, one after the other, and the callers that share them.
//!
//! Commits are numbered in the order in which they begin. A caller that needs a commit asks for a
//! number once, after everything that the commit has to cover has ended, and then waits for that
//! number. All callers that ask while a commit is under way get the same next number. So a commit
//! begins once, however many callers share it, and each caller is woken once, except the one that
//! begins it.
//!
//! invariant G1: at most one commit of an object is under way.
//! invariant G2: a caller shares a commit that is under way only if the commit has declared that it
//! covers the caller's changes; otherwise it shares the next one, which has not begun.
//! invariant G3: while callers wait for a commit that nobody has begun, one of them is awake.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::{Listener, WaitQueue};
use forebay_store::StoreError;

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Everything that was written before is durable.
    Durable,
    /// The store refused; what was unstable is dirty again.
    Failed(StoreError),
    /// The store started anew and may have forgotten what it had finished; what was unstable is
    /// dirty again, and no handle reports it.
    Forgotten,
    /// The store gave no answer in time; nothing is known.
    NoAnswer,
}

/// What a caller that needs a commit does next.
#[derive(Debug)]
pub(crate) enum Joined<'a> {
    /// Nothing: the commit, or a later one, has ended with this outcome.
    Ended(Committed),
    /// Carry it out, and call [`CommitLine::end`].
    Begun,
    /// Listen, and join again. The commit under way is the one that it needs, or the one before.
    UnderWay {
        /// Ready when the commit that the caller needs has ended, or when this caller has to begin
        /// it.
        listener: Listener<'a>,
        /// The commit under way is the one that the caller needs.
        is_needed: bool,
    },
}

#[derive(Debug)]
pub(crate) struct CommitLine {
    turns: Mutex<Turns>,
    /// Notified when commits with even numbers end, and with odd ones: callers that wait for the
    /// next commit sleep on while this one ends.
    ended: [WaitQueue; 2],
}

#[derive(Debug)]
struct Turns {
    /// Commits that have begun.
    begun: u64,
    /// Commits that have ended: all of them, or all except one (invariant G1).
    ended: u64,
    /// The highest number that was asked for.
    wanted: u64,
    /// The changes that the commit under way has declared to cover.
    covers: u64,
    /// How the last commit ended.
    last: Committed,
    /// How many ended as [`Committed::Forgotten`].
    forgotten: u64,
}

impl Default for CommitLine {
    fn default() -> CommitLine {
        CommitLine {
            turns: Mutex::new(Turns {
                begun: 0,
                ended: 0,
                wanted: 0,
                covers: 0,
                last: Committed::NoAnswer,
                forgotten: 0,
            }),
            ended: [WaitQueue::with_room(2), WaitQueue::with_room(2)],
        }
    }
}

impl CommitLine {
    /// The number of the first commit that is sure to cover the first `changes` of the object, all
    /// of which have ended.
    pub(crate) fn number_for(&self, changes: u64) -> u64 {
        let turns = lock(&self.turns);
        let shares = turns.is_under_way() && changes <= turns.covers;
        if shares { turns.begun } else { turns.begun + 1 }
    }

    /// How many commits have ended because the store forgot what they were to cover. If the number
    /// is another one than before, pages that were written since may have to be written again: a
    /// commit that ends well afterwards does not cover them.
    pub(crate) fn forgotten(&self) -> u64 {
        lock(&self.turns).forgotten
    }

    /// Whether a commit is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        lock(&self.turns).is_under_way()
    }

    /// Says what to do about commit `number`, which [`CommitLine::number_for`] has given out, and
    /// begins it if it has not begun and none is under way.
    #[track_caller]
    pub(crate) fn join(&self, number: u64) -> Joined<'_> {
        let listener = self.queue(number).listen();
        let mut turns = lock(&self.turns);
        if turns.ended >= number {
            return Joined::Ended(turns.last);
        }
        turns.wanted = turns.wanted.max(number);
        if turns.is_under_way() {
            let is_needed = turns.begun == number;
            return Joined::UnderWay {
                listener,
                is_needed,
            };
        }
        turns.begun += 1;
        turns.covers = 0;
        Joined::Begun
    }

    /// Declares that the commit under way covers the first `changes` of the object, all of which
    /// have ended.
    pub(crate) fn covers(&self, changes: u64) {
        lock(&self.turns).covers = changes;
    }

    /// The changes that the commit under way has declared to cover.
    pub(crate) fn covered(&self) -> u64 {
        lock(&self.turns).covers
    }

    /// The commit under way has ended.
    pub(crate) fn end(&self, result: Committed) {
        let (number, is_next_wanted) = {
            let mut turns = lock(&self.turns);
            assert!(turns.is_under_way(), "a commit ends once (invariant G1)");
            turns.ended = turns.begun;
            turns.last = result;
            turns.forgotten += u64::from(result == Committed::Forgotten);
            (turns.ended, turns.wanted > turns.ended)
        };
        self.queue(number).wake_all();
        if is_next_wanted {
            // If that caller gives up, the wake-up goes on to another one.
            self.queue(number + 1).wake_one();
        }
    }

    fn queue(&self, number: u64) -> &WaitQueue {
        &self.ended[(number % 2) as usize]
    }
}

impl Turns {
    fn is_under_way(&self) -> bool {
        self.begun > self.ended
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn is_ready(listener: Listener<'_>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(listener).poll(&mut context) == Poll::Ready(())
    }

    fn waits(joined: Joined<'_>) -> (Listener<'_>, bool) {
        let Joined::UnderWay {
            listener,
            is_needed,
        } = joined
        else {
            panic!("a commit is under way: {joined:?}");
        };
        (listener, is_needed)
    }

    #[test]
    fn invariant_g1_one_commit_at_a_time_begins() {
        let line = CommitLine::default();
        let number = line.number_for(1);
        assert!(matches!(line.join(number), Joined::Begun));
        assert!(matches!(line.join(number), Joined::UnderWay { .. }));
        let next = line.number_for(2);
        assert!(matches!(line.join(next), Joined::UnderWay { .. }));
        line.end(Committed::Durable);
        assert!(matches!(
            line.join(number),
            Joined::Ended(Committed::Durable)
        ));
        assert!(matches!(line.join(next), Joined::Begun));
        assert!(matches!(line.join(next), Joined::UnderWay { .. }));
    }

    #[test]
    #[should_panic(expected = "invariant G1")]
    fn a_commit_that_nobody_began_does_not_end() {
        CommitLine::default().end(Committed::Durable);
    }

    #[test]
    fn invariant_g2_a_commit_under_way_is_shared_by_what_it_covers() {
        let line = CommitLine::default();
        let first = line.number_for(5);
        assert!(matches!(line.join(first), Joined::Begun));
        assert_eq!(
            line.number_for(1),
            first + 1,
            "it has not declared what it covers"
        );
        line.covers(5);
        assert_eq!(line.number_for(5), first);
        assert_eq!(line.number_for(6), first + 1);
        line.end(Committed::Durable);
        assert_eq!(line.number_for(5), first + 1, "it is over");
        assert!(matches!(line.join(first + 1), Joined::Begun));
        assert_eq!(
            line.number_for(5),
            first + 2,
            "another one, which has declared nothing"
        );
    }

    #[test]
    fn invariant_g3_one_of_those_that_wait_for_the_next_commit_is_woken() {
        let line = CommitLine::default();
        let first = line.number_for(1);
        assert!(matches!(line.join(first), Joined::Begun));
        let (shares, is_needed) = waits(line.join(first));
        assert!(is_needed);
        let next = line.number_for(2);
        let (leads, is_needed) = waits(line.join(next));
        assert!(!is_needed);
        let (follows, _) = waits(line.join(next));
        line.end(Committed::Durable);
        assert!(is_ready(shares));
        // The woken caller gives up, and the next one is woken in its place.
        drop(leads);
        assert!(is_ready(follows));
        assert!(matches!(line.join(next), Joined::Begun));
    }

    #[test]
    fn those_that_wait_for_the_next_commit_sleep_on_when_one_ends() {
        let line = CommitLine::default();
        let first = line.number_for(1);
        assert!(matches!(line.join(first), Joined::Begun));
        let next = line.number_for(2);
        let (leads, _) = waits(line.join(next));
        let (follows, _) = waits(line.join(next));
        line.end(Committed::Durable);
        assert!(is_ready(leads));
        assert!(matches!(line.join(next), Joined::Begun));
        assert!(!is_ready(follows));
        let (follows, is_needed) = waits(line.join(next));
        assert!(is_needed);
        line.end(Committed::NoAnswer);
        assert!(is_ready(follows));
        assert!(matches!(
            line.join(next),
            Joined::Ended(Committed::NoAnswer)
        ));
    }
}
