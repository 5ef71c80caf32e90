//! Entering from an ordinary thread.

use crate::alarm::Inside;
use crate::driver::{self, Deeper};
use crate::own_thread::is_own_thread;
use crate::park::Parker;
use forebay_base::Span;
#[cfg(shuttle)]
use shuttle::thread_local;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a thread keeps from one [`block_on`] to the next, so that each thread allocates only once.
struct Entry {
    parker: Arc<Parker>,
    waker: Waker,
}

#[cfg(not(loom))]
thread_local! {
    static ENTRY: Cell<Option<Entry>> = const { Cell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static ENTRY: Cell<Option<Entry>> = Cell::new(None);
}

/// Polls `future` on this thread until it is ready, and sleeps in between: in a driver
/// ([`crate::driver`]) while it has one, so that it waits for its own requests itself. A future
/// that is ready at once is one poll: no other thread, no lock, and no allocation except the first
/// time.
///
/// It panics if it would sleep on a thread of a runtime, whose tasks would have to wake it.
///
/// ```
/// assert_eq!(forebay_rt::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Taken out, not borrowed: a `block_on` inside this one must not consume its wake-ups.
    let entry = ENTRY.with(Cell::take).unwrap_or_else(Entry::new);
    let mut context = Context::from_waker(&entry.waker);
    let inside = Inside::enter(&entry.waker);
    let deeper = Deeper::enter();
    let output = loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => break output,
            Poll::Pending => {
                assert!(
                    !is_own_thread(),
                    "a call that blocks would stop the threads of the runtime, which have to end \
                     it: await the call here, or make it on a thread of your own"
                );
                entry.sleep(&inside);
                inside.pass_due();
            }
        }
    };
    drop(deeper);
    drop(inside);
    ENTRY.with(|kept| kept.set(Some(entry)));
    output
}

impl Entry {
    /// Sleeps until the token is there, an alarm is due, or what a future of this thread waits for
    /// has come in at its driver.
    fn sleep(&self, inside: &Inside) {
        let longest = || {
            if driver::has_turned() {
                Some(Span::ZERO)
            } else {
                inside.time_left()
            }
        };
        while let Some(lent) = driver::lent_and_at_work() {
            if self.parker.park_in(&lent, longest()) {
                return;
            }
        }
        self.parker.park_for(longest());
    }

    fn new() -> Entry {
        let parker = Arc::new(Parker::of_this_thread());
        Entry {
            waker: Waker::from(Arc::clone(&parker)),
            parker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Slot;

    #[test]
    fn an_inner_call_leaves_the_outer_wake_up_alone() {
        let outer = Slot::new();
        let waited = std::future::poll_fn(|context| {
            // The wake-up of the outer future comes while the inner one runs.
            context.waker().wake_by_ref();
            let inner = Slot::new();
            inner.set(1);
            let one = block_on(inner.take());
            if outer.is_set() {
                return Poll::Ready(one + block_on(outer.take()));
            }
            outer.set(2);
            Poll::Pending
        });
        assert_eq!(block_on(waited), 3);
    }

    #[test]
    fn a_task_that_would_block_its_thread_is_refused() {
        let rt = crate::Rt::real();
        let slot = Arc::new(Slot::new());
        let never = Arc::clone(&slot);
        let task = rt.spawn("blocks", async move {
            assert_eq!(block_on(async { 6 }), 6, "what is ready blocks nobody");
            block_on(never.take());
        });
        let joined =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(task.join())));
        let reason = joined.expect_err("it would sleep for ever");
        let reason = reason.downcast_ref::<&str>().expect("a message");
        assert!(reason.contains("await the call here"), "{reason}");
        slot.set(());
    }

    #[test]
    fn a_wake_up_from_another_thread_ends_the_wait() {
        let slot = Arc::new(Slot::new());
        let setter = Arc::clone(&slot);
        let joiner = crate::thread::spawn("setter", move || setter.set(5)).expect("a thread");
        assert_eq!(block_on(slot.take()), 5);
        joiner.join();
    }
}
