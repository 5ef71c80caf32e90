//! What a store's flusher is asked for, and how it learns of it.
//!
//! invariant R1: whoever asks after it has made something ready to write needs no other wake-up:
//! either the flusher has yet to look, or it is woken, or it finds the request before it rests.

use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use forebay_rt::wait::{Listener, WaitQueue};

/// What reclaim has asked a flusher to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlusherWork {
    /// A reclaimer found only dirty pages: write all.
    pub(crate) all: bool,
    /// One has looked at so many pages in vain: write as many.
    pub(crate) pages: u64,
    /// Writes that failed may be tried again.
    pub(crate) retry: bool,
}

/// The requests that a flusher has not begun to heed.
#[derive(Debug)]
pub(crate) struct FlusherRequests {
    /// Too much is dirty: write until it is not.
    background: AtomicBool,
    work: Mutex<FlusherWork>,
    wake: WaitQueue,
}

/// What a flusher does after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRound {
    /// It was asked for something since the round began.
    Again,
    /// Reclaim asks on, but the last round was in vain: what it was asked for has to wait.
    RestInVain,
    /// Nobody has asked it for anything.
    Rest,
}

impl FlusherWork {
    /// To write all that is dirty.
    pub(crate) const ALL: FlusherWork = FlusherWork {
        all: true,
        retry: false,
        pages: 0,
    };
}

impl FlusherRequests {
    pub(crate) fn new() -> FlusherRequests {
        FlusherRequests {
            background: AtomicBool::new(false),
            work: Mutex::new(FlusherWork::default()),
            wake: WaitQueue::with_room(1),
        }
    }

    /// Asks for background writing. In order with what the caller made dirty before and with the
    /// flusher's next look, so that one of the two sees the other.
    pub(crate) fn ask_for_background(&self) {
        if !self.background.swap(true, Ordering::AcqRel) {
            self.wake.wake_all();
        }
    }

    /// Asks for work beside that.
    pub(crate) fn ask(&self, work: FlusherWork) {
        let mut asked = lock(&self.work);
        let merged = FlusherWork {
            all: asked.all || work.all,
            pages: asked.pages.max(work.pages),
            retry: asked.retry || work.retry,
        };
        let is_new = *asked != merged;
        *asked = merged;
        drop(asked);
        if is_new {
            self.wake.wake_all();
        }
    }

    /// Wakes a flusher that rests: there is something new for it to look at.
    pub(crate) fn wake(&self) {
        self.wake.wake_all();
    }

    /// To be called before the look at what there is to do, and awaited after it.
    pub(crate) fn listen(&self) -> Listener<'_> {
        self.wake.listen()
    }

    /// A round begins: what the flusher was asked for is its own affair from now on.
    pub(crate) fn take(&self) -> FlusherWork {
        self.background.swap(false, Ordering::AcqRel);
        std::mem::take(&mut *lock(&self.work))
    }

    /// Whether all that is dirty is to be written.
    pub(crate) fn wants_all(&self) -> bool {
        lock(&self.work).all
    }

    /// What to do after a round, in vain or not. Writers that ask are at a limit, perhaps for pages
    /// that were not there yet when the round looked.
    pub(crate) fn after_round(&self, in_vain: bool) -> AfterRound {
        if self.background.load(Ordering::Acquire) {
            return AfterRound::Again;
        }
        match *lock(&self.work) == FlusherWork::default() {
            true => AfterRound::Rest,
            false if in_vain => AfterRound::RestInVain,
            false => AfterRound::Again,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn writers_who_ask_are_heeded_after_a_round_in_vain_and_reclaim_waits() {
        let requests = FlusherRequests::new();
        assert_eq!(requests.after_round(true), AfterRound::Rest);
        requests.ask(FlusherWork {
            all: true,
            pages: 3,
            retry: false,
        });
        assert_eq!(requests.after_round(false), AfterRound::Again);
        assert_eq!(requests.after_round(true), AfterRound::RestInVain);
        requests.ask_for_background();
        assert_eq!(requests.after_round(true), AfterRound::Again);
        assert!(requests.wants_all());
        assert_eq!(requests.take().pages, 3);
        assert!(!requests.wants_all());
        assert_eq!(requests.after_round(true), AfterRound::Rest);
    }
}
