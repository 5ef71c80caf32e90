//! Where a wait is in the source: for a watchdog that has to name a wait that does not end.

use std::cell::Cell;
use std::panic::Location;

thread_local! {
    static LATEST: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// The source line of this thread's latest wait that a poll found not to be over, of a
/// [`Listener`](super::Listener) or of a sleep. Asking forgets it, so a caller that asks before and
/// after a poll learns where the polled future waits.
///
/// ```
/// use forebay_rt::wait::{WaitQueue, waits_at};
/// use std::task::{Context, Waker};
/// use std::{future::Future, pin::pin};
///
/// let queue = WaitQueue::new();
/// let mut listener = pin!(queue.listen());
/// assert!(listener.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
/// assert!(waits_at().is_some_and(|site| site.line() > 0));
/// assert_eq!(waits_at(), None);
/// ```
pub fn waits_at() -> Option<&'static Location<'static>> {
    LATEST.take()
}

/// What began at `site` was polled and is not over.
pub(crate) fn note(site: &'static Location<'static>) {
    LATEST.set(Some(site));
}
