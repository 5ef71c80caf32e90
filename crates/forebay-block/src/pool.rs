//! The buffers of all clients: those that they share, and the one that each has for itself.
//!
//! All buffers are made once and used again. Each client has one large buffer for itself, so it
//! makes progress whatever the others do. A client may hold as many shared buffers as are left for
//! others. So one client alone gets half of them, and clients that do not read their answers, and
//! so keep their buffers, never get all.
//!
//! No client waits for shared buffers only: a client that finds none is using its own buffer, and
//! tries again when that one is free. Being woken when a shared buffer is given back only makes it
//! faster.

use forebay_base::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// Most bytes that one job carries.
pub const PIECE_BYTES: usize = 64 << 10;
/// Bytes of a small buffer: most random requests fit into one.
pub const SMALL_BYTES: usize = 8 << 10;
/// One part in this many of the shared bytes is small buffers.
const SMALL_PART: usize = 4;

/// The bytes of one job; empty for a job that needs none.
pub type Buffer = Box<[u8]>;

/// Shared by the clients of one front.
#[derive(Debug)]
pub struct Pool {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    small: Vec<Buffer>,
    large: Vec<Buffer>,
    /// Large buffers of clients that are gone, for new clients.
    reserves: Vec<Buffer>,
    /// Clients that found no buffer, the longest waiting first.
    waiting: VecDeque<(u64, Waker)>,
    has_come: u64,
}

impl State {
    fn shelf(&mut self, is_small: bool) -> &mut Vec<Buffer> {
        if is_small {
            &mut self.small
        } else {
            &mut self.large
        }
    }
}

impl Pool {
    /// A pool of `shared_bytes`, in addition to the [`PIECE_BYTES`] that each client has for
    /// itself.
    ///
    /// ```
    /// use forebay_block::{PIECE_BYTES, Pool};
    /// use std::{sync::Arc, task::Waker};
    /// let mut share = Arc::new(Pool::new(0)).enter();
    /// let own = share.take(PIECE_BYTES, Waker::noop()).expect("each client has one");
    /// assert!(share.take(1, Waker::noop()).is_none());
    /// share.put(own);
    /// ```
    pub fn new(shared_bytes: usize) -> Pool {
        let small = shared_bytes / SMALL_PART / SMALL_BYTES;
        let large = (shared_bytes - small * SMALL_BYTES) / PIECE_BYTES;
        let shelf = |count, bytes| (0..count).map(|_| new_buffer(bytes)).collect();
        Pool {
            state: Mutex::new(State {
                small: shelf(small, SMALL_BYTES),
                large: shelf(large, PIECE_BYTES),
                reserves: Vec::new(),
                waiting: VecDeque::new(),
                has_come: 0,
            }),
        }
    }

    /// A new client's share of the buffers. The buffer of an earlier client is used again.
    pub fn enter(self: &Arc<Pool>) -> Share {
        let mut state = lock(&self.state);
        state.has_come += 1;
        let (number, found) = (state.has_come, state.reserves.pop());
        drop(state);
        Share {
            pool: self.clone(),
            number,
            reserve: Some(found.unwrap_or_else(|| new_buffer(PIECE_BYTES))),
            held: [0; 2],
        }
    }
}

/// One client's share of the buffers. Dropping it gives everything back.
#[derive(Debug)]
pub struct Share {
    pool: Arc<Pool>,
    number: u64,
    reserve: Option<Buffer>,
    /// Shared buffers that this client has: large ones, small ones.
    held: [usize; 2],
}

impl Share {
    /// A buffer for `bytes`, at most [`PIECE_BYTES`]. `None` if the client's own buffer and the
    /// shared ones are in use; then `waker` wakes when one is given back.
    pub fn take(&mut self, bytes: usize, waker: &Waker) -> Option<Buffer> {
        debug_assert!(bytes <= PIECE_BYTES);
        if bytes == 0 {
            return Some(Buffer::default());
        }
        if let Some(buffer) = self.reserve.take() {
            return Some(buffer);
        }
        let mut state = lock(&self.pool.state);
        for is_small in [true, false] {
            if is_small && bytes > SMALL_BYTES {
                continue;
            }
            let shelf = state.shelf(is_small);
            if self.held[usize::from(is_small)] < shelf.len() {
                self.held[usize::from(is_small)] += 1;
                return shelf.pop();
            }
        }
        if !state.large.is_empty() {
            // Some are left, for clients that hold fewer; the first waiter looks again.
            let next = state.waiting.pop_front();
            drop(state);
            if let Some((_, waker)) = next {
                waker.wake();
            }
        } else if state
            .waiting
            .iter()
            .all(|(number, _)| *number != self.number)
        {
            state.waiting.push_back((self.number, waker.clone()));
        }
        None
    }

