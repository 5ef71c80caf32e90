//! One thread's sleep, ended by a token.

#[cfg(not(loom))]
use crate::thread::Stopwatch;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
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

/// A token and the thread that waits for it. A token given before the thread sleeps is kept.
#[derive(Debug)]
pub(crate) struct Parker {
    token: AtomicBool,
    thread: Thread,
}

impl Parker {
    /// A parker whose owner is the calling thread.
    pub(crate) fn of_this_thread() -> Parker {
        Parker {
            token: AtomicBool::new(false),
            thread: thread::current(),
        }
    }

    /// Returns once the token is there, and takes it. Only the owner may call this.
    pub(crate) fn park(&self) {
        if self.spin() {
            return;
        }
        while !self.token.swap(false, Ordering::Acquire) {
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
        while left > Span::ZERO && !self.token.swap(false, Ordering::Acquire) {
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

    /// Gives the token and wakes the owner.
    pub(crate) fn unpark(&self) {
        if !self.token.swap(true, Ordering::Release) {
            self.thread.unpark();
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
            if self.token.load(Ordering::Relaxed) && self.token.swap(false, Ordering::Acquire) {
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
