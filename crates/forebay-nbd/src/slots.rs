//! The requests in flight of one connection: a fixed number of futures and their buffers, made
//! when the client comes and used again and again.

use crate::alarm::Alarm;
use crate::job::{Finished, Job};
use crate::session::PIECE_BYTES;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Requests, or pieces of them, that a connection serves at once.
pub(crate) const SLOTS: usize = 64;

/// The bytes of one piece.
pub(crate) type Buffer = Box<[u8]>;

/// Every slot is free, running or finished; the buffer is with the future while it runs.
pub(crate) struct Slots<M, F> {
    make: M,
    futures: Vec<Pin<Box<Option<F>>>>,
    buffers: Vec<Option<Buffer>>,
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
    pub(crate) fn new(make: M, alarm: &Arc<Alarm>) -> Slots<M, F> {
        Slots {
            make,
            futures: (0..SLOTS).map(|_| Box::pin(None)).collect(),
            buffers: (0..SLOTS).map(|_| Some(new_buffer())).collect(),
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

    /// Takes the lowest free slot: its buffer is the one that was used last.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let slot = self.free.trailing_zeros() as usize;
        self.free &= self.free.wrapping_sub(1);
        (slot < SLOTS).then_some(slot)
    }

    /// The bytes of a slot that does not run.
    pub(crate) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers[slot]
            .as_deref_mut()
            .expect("a slot that does not run has its buffer")
    }

    /// Begins `job` and goes as far as it can go at once.
    pub(crate) fn start(&mut self, slot: usize, job: Job) -> Option<Finished> {
        let buffer = self.buffers[slot]
            .take()
            .expect("a slot that does not run has its buffer");
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

    /// Puts the buffer of a finished job back into its slot.
    pub(crate) fn put_buffer(&mut self, slot: usize, buffer: Buffer) {
        self.buffers[slot] = Some(buffer);
    }

    /// Makes a slot free again.
    pub(crate) fn release(&mut self, slot: usize) {
        debug_assert!(self.buffers[slot].is_some());
        self.free |= 1 << slot;
    }
}

fn new_buffer() -> Buffer {
    vec![0; PIECE_BYTES].into_boxed_slice()
}
