//! What the ring thread is asked to do, and how it is woken.

use crate::io::PagePointer;
use crate::transfer::Addressed;
use forebay_base::sync::{Mutex, lock};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Requests and news for the ring thread.
///
/// The bell is rung only for a thread that sleeps, once for each sleep: under load, requests are
/// taken over in batches, and no system call is spent to announce them.
pub(crate) struct Inbox {
    content: Mutex<Content>,
    bell: OwnedFd,
}

struct Content {
    requests: VecDeque<Addressed>,
    memory: Vec<MemoryNews>,
    stop: bool,
    asleep: bool,
}

/// A change of the memory from which requests come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryNews {
    /// These bytes will be used often.
    Use(PagePointer, usize),
    /// These bytes may be unmapped from now on.
    Forget(PagePointer, usize),
}

/// What was found in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Something was taken.
    Some,
    /// Nothing, and more will come. The bell will ring.
    Nothing,
    /// Nothing, and nothing will come any more.
    End,
}

impl Inbox {
    pub(crate) fn new(capacity: usize) -> Result<Inbox, Errno> {
        Ok(Inbox {
            content: Mutex::new(Content {
                requests: VecDeque::with_capacity(capacity),
                memory: Vec::new(),
                stop: false,
                asleep: false,
            }),
            bell: rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
        })
    }

    /// The event counter that becomes readable when the ring thread should look here. It is never
    /// read: each ring is an event of its own.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(crate) fn push(&self, request: Addressed) {
        self.tell(|content| content.requests.push_back(request));
    }

    pub(crate) fn push_memory(&self, news: MemoryNews) {
        self.tell(|content| content.memory.push(news));
    }

    /// Lets the ring thread end once it has finished everything.
    pub(crate) fn stop(&self) {
        self.tell(|content| content.stop = true);
    }

    fn tell(&self, what: impl FnOnce(&mut Content)) {
        let wake = {
            let mut content = lock(&self.content);
            what(&mut content);
            std::mem::take(&mut content.asleep)
        };
        if wake {
            rustix::io::retry_on_intr(|| rustix::io::write(&self.bell, &1_u64.to_ne_bytes()))
                .expect("an event counter takes one more: 2^64 would have to come before");
        }
    }

    /// Moves everything to the ends of `requests` and `memory`. If there was nothing, the caller
    /// counts as asleep until [`Inbox::wake_up`].
    pub(crate) fn take(
        &self,
        requests: &mut VecDeque<Addressed>,
        memory: &mut Vec<MemoryNews>,
    ) -> Found {
        let mut content = lock(&self.content);
        if content.requests.is_empty() && content.memory.is_empty() {
            content.asleep = true;
            return if content.stop {
                Found::End
            } else {
                Found::Nothing
            };
        }
        if requests.is_empty() {
            std::mem::swap(requests, &mut content.requests);
        } else {
            requests.append(&mut content.requests);
        }
        memory.append(&mut content.memory);
        Found::Some
    }

    /// Marks the ring thread as awake: it will look here before it sleeps again.
    pub(crate) fn wake_up(&self) {
        lock(&self.content).asleep = false;
    }
}
