//! What a thread that blocks may do in place of sleeping.
//!
//! A call that blocks and that has asked a device for something can wait for the device itself:
//! then the answer wakes the caller, and no other thread has to be woken in between to wake it.
//! What the thread waits in belongs to somebody else, a store mostly, which lends it for as long as
//! something is under way.
//!
//! invariant Y2: a thread that sleeps in a driver is woken by its token too: whoever gives the
//! token wakes the driver.
//! invariant Y3: whatever is lent is given back, at the latest when the outermost `block_on` of the
//! thread ends.

use forebay_base::Span;
#[cfg(shuttle)]
use shuttle::thread_local;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Something that a thread waits in while it blocks, and that works for it meanwhile. Each thread
/// has at most one at a time.
pub trait Driver {
    /// Does what there is to do now, which may wake futures, and does not wait. Called before each
    /// sleep.
    fn turn(&self) -> Turn;

    /// Sleeps until there is something to do, its waker was called, or `longest` has passed. It may
    /// return earlier.
    fn sleep(&self, longest: Option<Span>);

    /// Takes the driver back from the calling thread, which does not call it any more, whatever is
    /// under way.
    fn give_back(&self);
}

/// What [`Driver::turn`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Something is under way. Once nothing is, the thread sleeps as it usually does.
    pub is_at_work: bool,
    /// Something had come in.
    pub has_done: bool,
}

/// How another thread ends the sleep of a [`Driver`].
pub trait DriverWaker: Send + Sync {
    /// Ends the present sleep, or the next one if there is none.
    fn wake(&self);
}

/// A driver and its waker.
#[derive(Clone)]
pub(crate) struct Lent {
    pub(crate) driver: &'static dyn Driver,
    pub(crate) waker: Arc<dyn DriverWaker>,
}

#[cfg(not(loom))]
thread_local! {
    static LENT: RefCell<Option<Lent>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static DONE: Cell<u64> = const { Cell::new(0) };
    static AWAITED: Cell<Option<u64>> = const { Cell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static LENT: RefCell<Option<Lent>> = RefCell::new(None);
    static DEPTH: Cell<u32> = Cell::new(0);
    static DONE: Cell<u64> = Cell::new(0);
    static AWAITED: Cell<Option<u64>> = Cell::new(None);
}

/// Whether the calling thread is in a [`crate::block_on`] that may sleep and has no driver, so that
/// it may be lent one.
pub fn is_wanted() -> bool {
    DEPTH.with(Cell::get) > 0
        && !crate::own_thread::is_own_thread()
        && LENT.with(|lent| lent.borrow().is_none())
}

/// Lets the calling thread wait in `driver` from now on, until nothing is under way there or its
/// outermost [`crate::block_on`] ends.
///
/// # Panics
/// If the thread is in no such call, or has a driver.
pub fn lend(driver: &'static dyn Driver, waker: Arc<dyn DriverWaker>) {
    assert!(
        is_wanted(),
        "a driver is lent to a thread that blocks and has none"
    );
    LENT.with(|lent| lent.replace(Some(Lent { driver, waker })));
}

/// What the calling thread is to sleep in, if something is under way there.
pub(crate) fn lent_and_at_work() -> Option<Lent> {
    let lent = LENT.with(|lent| lent.borrow().clone())?;
    let turn = lent.driver.turn();
    if turn.has_done {
        DONE.with(|done| done.set(done.get() + 1));
    }
    if turn.is_at_work {
        return Some(lent);
    }
    take_back();
    None
}

/// Whether a [`NextTurn`] of the calling thread is ready, and its future has to be polled.
pub(crate) fn has_turned() -> bool {
    let now = DONE.with(Cell::get);
    AWAITED.with(|awaited| {
        let is_over = awaited.get().is_some_and(|then| then != now);
        if is_over {
            awaited.set(None);
        }
        is_over
    })
}

/// Ready once something has come in at the driver of the thread that polls it, since its first
/// poll. It has no waker, so it is only polled beside a future that somebody wakes: without a
/// driver, or under another executor, it is never ready. It may be ready too early.
///
/// ```
/// use forebay_rt::{block_on, driver::NextTurn, wait::either};
/// block_on(either(std::future::ready(()), NextTurn::default()));
/// ```
#[derive(Debug, Default)]
#[must_use = "nobody waits unless this is awaited"]
pub struct NextTurn {
    first_seen: Option<u64>,
}

impl Future for NextTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        let now = DONE.with(Cell::get);
        if *self.first_seen.get_or_insert(now) != now {
            return Poll::Ready(());
        }
        AWAITED.with(|awaited| awaited.set(Some(now)));
        Poll::Pending
    }
}

fn take_back() {
    if let Some(lent) = LENT.with(RefCell::take) {
        lent.driver.give_back();
    }
}

/// The calling thread is in one more `block_on`, until this is dropped.
pub(crate) struct Deeper(());

impl Deeper {
    pub(crate) fn enter() -> Deeper {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Deeper(())
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        let depth = DEPTH.with(|depth| depth.replace(depth.get() - 1));
        if depth == 1 {
            take_back();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "driver_tests.rs"]
mod tests;
