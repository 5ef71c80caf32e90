//! Requests for the thread of a server, and how it is woken.

use super::pending::Pending;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_block::WakeFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// Requests that have come and that the thread has not looked at.
#[derive(Debug)]
pub(crate) struct Mail {
    letters: Mutex<VecDeque<Pending>>,
    pub(crate) wake_fd: Arc<WakeFd>,
    waker: Waker,
    /// Writes whose end their submitter surely knows.
    pub(crate) heard: AtomicU64,
    is_stopped: AtomicBool,
}

impl Mail {
    pub(crate) fn new(capacity: usize) -> Result<Mail, Errno> {
        let wake_fd = Arc::new(WakeFd::new()?);
        Ok(Mail {
            letters: Mutex::new(VecDeque::with_capacity(capacity)),
            waker: wake_fd.waker(0),
            wake_fd,
            heard: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn post(&self, pending: Pending) {
        lock(&self.letters).push_back(pending);
        self.waker.wake_by_ref();
    }

    /// Moves what came to the end of `backlog`; it came at `now`.
    pub(crate) fn take(&self, backlog: &mut VecDeque<Pending>, now: Span) {
        if self.wake_fd.take() == 0 {
            return;
        }
        let mut letters = lock(&self.letters);
        for letter in &mut *letters {
            letter.since = now;
        }
        backlog.append(&mut letters);
    }

    /// Lets the thread end once it has finished everything.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}
