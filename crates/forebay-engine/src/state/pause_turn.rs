//! Whose turn it is to pause, where several calls of one writer are to pause at once.
//!
//! invariant P1: one call of a writer has the turn at a time. A call that has found it taken for
//! longer than a pause may last pauses without it, because the hard limit holds for each call.
//! invariant P2: a call that was given something to wait for goes on when the pause that it found
//! ends, however the pausing call ends, and not before.
//! invariant P3: the cause that it finds then is that of the pause that it waited for. It finds
//! none if the call that had the turn decided no pause, or if too many pauses have begun since.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_law::blame::Cause;
use forebay_rt::wait::{Listener, WaitQueue};

/// Turns whose causes are remembered. A call that is woken late still finds its own pause, even if
/// the writer has begun the next ones.
const REMEMBERED: u32 = 4;
const CAUSE_BITS: u32 = 8;
const CAUSE_MASK: u64 = (1 << CAUSE_BITS) - 1;
/// Where the number of turns begins in the word.
const NUMBER_AT: u32 = REMEMBERED * CAUSE_BITS;
const CAUSES_MASK: u64 = (1 << NUMBER_AT) - 1;

/// Which of a writer's calls pauses for all of them, and why.
///
/// All is in one word, so that a call that finds the turn taken learns at once whose turn it is.
/// Above are turns, counted when they are taken and when they end: an odd number is a turn that is
/// taken. Below are the causes of the last turns, the latest lowest: the number of the cause plus
/// one, or 0 if no pause was decided.
#[derive(Debug, Default)]
pub(crate) struct PauseTurn {
    word: AtomicU64,
    ended: WaitQueue,
}

/// The turn of one call, over when it is dropped.
#[derive(Debug)]
pub(crate) struct Pause<'a>(&'a PauseTurn);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        // In this order, because a call that registers after the wake-up has to see that no call
        // pauses.
        self.0.word.fetch_add(1 << NUMBER_AT, Ordering::SeqCst);
        self.0.ended.wake_all();
    }
}

impl Pause<'_> {
    /// Notes why the writer pauses. The last decision of a turn counts.
    pub(crate) fn is_for(&self, cause: Cause) {
        // Nobody else changes the word of a turn that is taken.
        let word = self.0.word.load(Ordering::Relaxed) & !CAUSE_MASK;
        let code = cause as u64 + 1;
        self.0.word.store(word | code, Ordering::Relaxed);
    }
}

/// The number of a turn that was found taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TurnNumber(pub(super) u32);

fn number_of(word: u64) -> TurnNumber {
    TurnNumber((word >> NUMBER_AT) as u32)
}

fn is_taken(word: u64) -> bool {
    number_of(word).0 % 2 == 1
}

impl PauseTurn {
    /// Whether some call pauses.
    pub(crate) fn is_taken(&self) -> bool {
        is_taken(self.word.load(Ordering::Relaxed))
    }

    /// Why the writer paused in turn `number`.
    ///
    /// A relaxed load is enough. A call that was woken sees the end of the turn, because the
    /// wake-up comes after it, and everything that is needed is in the same word.
    pub(crate) fn cause_of(&self, number: TurnNumber) -> Option<Cause> {
        let word = self.word.load(Ordering::Relaxed);
        let later = number_of(word).0.wrapping_sub(number.0) / 2;
        if later >= REMEMBERED {
            return None;
        }
        let code = (word >> (later * CAUSE_BITS)) & CAUSE_MASK;
        let number = code.checked_sub(1)?;
        Cause::ALL.get(number as usize).copied()
    }

    /// Makes the caller the one that pauses; none if another call pauses already.
    pub(crate) fn take(&self) -> Option<Pause<'_>> {
        let mut word = self.word.load(Ordering::SeqCst);
        // A call that does not get the turn writes nothing.
        while !is_taken(word) {
            let number = u64::from(number_of(word).0.wrapping_add(1));
            let causes = (word << CAUSE_BITS) & CAUSES_MASK;
            let taken = number << NUMBER_AT | causes;
            let order = Ordering::SeqCst;
            match self.word.compare_exchange(word, taken, order, order) {
                Ok(_) => return Some(Pause(self)),
                Err(found) => word = found,
            }
        }
        None
    }

    /// The turn that is taken; none if no call pauses.
    pub(crate) fn under_way(&self) -> Option<TurnNumber> {
        let word = self.word.load(Ordering::SeqCst);
        is_taken(word).then(|| number_of(word))
    }

    /// A future for the end of turn `number`; none if it has ended. The wake-up of an earlier turn
    /// may end the future too, so the caller asks again.
    pub(crate) fn listen(&self, number: TurnNumber) -> Option<Listener<'_>> {
        let listener = self.ended.listen();
        let is_under_way = number_of(self.word.load(Ordering::SeqCst)) == number;
        is_under_way.then_some(listener)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// One turn of a call that waits along, and the turn's number.
    fn turn_for(turn: &PauseTurn, cause: Option<Cause>) -> TurnNumber {
        let pause = turn.take().expect("no other call pauses");
        assert!(turn.take().is_none());
        let number = turn.under_way().expect("a call pauses");
        assert!(turn.listen(number).is_some());
        assert_eq!(turn.cause_of(number), None, "nothing is decided yet");
        if let Some(cause) = cause {
            pause.is_for(Cause::Commit);
            pause.is_for(cause);
        }
        drop(pause);
        assert!(turn.listen(number).is_none() && !turn.is_taken());
        assert_eq!(turn.cause_of(number), cause);
        number
    }

    #[test]
    fn invariant_p3_each_turn_has_its_own_cause() {
        let turn = PauseTurn::default();
        let mut turns = Vec::new();
        let causes = Cause::ALL.into_iter().map(Some).chain([None]);
        for cause in causes {
            turns.push((turn_for(&turn, cause), cause));
            let late = turns.iter().rev().enumerate();
            for (later, &(number, cause)) in late {
                let found = turn.cause_of(number);
                let is_remembered = later < REMEMBERED as usize;
                assert_eq!(found, cause.filter(|_| is_remembered), "{later} later");
            }
        }
    }

    #[test]
    fn turns_are_counted_around_the_end_of_their_numbers() {
        let turn = PauseTurn::default();
        turn.word.store(!CAUSES_MASK, Ordering::Relaxed);
        assert!(turn.is_taken());
        drop(Pause(&turn));
        let first = turn_for(&turn, Some(Cause::OwnRate));
        turn_for(&turn, Some(Cause::Commit));
        assert_eq!(turn.cause_of(first), Some(Cause::OwnRate));
    }
}
