//! What the requests of one connection may still change, as the connections after it see that.
//!
//! A client whose connection ended comes again and writes to the same places. What it asked for
//! before is to be over by then, or it would land on top.

use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::Gate;
use forebay_rt::{Rt, block_on};
use std::task::Waker;

/// The writes of one connection: begun, or still to begin.
///
/// invariant N5: once they are over, nothing that was asked over this connection changes a byte.
#[derive(Debug)]
pub(crate) struct Writes {
    over: Gate,
    are_called_off: AtomicBool,
    /// Wakes the thread of the connection.
    bell: Mutex<Option<Waker>>,
}

impl Writes {
    pub(crate) fn new() -> Writes {
        Writes {
            over: Gate::new(false),
            are_called_off: AtomicBool::new(false),
            bell: Mutex::new(None),
        }
    }

    /// What wakes the connection, which looks at [`Writes::are_called_off`] afterwards.
    pub(crate) fn set_bell(&self, bell: Waker) {
        *lock(&self.bell) = Some(bell);
    }

    pub(crate) fn are_called_off(&self) -> bool {
        self.are_called_off.load(Ordering::Acquire)
    }

    /// Says that they are over.
    pub(crate) fn end(&self) {
        if !self.over.is_open() {
            self.over.open();
        }
    }

    pub(crate) fn are_over(&self) -> bool {
        self.over.is_open()
    }

    /// Returns when they are over. Those that are not after `patience` are broken off.
    pub(crate) fn await_end(&self, patience: Span) {
        if block_on(Rt::real().timeout(patience, self.over.wait())).is_ok() {
            return;
        }
        self.call_off();
        // A connection waits for its bell or its client and for nothing else.
        block_on(self.over.wait());
    }

    fn call_off(&self) {
        // Under the lock, so that a connection whose bell comes later sees it when it begins.
        let bell = lock(&self.bell);
        self.are_called_off.store(true, Ordering::Release);
        if let Some(bell) = &*bell {
            bell.wake_by_ref();
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
        lasting.set_bell(Arc::new(Ends(lasting.clone())).into());
        lasting.await_end(Span::from_millis(1));
        assert!(lasting.are_over() && lasting.are_called_off());
    }
}
