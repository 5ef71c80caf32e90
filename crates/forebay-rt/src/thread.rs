//! Threads of the operating system, for work that cannot be a task: a ring's reaper, a device that
//! blocks, a contender in a benchmark. Nothing here exists in virtual time.

use forebay_base::Span;
use std::io;
use std::time::Duration;

#[cfg(shuttle)]
use crate::explored::threads::{self as thread, Builder, Instant, JoinHandle, Thread};
#[cfg(not(shuttle))]
use std::thread::{self, Builder, JoinHandle, Thread};
#[cfg(not(shuttle))]
#[allow(clippy::disallowed_types, reason = "this is what others measure with")]
use std::time::Instant;

/// Starts a thread called `name`; dropping the joiner lets it run on alone.
///
/// # Errors
/// If the system has no thread left to give.
///
/// ```
/// let joiner = forebay_rt::thread::spawn("greeter", || println!("hello"))?;
/// joiner.join();
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(
    clippy::disallowed_methods,
    reason = "the one place that makes threads"
)]
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Joiner> {
    let handle = Builder::new().name(name.into()).spawn(body)?;
    Ok(Joiner { handle })
}

/// Bytes of stack of a thread that [`spawn_small`] starts.
pub const SMALL_STACK_BYTES: usize = 256 << 10;

/// Starts a thread as [`spawn`] does, with a stack of [`SMALL_STACK_BYTES`] in place of the
/// system's usual megabytes: for threads whose stacks count as memory of the program.
///
/// # Errors
/// If the system has no thread left to give.
///
/// ```
/// let joiner = forebay_rt::thread::spawn_small("greeter", || println!("hello"))?;
/// joiner.join();
/// # Ok::<(), std::io::Error>(())
/// ```
#[allow(clippy::disallowed_methods, reason = "see above")]
pub fn spawn_small(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Joiner> {
    let builder = Builder::new()
        .name(name.into())
        .stack_size(SMALL_STACK_BYTES);
    let handle = builder.spawn(body)?;
    Ok(Joiner { handle })
}

/// A running thread, to be waited for.
#[derive(Debug)]
pub struct Joiner {
    handle: JoinHandle<()>,
}

impl Joiner {
    /// Waits until the thread has ended.
    ///
    /// # Panics
    /// With the thread's own panic if it ended by one.
    pub fn join(self) {
        if let Err(panic) = self.handle.join() {
            std::panic::resume_unwind(panic);
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    pub(crate) fn thread(&self) -> &Thread {
        self.handle.thread()
    }
}

/// Stops the calling thread for `span`, or a little longer. A task must never call this: it would
/// stop every other task of its thread as well.
#[allow(clippy::disallowed_methods, reason = "this is what others sleep with")]
pub fn pause_current(span: Span) {
    thread::sleep(Duration::from_nanos(span.as_nanos()));
}

/// Measures real time, for threads that have no runtime.
///
/// ```
/// let stopwatch = forebay_rt::thread::Stopwatch::start();
/// let first = stopwatch.elapsed();
/// assert!(stopwatch.elapsed() >= first);
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(clippy::disallowed_types, reason = "this is what others measure with")]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "see above"
    )]
    pub fn start() -> Stopwatch {
        Stopwatch {
            started: Instant::now(),
        }
    }

    /// Time since the start; it never goes back.
    #[allow(clippy::disallowed_methods, reason = "see above")]
    pub fn elapsed(&self) -> Span {
        Span::from_nanos(self.started.elapsed().as_nanos() as u64)
    }
}
