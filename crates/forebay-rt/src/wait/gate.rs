//! A door that is open or closed.

use super::WaitQueue;
use forebay_base::sync::atomic::{AtomicBool, Ordering};

/// Lets all callers through while it is open and makes them wait while it is closed.
///
/// ```
/// use forebay_rt::{block_on, wait::Gate};
/// let gate = Gate::new(false);
/// gate.open();
/// block_on(gate.wait());
/// ```
#[derive(Debug)]
pub struct Gate {
    open: AtomicBool,
    opened: WaitQueue,
}

impl Gate {
    /// A gate that starts open or closed.
    pub fn new(open: bool) -> Gate {
        Gate {
            open: AtomicBool::new(open),
            opened: WaitQueue::new(),
        }
    }

    /// Ready once the gate is open. A caller that waits when it opens passes, even if it is closed
    /// again before that caller runs.
    pub async fn wait(&self) {
        if self.is_open() {
            return;
        }
        let opened = self.opened.listen();
        if self.is_open() {
            return;
        }
        opened.await;
    }

    /// Opens the gate and lets all waiters through; returns how many.
    pub fn open(&self) -> usize {
        self.open.store(true, Ordering::Release);
        self.opened.wake_all()
    }

    /// Closes the gate for those that come later.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }

    /// Whether the gate is open. It may have changed when the caller looks at it.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}
