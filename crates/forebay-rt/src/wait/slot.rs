//! One value on its way from one place to another.

use forebay_base::sync::{Mutex, lock};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A place for one value: one side sets it, the other side waits for it and takes it. After that
/// the slot is empty again and may be used for the next one.
///
/// ```
/// use forebay_rt::{block_on, wait::Slot};
/// let slot = Slot::new();
/// slot.set(7);
/// assert_eq!(block_on(slot.take()), 7);
/// ```
#[derive(Debug)]
pub struct Slot<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    taker: Option<Waker>,
    /// Which taker the waker belongs to; grows by one for each that begins to wait.
    ticket: u64,
}

impl<T> State<T> {
    fn is_waited_for_by(&self, ticket: Option<u64>) -> bool {
        self.taker.is_some() && ticket == Some(self.ticket)
    }
}

impl<T> Slot<T> {
    /// An empty slot.
    pub fn new() -> Slot<T> {
        Slot {
            state: Mutex::new(State {
                value: None,
                taker: None,
                ticket: 0,
            }),
        }
    }

    /// Puts `value` in and wakes the taker that waits for it.
    ///
    /// # Panics
    /// If a value is there already: it would be lost.
    pub fn set(&self, value: T) {
        let (refused, taker) = {
            let mut state = lock(&self.state);
            if state.value.is_some() {
                (true, None)
            } else {
                state.value = Some(value);
                (false, state.taker.take())
            }
        };
        assert!(
            !refused,
            "a slot was set twice before its value was taken; set each slot once"
        );
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Ready with the value once it is there. Only one taker may wait at a time.
    ///
    /// # Panics
    /// When polled, if another taker waits already.
    pub fn take(&self) -> Take<'_, T> {
        Take {
            slot: self,
            ticket: None,
        }
    }

    /// The value if it is there now.
    pub fn try_take(&self) -> Option<T> {
        lock(&self.state).value.take()
    }

    /// Whether a value is there. It may have changed when the caller looks at it.
    pub fn is_set(&self) -> bool {
        lock(&self.state).value.is_some()
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot::new()
    }
}

/// Waits for the value of a [`Slot`]. Dropping it leaves the value to the next taker.
#[derive(Debug)]
#[must_use = "nothing is taken unless this is awaited"]
pub struct Take<'a, T> {
    slot: &'a Slot<T>,
    /// Given when it began to wait.
    ticket: Option<u64>,
}

impl<T> Future for Take<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let slot = self.slot;
        let mut state = lock(&slot.state);
        if let Some(value) = state.value.take() {
            return Poll::Ready(value);
        }
        let is_second = state.taker.is_some() && !state.is_waited_for_by(self.ticket);
        let mut replaced = None;
        if !is_second {
            replaced = state.taker.replace(context.waker().clone());
            state.ticket += 1;
            self.ticket = Some(state.ticket);
        }
        drop(state);
        drop(replaced);
        assert!(!is_second, "two wait for the value of one slot");
        Poll::Pending
    }
}

impl<T> Drop for Take<'_, T> {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let mut state = lock(&self.slot.state);
        let taker = if state.is_waited_for_by(self.ticket) {
            state.taker.take()
        } else {
            None
        };
        drop(state);
        drop(taker);
    }
}
