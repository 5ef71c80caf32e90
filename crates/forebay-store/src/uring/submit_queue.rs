//! What the ring thread is asked to do, and how it is woken.

use super::thread_ring::ThreadRing;
use crate::io::Memory;
use crate::transfer::{Addressed, IoVector, Transfer};
use forebay_base::sync::{Mutex, lock};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Requests and news for the ring thread.
///
/// The ring thread is woken only while it sleeps, once for each sleep: under load, requests are
/// taken over in batches, and no system call is spent to announce them.
pub(crate) struct SubmitQueue {
    content: Mutex<Content>,
    wake_fd: OwnedFd,
}

struct Content {
    submissions: Submissions,
    stop: bool,
    asleep: bool,
}

/// What is left for the ring thread.
pub(crate) struct Submissions {
    pub(crate) requests: VecDeque<Addressed>,
    /// Requests that were begun elsewhere and could not be carried out there.
    pub(crate) begun: Vec<Transfer>,
    /// Rings of threads that went on, with what is under way there.
    pub(crate) rings: Vec<ThreadRing>,
    pub(crate) memory: Vec<MemoryNews>,
}

impl Submissions {
    /// Nothing, with room for so many requests.
    pub(crate) fn with_room(requests: usize) -> Submissions {
        Submissions {
            requests: VecDeque::with_capacity(requests),
            begun: Vec::new(),
            rings: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
            && self.begun.is_empty()
            && self.rings.is_empty()
            && self.memory.is_empty()
    }

    /// Moves everything of `other` to the ends.
    fn append(&mut self, other: &mut Submissions) {
        if self.requests.is_empty() {
            std::mem::swap(&mut self.requests, &mut other.requests);
        } else {
            self.requests.append(&mut other.requests);
        }
        self.begun.append(&mut other.begun);
        self.rings.append(&mut other.rings);
        self.memory.append(&mut other.memory);
    }
}

/// A change of the memory from which requests come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryNews {
    /// These bytes will be used often.
    Use(MemoryRange),
    /// These bytes may be unmapped from now on.
    Forget(MemoryRange),
}

/// A range of memory, and its number in requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryRange {
    pub(crate) start: usize,
    pub(crate) length_bytes: usize,
    pub(crate) number: u64,
}

impl MemoryRange {
    pub(crate) fn of(memory: &Memory) -> MemoryRange {
        MemoryRange {
            start: memory.base().as_ptr().expose_provenance(),
            length_bytes: memory.length_bytes(),
            number: memory.number(),
        }
    }

    pub(crate) fn vector(self) -> IoVector {
        IoVector {
            base: std::ptr::with_exposed_provenance_mut(self.start),
            length_bytes: self.length_bytes,
        }
    }
}

/// What was found in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Something was taken.
    Some,
    /// Nothing, and more will come. A wake-up will announce it.
    Nothing,
    /// Nothing, and nothing will come any more.
    End,
}

impl SubmitQueue {
    pub(crate) fn new(capacity: usize) -> Result<SubmitQueue, Errno> {
        Ok(SubmitQueue {
            content: Mutex::new(Content {
                submissions: Submissions::with_room(capacity),
                stop: false,
                asleep: false,
            }),
            wake_fd: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
        })
    }

    /// The event counter that becomes readable when the ring thread should look here. It is never
    /// read: each wake-up is an event of its own.
    pub(crate) fn wake_fd(&self) -> &OwnedFd {
        &self.wake_fd
    }

    pub(crate) fn push(&self, request: Addressed) {
        self.put(|content| content.submissions.requests.push_back(request));
    }

    pub(crate) fn push_memory(&self, news: MemoryNews) {
        self.put(|content| content.submissions.memory.push(news));
    }

    /// Leaves a request that was begun elsewhere.
    pub(crate) fn push_begun(&self, transfer: Transfer) {
        self.put(|content| content.submissions.begun.push(transfer));
    }

    /// Leaves the ring of a thread that goes on.
    pub(crate) fn push_ring(&self, ring: ThreadRing) {
        self.put(|content| content.submissions.rings.push(ring));
    }

    /// Lets the ring thread look around.
    pub(crate) fn nudge(&self) {
        self.put(|_| {});
    }

    /// Lets the ring thread end once it has finished everything.
    pub(crate) fn stop(&self) {
        self.put(|content| content.stop = true);
    }

    fn put(&self, what: impl FnOnce(&mut Content)) {
        let wake = {
            let mut content = lock(&self.content);
            what(&mut content);
            std::mem::take(&mut content.asleep)
        };
        if wake {
            rustix::io::retry_on_intr(|| rustix::io::write(&self.wake_fd, &1_u64.to_ne_bytes()))
                .expect("an event counter takes one more: 2^64 would have to come before");
        }
    }

    /// Moves everything to the end of `submissions`. If there was nothing, the caller counts as
    /// asleep until [`SubmitQueue::wake_up`].
    pub(crate) fn take(&self, submissions: &mut Submissions) -> Found {
        let mut content = lock(&self.content);
        if content.submissions.is_empty() {
            content.asleep = true;
            return if content.stop {
                Found::End
            } else {
                Found::Nothing
            };
        }
        submissions.append(&mut content.submissions);
        Found::Some
    }

    /// Marks the ring thread as awake: it will look here before it sleeps again.
    pub(crate) fn wake_up(&self) {
        lock(&self.content).asleep = false;
    }
}
