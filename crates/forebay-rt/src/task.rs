//! A spawned task as its owner sees it, and how it ended.

use crate::say;
use crate::wait::Slot;
use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a runtime keeps of a task.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a task ended.
pub(crate) enum Outcome {
    /// Its future was ready.
    Finished,
    /// Its future panicked with this.
    Panicked(Box<dyn Any + Send>),
    /// The runtime ended first.
    Dropped,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Finished => "Finished",
            Outcome::Panicked(_) => "Panicked",
            Outcome::Dropped => "Dropped",
        })
    }
}

/// The text of a panic, if it has one.
///
/// ```
/// let panic = std::panic::catch_unwind(|| panic!("{} pages", 7)).unwrap_err();
/// assert_eq!(forebay_rt::panic_text(&*panic), Some("7 pages"));
/// ```
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

/// A spawned task. Dropping this lets the task run on alone.
#[derive(Debug)]
pub struct Task {
    name: &'static str,
    outcome: Arc<Slot<Outcome>>,
}

impl Task {
    pub(crate) fn new(name: &'static str) -> (Task, Ending) {
        let outcome = Arc::new(Slot::new());
        let ending = Ending {
            outcome: Some(Arc::clone(&outcome)),
        };
        (Task { name, outcome }, ending)
    }

    /// The name under which it was spawned.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.outcome.is_set()
    }

    /// Ready when the task has ended.
    ///
    /// # Panics
    /// With the task's own panic if it ended by one; and if its runtime ended before it did.
    pub async fn join(self) {
        match self.outcome.take().await {
            Outcome::Finished => {}
            Outcome::Panicked(panic) => resume_unwind(panic),
            Outcome::Dropped => panic!("the runtime ended before its task '{}' did", self.name),
        }
    }
}

/// The runtime's side of a [`Task`]: reports once how it ended, at the latest when this is dropped.
#[derive(Debug)]
pub(crate) struct Ending {
    outcome: Option<Arc<Slot<Outcome>>>,
}

impl Ending {
    /// Whether nobody can join any more.
    pub(crate) fn is_detached(&self) -> bool {
        self.outcome
            .as_ref()
            .is_none_or(|outcome| Arc::strong_count(outcome) == 1)
    }

    /// Reports how the task ended.
    pub(crate) fn report(mut self, outcome: Outcome) {
        self.set(outcome);
    }

    fn set(&mut self, outcome: Outcome) {
        if let Some(slot) = self.outcome.take() {
            slot.set(outcome);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.set(Outcome::Dropped);
    }
}

/// Polls a task once. Its future is dropped here if it ended, so that what it owned is gone before
/// anybody learns of the end.
pub(crate) fn poll_task(
    future: &mut Option<TaskFuture>,
    context: &mut Context<'_>,
) -> Poll<Outcome> {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let Some(running) = future else {
            return Poll::Ready(());
        };
        let polled = running.as_mut().poll(context);
        if polled.is_ready() {
            *future = None;
        }
        polled
    }));
    match polled {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Outcome::Finished),
        Err(panic) => {
            let dropped = catch_unwind(AssertUnwindSafe(|| *future = None));
            Poll::Ready(Outcome::Panicked(dropped.err().unwrap_or(panic)))
        }
    }
}

/// The output of `future`, or what it panicked with. What is left of it then is dropped here.
pub(crate) async fn catch<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut running = Some(Box::pin(future));
    let outcome = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| match &mut running {
            Some(running) => running.as_mut().poll(context),
            None => Poll::Pending,
        }));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await;
    match catch_unwind(AssertUnwindSafe(|| running = None)) {
        Ok(()) => outcome,
        Err(panic) => Err(panic),
    }
}

/// Prints that a task has panicked.
pub(crate) fn say_panicked(name: &str) {
    say(format_args!("task '{name}' panicked"));
}
