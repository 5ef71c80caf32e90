//! The jobs in flight of one client: a fixed number of futures, made when the client comes
//! and used again and again, with buffers out of its share of the pool.

use crate::alarm::Alarm;
use crate::error::BlockError;
use crate::job::{Finished, Job};
use crate::pool::{Buffer, Share};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Jobs of one client that are under way at once.
pub const SLOTS: usize = 64;

/// A fixed number of places for jobs. Every slot is free, running or finished; the buffer is with
/// the job while it runs.
///
/// A front takes a slot, puts what is to be written into its buffer and starts the job. It ends at
/// once, or its bell rings on the alarm and the front polls it. The buffer then has what was read,
/// until the slot is released.
pub struct Slots<M, F> {
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
    pub fn new(make: M, alarm: &Arc<Alarm>, share: Share) -> Slots<M, F> {
        Slots {
            make,
            futures: (0..SLOTS).map(|_| Box::pin(None)).collect(),
            buffers: (0..SLOTS).map(|_| Buffer::default()).collect(),
            share,
            bells: (0..SLOTS as u32).map(|bell| alarm.bell(bell)).collect(),
            free: u64::MAX,
        }
    }

    /// Whether a slot is free.
    pub fn has_free(&self) -> bool {
        self.free != 0
    }

    /// Whether no slot is taken.
    pub fn is_idle(&self) -> bool {
        self.free == u64::MAX
    }

    /// Takes a free slot with a buffer for `bytes`, if both are to be had.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
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
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    /// Begins `job` and goes as far as it can go at once: as [`Slots::poll`].
    pub fn start(&mut self, slot: usize, job: Job) -> Option<Result<usize, BlockError>> {
        let buffer = std::mem::take(&mut self.buffers[slot]);
        let future = (self.make)(job, buffer);
        self.futures[slot].as_mut().set(Some(future));
        self.poll(slot)
    }

    /// Lets a slot go on, if it runs. When the job ends: how many bytes for the client are in the
    /// buffer, or why it failed. A buffer with none is the pool's again.
    pub fn poll(&mut self, slot: usize) -> Option<Result<usize, BlockError>> {
        let mut future = self.futures[slot].as_mut();
        let running = future.as_mut().as_pin_mut()?;
        let mut context = Context::from_waker(&self.bells[slot]);
        let Poll::Ready(Finished { buffer, outcome }) = running.poll(&mut context) else {
            return None;
        };
        future.set(None);
        if matches!(outcome, Ok(length) if length > 0) {
            self.buffers[slot] = buffer;
        } else {
            self.share.put(buffer);
        }
        Some(outcome)
    }

    /// Makes a slot free again.
    pub fn release(&mut self, slot: usize) {
        self.share.put(std::mem::take(&mut self.buffers[slot]));
        self.free |= 1 << slot;
    }

    /// Gives the share of the pool back. What runs is broken off.
    pub fn into_share(mut self) -> Share {
        for buffer in self.buffers {
            self.share.put(buffer);
        }
        self.share
    }
}