    /// Gives a buffer back.
    pub fn put(&mut self, buffer: Buffer) {
        if buffer.is_empty() {
            return;
        }
        let is_small = buffer.len() == SMALL_BYTES;
        if !is_small && self.reserve.is_none() {
            self.reserve = Some(buffer);
            return;
        }
        self.held[usize::from(is_small)] -= 1;
        let mut state = lock(&self.pool.state);
        state.shelf(is_small).push(buffer);
        // A client that gives one back looks again anyway.
        state.waiting.retain(|(number, _)| *number != self.number);
        let next = state.waiting.pop_front();
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        state.waiting.retain(|(number, _)| *number != self.number);
        // Jobs that were broken off took their buffers with them.
        let reserve = self.reserve.take();
        let reserve = reserve.unwrap_or_else(|| new_buffer(PIECE_BYTES));
        state.reserves.push(reserve);
        for (is_small, bytes) in [(false, PIECE_BYTES), (true, SMALL_BYTES)] {
            for _ in 0..self.held[usize::from(is_small)] {
                state.shelf(is_small).push(new_buffer(bytes));
            }
        }
    }
}

/// Not zeroed memory: the system would provide its pages only when they are first written.
fn new_buffer(bytes: usize) -> Buffer {
    vec![u8::MAX; bytes].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take_all(share: &mut Share, bytes: usize) -> Vec<Buffer> {
        std::iter::from_fn(|| share.take(bytes, Waker::noop())).collect()
    }

    #[test]
    fn a_client_that_keeps_all_it_gets_leaves_some_for_every_newcomer() {
        let pool = Arc::new(Pool::new(64 * PIECE_BYTES));
        let mut kept = Vec::new();
        for number in 0..5 {
            let mut share = pool.enter();
            let found = take_all(&mut share, PIECE_BYTES).len();
            assert!(
                found >= 2,
                "client {number} gets its own and one shared buffer, not {found}"
            );
            kept.push(share);
        }
    }

    #[test]
    fn a_single_client_has_half_of_the_buffers_and_small_requests_take_large_ones_too() {
        let pool = Arc::new(Pool::new(64 * PIECE_BYTES));
        let mut share = pool.enter();
        // A quarter of the bytes are 128 small buffers. Of 48 large ones the client gets half, and
        // its own one.
        let large = take_all(&mut share, PIECE_BYTES);
        assert_eq!(large.len(), 25);
        let small = take_all(&mut share, 1);
        assert_eq!(small.len(), 64);
        large
            .into_iter()
            .chain(small)
            .for_each(|buffer| share.put(buffer));
        assert_eq!(take_all(&mut share, 1).len(), 1 + 64 + 24);
    }

    #[test]
    fn clients_that_found_none_are_woken_one_for_each_buffer_that_comes_back() {
        let pool = Arc::new(Pool::new(2 * PIECE_BYTES));
        let mut holder = pool.enter();
        let held = take_all(&mut holder, PIECE_BYTES);
        assert_eq!(held.len(), 2, "its own, and the only large one");
        let wakers: [Arc<CountingWaker>; 2] = Default::default();
        let mut shares: Vec<Share> = (0..2).map(|_| pool.enter()).collect();
        for (share, waker) in shares.iter_mut().zip(&wakers) {
            let own = share
                .take(PIECE_BYTES, Waker::noop())
                .expect("its own is free");
            assert!(share.take(PIECE_BYTES, &waker.clone().into()).is_none());
            assert!(share.take(PIECE_BYTES, &waker.clone().into()).is_none());
            drop(own);
        }
        let woken = || {
            wakers
                .each_ref()
                .map(|waker| waker.0.load(Ordering::Relaxed))
        };
        let mut held = held.into_iter();
        holder.put(held.next().expect("two are held"));
        assert_eq!(woken(), [0, 0], "that one became the holder's own");
        holder.put(held.next().expect("two are held"));
        assert_eq!(woken(), [1, 0]);
        let found = shares[0]
            .take(PIECE_BYTES, Waker::noop())
            .expect("it came back");
        shares[0].put(found);
        assert_eq!(woken(), [1, 0], "it became the first one's own");
    }

    #[test]
    fn the_buffers_of_a_client_that_is_gone_are_used_again() {
        let pool = Arc::new(Pool::new(8 * PIECE_BYTES));
        let count = || {
            let mut share = pool.enter();
            take_all(&mut share, 1).len()
        };
        let before = count();
        for _ in 0..3 {
            assert_eq!(count(), before);
        }
        assert_eq!(lock(&pool.state).reserves.len(), 1, "used again and again");
    }
}
