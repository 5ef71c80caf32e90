//! A ring that goes from one thread to another.

use super::ring::{Answer, Ring};
use crate::error::Failure;
use crate::transfer::Transfer;
use forebay_rt::driver::DriverWaker;
use io_uring::IoUring;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Most requests in one ring.
const DEPTH: usize = 32;
/// Most pages of a request in a ring. A longer request takes so long that a switch of threads costs
/// nothing in comparison.
pub(super) const MOST_PAGES: usize = 32;
/// The waker's number among the descriptors that a ring watches.
const WAKER: u32 = 0;

/// Ends the sleep of a thread in its ring. The event counter is never read: each ring is a separate
/// event.
pub(super) struct RingWaker(OwnedFd);

impl DriverWaker for RingWaker {
    fn wake(&self) {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1_u64.to_ne_bytes()))
            .expect("an event counter takes one more: it holds almost 2^64");
    }
}

/// A ring that goes from one thread to another, and its waker.
pub(crate) struct ThreadRing {
    pub(super) ring: Ring,
    pub(super) waker: Arc<RingWaker>,
}

/// A transfer that has ended; or one that was cancelled before it began.
pub(super) type Ended = Result<(Transfer, Result<(), Failure>), Transfer>;

impl ThreadRing {
    pub(super) fn new() -> std::io::Result<ThreadRing> {
        let entries = DEPTH as u32 + 1;
        let uring = IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut ring = Ring::new(uring, DEPTH, MOST_PAGES, None);
        ring.watch(event.as_fd(), WAKER, true);
        Ok(ThreadRing {
            ring,
            waker: Arc::new(RingWaker(event)),
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ring.in_flight() == 0
    }

    /// Submits new entries to the kernel without waiting for them.
    pub(super) fn submit(&self) {
        self.ring.submit();
    }

    /// The next request that has ended, if one has.
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        loop {
            match self.ring.next_answer()? {
                Answer::Ended(transfer, result) => return Some(Ok((transfer, result))),
                Answer::NotHere(transfer) => return Some(Err(transfer)),
                Answer::Ready { is_over: true, .. } => {
                    self.ring.watch(self.waker.0.as_fd(), WAKER, true);
                }
                Answer::Ready { is_over: false, .. } => {}
            }
        }
    }
}

impl AsFd for ThreadRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
