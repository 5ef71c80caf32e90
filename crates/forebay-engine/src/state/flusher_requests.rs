//! What a store's flusher is asked for, and how it notices.
//!
//! invariant R1: a caller that makes something ready to write and then asks needs no other wake-up:
//! the flusher has yet to look, or is woken, or finds the request before it rests.

use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use forebay_rt::wait::{Listener, WaitQueue};

/// What reclaim has asked a flusher to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlusherWork {
    /// A reclaimer found only dirty pages: write all.
    pub all: bool,
    /// A reclaimer has looked at this many pages in vain: write as many.
    pub pages: u64,
    /// Writes that failed may be tried again.
    pub retry: bool,
}

/// The requests that a flusher has not taken up yet.
#[derive(Debug)]
pub struct FlusherRequests {
    /// Too much is dirty: write until it is not.
    background: AtomicBool,
    work: Mutex<FlusherWork>,
    wake: WaitQueue,
}

/// What a flusher does after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRound {
    /// Looks again: it was asked for something since the round began.
    Again,
    /// Waits: reclaim still asks, but the last round wrote nothing.
    RestInVain,
    /// Rests: nobody has asked for anything.
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

    /// Asks for background writing. The request is ordered after what the caller made dirty and
    /// before the flusher's next look, so that one of the two sees the other.
    pub fn ask_for_background(&self) {
        if !self.background.swap(true, Ordering::AcqRel) {
            self.wake.wake_all();
        }
    }

    /// Asks for other work.
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

    /// Call it before looking at what there is to do, and await it after that.
    pub(crate) fn listen(&self) -> Listener<'_> {
        self.wake.listen()
    }

    /// A round begins and takes over what the flusher was asked for.
    pub(crate) fn take(&self) -> FlusherWork {
        self.background.swap(false, Ordering::AcqRel);
        std::mem::take(&mut *lock(&self.work))
    }

    /// Whether all that is dirty is to be written.
    pub(crate) fn wants_all(&self) -> bool {
        lock(&self.work).all
    }

    /// What to do after a round, in vain or not. A writer that asks is at a limit, perhaps because
    /// of pages that were not dirty yet when the round looked.
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
    fn writers_that_ask_are_served_after_a_round_in_vain_and_reclaim_waits() {
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
