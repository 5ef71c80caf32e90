//! The jobs in flight of one client: a fixed number of futures, made when the client comes and used
//! again and again, with buffers from its share of the pool.

use crate::error::BlockError;
use crate::job::{Finished, Job};
use crate::pool::{Buffer, Share};
use crate::wake_fd::WakeFd;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Jobs of one client that are under way at once.
pub const SLOTS: usize = 64;

/// A fixed number of slots for jobs. Every slot is free, running or finished. While a job runs, it
/// has the buffer.
///
/// A front takes a slot, puts the bytes to be written into its buffer and starts the job. Either
/// the job ends at once, or its waker wakes the descriptor later and the front polls it. After that
/// the buffer has the bytes that were read, until the slot is released.
pub struct Slots<M, F> {
    make: M,
    futures: Vec<Pin<Box<Option<F>>>>,
    /// The buffers of slots that do not run; empty if a slot has none.
    buffers: Vec<Buffer>,
    share: Share,
    wakers: Vec<Waker>,
    /// Bit set of the free slots.
    free: u64,
}

impl<M, F> Slots<M, F>
where
    M: Fn(Job, Buffer) -> F,
    F: Future<Output = Finished>,
{
    /// Slots whose futures `make` makes. They wake `wake_fd` when one of them can continue.
    pub fn new(make: M, wake_fd: &Arc<WakeFd>, share: Share) -> Slots<M, F> {
        Slots {
            make,
            futures: (0..SLOTS).map(|_| Box::pin(None)).collect(),
            buffers: (0..SLOTS).map(|_| Buffer::default()).collect(),
            share,
            wakers: (0..SLOTS as u32)
                .map(|number| wake_fd.waker(number))
                .collect(),
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

    /// Takes a free slot with a buffer for `bytes`, if there are both.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let slot = self.free.trailing_zeros() as usize;
        if slot >= SLOTS {
            return None;
        }
        // If this waker wakes too often, the front only polls a slot that does not run.
        self.buffers[slot] = self.share.take(bytes, &self.wakers[slot])?;
        self.free &= self.free.wrapping_sub(1);
        Some(slot)
    }

    /// The bytes of a slot that does not run; empty if it has no buffer.
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    /// Begins `job` and runs it as far as it gets at once, as [`Slots::poll`] does.
    pub fn start(&mut self, slot: usize, job: Job) -> Option<Result<usize, BlockError>> {
        let buffer = std::mem::take(&mut self.buffers[slot]);
        let future = (self.make)(job, buffer);
        self.futures[slot].as_mut().set(Some(future));
        self.poll(slot)
    }

    /// Continues a slot, if it runs. When the job ends, returns how many bytes for the client are
    /// in the buffer, or the error. A buffer without bytes for the client goes back to the pool.
    pub fn poll(&mut self, slot: usize) -> Option<Result<usize, BlockError>> {
        let mut future = self.futures[slot].as_mut();
        let running = future.as_mut().as_pin_mut()?;
        let mut context = Context::from_waker(&self.wakers[slot]);
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

    /// Frees a slot.
    pub fn release(&mut self, slot: usize) {
        self.share.put(std::mem::take(&mut self.buffers[slot]));
        self.free |= 1 << slot;
    }

    /// Gives back the share of the pool. Running jobs are broken off.
    pub fn into_share(mut self) -> Share {
        for buffer in self.buffers {
            self.share.put(buffer);
        }
        self.share
    }
}
