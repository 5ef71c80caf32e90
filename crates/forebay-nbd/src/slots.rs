//! The requests in flight of one connection: a fixed number of futures, made when the client comes
//! and used again and again, with buffers out of its share of the pool.

use crate::alarm::Alarm;
use crate::job::{Finished, Job};
use crate::pool::{Buffer, Share};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Requests, or pieces of them, that a connection serves at once.
pub(crate) const SLOTS: usize = 64;

/// Every slot is free, running or finished; the buffer is with the future while it runs.
pub(crate) struct Slots<M, F> {
    make: M,
    futures: Vec<Pin<Box<Option<F>>>>,
    /// Those of the slots that do not run; empty where there is none.
    buffers: Vec<Buffer>,
    share: Share,
    bells: Vec<Waker>,
    /// Bit set of the slots that nobody uses.
    free: u64,
}

impl<M, F> Slots<M, F>
where
    M: Fn(Job, Buffer) -> F,
    F: Future<Output = Finished>,
{
    /// Slots whose futures `make` makes and that ring on `alarm` when one can go on.
    pub(crate) fn new(make: M, alarm: &Arc<Alarm>, share: Share) -> Slots<M, F> {
        Slots {
            make,
            futures: (0..SLOTS).map(|_| Box::pin(None)).collect(),
            buffers: (0..SLOTS).map(|_| Buffer::default()).collect(),
            share,
            bells: (0..SLOTS as u32).map(|bell| alarm.bell(bell)).collect(),
            free: u64::MAX,
        }
    }

    pub(crate) fn has_free(&self) -> bool {
        self.free != 0
    }

    /// Whether nothing runs and nothing waits to be answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.free == u64::MAX
    }

    /// Takes a free slot with a buffer for `bytes`, if both are to be had.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<usize> {
        let slot = self.free.trailing_zeros() as usize;
        if slot >= SLOTS {
            return None;
        }
        // A bell that rings for nothing is a look at a slot that does not run.
        self.buffers[slot] = self.share.take(bytes, &self.bells[slot])?;
        self.free &= self.free.wrapping_sub(1);
        Some(slot)
    }

    /// The bytes of a slot that does not run; none if it has no buffer.
    pub(crate) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    /// Begins `job` and goes as far as it can go at once.
    pub(crate) fn start(&mut self, slot: usize, job: Job) -> Option<Finished> {
        let buffer = std::mem::take(&mut self.buffers[slot]);
        let future = (self.make)(job, buffer);
        self.futures[slot].as_mut().set(Some(future));
        self.poll(slot)
    }

    /// Lets a slot go on, if it runs.
    pub(crate) fn poll(&mut self, slot: usize) -> Option<Finished> {
        let mut future = self.futures[slot].as_mut();
        let running = future.as_mut().as_pin_mut()?;
        let mut context = Context::from_waker(&self.bells[slot]);
        match running.poll(&mut context) {
            Poll::Pending => None,
            Poll::Ready(finished) => {
                future.set(None);
                Some(finished)
            }
        }
    }

    /// Puts the buffer of a finished job back into its slot, or into the pool if nothing in it is
    /// for the client.
    pub(crate) fn put_buffer(&mut self, slot: usize, buffer: Buffer, is_wanted: bool) {
        if is_wanted {
            self.buffers[slot] = buffer;
        } else {
            self.share.put(buffer);
        }
    }

    /// Makes a slot free again.
    pub(crate) fn release(&mut self, slot: usize) {
        self.share.put(std::mem::take(&mut self.buffers[slot]));
        self.free |= 1 << slot;
    }

    /// The share of the pool. What runs is broken off.
    pub(crate) fn into_share(mut self) -> Share {
        for buffer in self.buffers {
            self.share.put(buffer);
        }
        self.share
    }
}
