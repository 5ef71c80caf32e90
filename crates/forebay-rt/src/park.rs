//! One thread's sleep, ended by a token.

use crate::driver::{DriverWaker, Lent};
#[cfg(not(loom))]
use crate::thread::Stopwatch;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU8, Ordering};
use forebay_base::sync::{Mutex, lock};
use std::fmt;
use std::sync::Arc;
use std::task::Wake;
#[cfg(not(loom))]
use std::time::Duration;

#[cfg(shuttle)]
use crate::explored::threads::{self as thread, Thread};
#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(any(loom, shuttle)))]
use std::thread::{self, Thread};

/// How often a thread looks at the token before it sleeps, a few microseconds in all: waking a
/// sleeping thread costs more than that, and a device or the other processor often answers sooner.
/// A larger number only wastes the processor that the answer may need. On a machine with one
/// processor no other thread can run meanwhile, so the thread sleeps at once.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 128;

/// A wait with a shorter bound is a pause, not a wait for an answer, and nobody ends it sooner.
#[cfg(not(loom))]
const WAIT_FOR_ANSWER: Span = Span::from_secs(1);

/// There is no token; the thread runs, or sleeps until it is unparked.
const NONE: u8 = 0;
/// The token is there.
const GIVEN: u8 = 1;
/// There is no token, and the thread is about to sleep in a driver, or does.
const IN_DRIVER: u8 = 2;

/// A token and the thread that waits for it. A token given before the thread sleeps is kept.
pub(crate) struct Parker {
    token: AtomicU8,
    thread: Thread,
    /// Of the driver in which the thread slept last.
    waker: Mutex<Option<Arc<dyn DriverWaker>>>,
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Parker {
    /// A parker whose owner is the calling thread.
    pub(crate) fn of_this_thread() -> Parker {
        Parker {
            token: AtomicU8::new(NONE),
            thread: thread::current(),
            waker: Mutex::new(None),
        }
    }

    /// Returns once the token is there, and takes it. Only the owner may call this.
    pub(crate) fn park(&self) {
        if self.spin() {
            return;
        }
        while !self.take() {
            #[allow(clippy::disallowed_methods, reason = "this is what others wait with")]
            thread::park();
        }
    }

    /// As [`Parker::park`], but no longer than `span` if one is given: then the token may be
    /// missing.
    #[cfg(not(loom))]
    pub(crate) fn park_for(&self, span: Option<Span>) {
        let Some(span) = span else {
            return self.park();
        };
        if span >= WAIT_FOR_ANSWER && self.spin() {
            return;
        }
        let clock = Stopwatch::start();
        let mut left = span;
        while left > Span::ZERO && !self.take() {
            let left_ns = Duration::from_nanos(left.as_nanos());
            #[allow(clippy::disallowed_methods, reason = "this is what others wait with")]
            thread::park_timeout(left_ns);
            left = span.saturating_sub(clock.elapsed());
        }
    }

    /// Under the schedule explorer no time passes, and no thread has an alarm.
    #[cfg(loom)]
    pub(crate) fn park_for(&self, _span: Option<Span>) {
        self.park();
    }

    /// As [`Parker::park_for`], asleep in a driver in which something is under way. False if the
    /// driver has something to do first.
    pub(crate) fn park_in(&self, lent: &Lent, span: Option<Span>) -> bool {
        if span == Some(Span::ZERO) {
            self.take();
            return true;
        }
        self.record_waker(lent);
        let asleep =
            self.token
                .compare_exchange(NONE, IN_DRIVER, Ordering::AcqRel, Ordering::Relaxed);
        if asleep.is_ok() {
            lent.driver.sleep(span);
        }
        self.take()
    }

    fn record_waker(&self, lent: &Lent) {
        let mut waker = lock(&self.waker);
        let is_known = waker
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &lent.waker));
        if !is_known {
            *waker = Some(Arc::clone(&lent.waker));
        }
    }

    /// Takes the token if it is there.
    fn take(&self) -> bool {
        self.token.swap(NONE, Ordering::Acquire) == GIVEN
    }

    /// Gives the token and wakes the owner.
    pub(crate) fn unpark(&self) {
        match self.token.swap(GIVEN, Ordering::AcqRel) {
            NONE => self.thread.unpark(),
            IN_DRIVER => {
                let waker = lock(&self.waker).clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            _ => {}
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn spin(&self) -> bool {
        use std::sync::OnceLock;
        static SPINS_HERE: OnceLock<u32> = OnceLock::new();
        let spins = *SPINS_HERE.get_or_init(|| match thread::available_parallelism() {
            Ok(processors) if processors.get() > 1 => SPINS,
            _ => 0,
        });
        for _ in 0..spins {
            if self.token.load(Ordering::Relaxed) == GIVEN && self.take() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// The schedule explorers try other orders by themselves; spinning only hides some of them.
    #[cfg(any(loom, shuttle))]
    fn spin(&self) -> bool {
        false
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}
