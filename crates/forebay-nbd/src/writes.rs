//! The writes that one connection may still carry out, as seen by the connections after it.
//!
//! A client whose connection ended comes back and writes to the same places. By then its old writes
//! must be over; otherwise they could overwrite the new ones.

use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::Gate;
use forebay_rt::{Rt, block_on};
use std::task::Waker;

/// The writes of one connection: those that were begun, and those yet to begin.
///
/// invariant N5: once they are over, no request of this connection changes a byte.
#[derive(Debug)]
pub(crate) struct Writes {
    over: Gate,
    are_called_off: AtomicBool,
    /// Wakes the thread of the connection.
    waker: Mutex<Option<Waker>>,
}

impl Writes {
    pub(crate) fn new() -> Writes {
        Writes {
            over: Gate::new(false),
            are_called_off: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Sets what wakes the connection. Once woken, it looks at [`Writes::are_called_off`].
    pub(crate) fn set_waker(&self, waker: Waker) {
        *lock(&self.waker) = Some(waker);
    }

    pub(crate) fn are_called_off(&self) -> bool {
        self.are_called_off.load(Ordering::Acquire)
    }

    /// Records that they are over.
    pub(crate) fn end(&self) {
        if !self.over.is_open() {
            self.over.open();
        }
    }

    pub(crate) fn are_over(&self) -> bool {
        self.over.is_open()
    }

    /// Returns once they are over. Writes that are not over after `patience` are broken off.
    pub(crate) fn await_end(&self, patience: Span) {
        if block_on(Rt::real().timeout(patience, self.over.wait())).is_ok() {
            return;
        }
        self.call_off();
        // The connection waits only for its waker and its client.
        block_on(self.over.wait());
    }

    fn call_off(&self) {
        // Under the lock, so that a connection that sets its waker later still sees it.
        let waker = lock(&self.waker);
        self.are_called_off.store(true, Ordering::Release);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    struct Ends(Arc<Writes>);

    impl Wake for Ends {
        fn wake(self: Arc<Self>) {
            assert!(self.0.are_called_off());
            self.0.end();
        }
    }

    #[test]
    fn those_that_last_are_called_off_and_those_that_end_are_not() {
        let brief = Writes::new();
        brief.end();
        brief.await_end(Span::from_secs(600));
        assert!(brief.are_over() && !brief.are_called_off());

        let lasting = Arc::new(Writes::new());
        lasting.set_waker(Arc::new(Ends(lasting.clone())).into());
        lasting.await_end(Span::from_millis(1));
        assert!(lasting.are_over() && lasting.are_called_off());
    }
}
