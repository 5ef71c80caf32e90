//! Whose turn it is to pause, where several calls of one writer are to pause at once.
//!
//! invariant P1: one call of a writer has the turn at a time. A call that has found it taken for
//! longer than a pause may last pauses without it, because the hard limit holds for each call.
//! invariant P2: a call that was given something to wait for is woken when the pause that it found
//! ends, however the pausing call ends.
//! invariant P3: the cause that it finds then is that of the writer's latest pause.

use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_law::blame::Cause;
use forebay_rt::wait::{Listener, WaitQueue};

/// Which of a writer's calls pauses for all of them.
#[derive(Debug, Default)]
pub(crate) struct PauseTurn {
    is_taken: AtomicBool,
    ended: WaitQueue,
    /// The number of the cause of the latest pause, plus one; 0: none paused yet.
    cause: AtomicU64,
}

/// The turn of one call, over when it is dropped.
#[derive(Debug)]
pub(crate) struct Pause<'a>(&'a PauseTurn);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        // In this order, because a call that registers after the wake-up has to see that no call
        // pauses.
        self.0.is_taken.store(false, Ordering::SeqCst);
        self.0.ended.wake_all();
    }
}

impl PauseTurn {
    /// Whether some call pauses.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Notes why the writer pauses.
    pub(crate) fn pauses_for(&self, cause: Cause) {
        self.cause.store(cause as u64 + 1, Ordering::Relaxed);
    }

    /// What a call waits for that waits until another call's pause ends: the cause of the latest
    /// pause.
    pub(crate) fn cause(&self) -> Cause {
        let number = self.cause.load(Ordering::Relaxed).checked_sub(1);
        let cause = number.and_then(|number| Cause::ALL.get(number as usize));
        cause.copied().unwrap_or(Cause::Along)
    }

    /// Makes the caller the one that pauses; none if another call pauses already.
    pub(crate) fn take(&self) -> Option<Pause<'_>> {
        // A call that does not get the turn writes nothing.
        let taken = self
            .is_taken
            .compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok().then(|| Pause(self))
    }

    /// A future that ends with the pause that is under way; none if no call pauses.
    pub(crate) fn listen(&self) -> Option<Listener<'_>> {
        let listener = self.ended.listen();
        self.is_taken.load(Ordering::SeqCst).then_some(listener)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn invariant_p3_the_cause_is_that_of_the_latest_pause() {
        let turn = PauseTurn::default();
        assert_eq!(turn.cause(), Cause::Along);
        for cause in Cause::ALL {
            let pause = turn.take().expect("no other call pauses");
            turn.pauses_for(cause);
            // A call that comes late still finds it.
            drop(pause);
            assert_eq!(turn.cause(), cause);
        }
    }
}
