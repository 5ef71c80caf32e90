//! A gate for every call that changes data. It is closed before the last write-back, so that
//! nothing is acknowledged that would not be written.

use forebay_base::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use forebay_rt::wait::WaitQueue;

/// A bit above the count of calls inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The gate, and how many calls are inside.
#[derive(Debug, Default)]
pub(crate) struct ChangeGate {
    state: AtomicUsize,
    left: WaitQueue,
}

/// A call inside.
#[derive(Debug)]
pub(crate) struct Inside(Arc<ChangeGate>);

impl ChangeGate {
    /// Lets a call in, unless the gate is closed.
    pub(crate) fn enter(self: &Arc<ChangeGate>) -> Option<Inside> {
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        let inside = Inside(self.clone());
        (before & CLOSED == 0).then_some(inside)
    }

    /// Lets no call in from now on, and returns when all have left.
    pub(crate) async fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        loop {
            let left = self.left.listen();
            if self.state.load(Ordering::Acquire) == CLOSED {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let before = self.0.state.fetch_sub(1, Ordering::AcqRel);
        if before == CLOSED + 1 {
            self.0.left.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn it_closes_when_the_last_one_has_left() {
        let gate = Arc::new(ChangeGate::default());
        let inside = gate.enter().expect("it is open");
        let mut closing = pin!(gate.close());
        let mut context = Context::from_waker(Waker::noop());
        assert!(closing.as_mut().poll(&mut context).is_pending());
        assert!(gate.enter().is_none());
        drop(inside);
        assert!(closing.as_mut().poll(&mut context).is_ready());
    }
}
