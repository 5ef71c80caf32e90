//! Which threads run tasks: these must not sleep in a call that blocks.

#[cfg(shuttle)]
use shuttle::thread_local;
use std::cell::Cell;

#[cfg(not(loom))]
thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}
#[cfg(loom)]
loom::thread_local! {
    static IS_OWN: Cell<bool> = Cell::new(false);
}

/// This thread runs tasks, and the tasks that would end the wait of a `block_on` may be among
/// them.
pub(crate) fn this_thread_runs_tasks() {
    IS_OWN.with(|is_own| is_own.set(true));
}

/// Whether this thread runs tasks.
pub(crate) fn is_own_thread() -> bool {
    IS_OWN.with(Cell::get)
}
