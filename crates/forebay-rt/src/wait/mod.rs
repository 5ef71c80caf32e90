//! The primitives that wait, usable from any thread and under any executor. Nothing else waits.
//!
//! Each of them keeps its waiters in a line inside one small lock: joining reuses the place that
//! an earlier waiter left, so that waiting allocates only when a line grows longer than ever
//! before. No lock of this module is held while a waker runs.
//!
//! The rule by which no wake-up is lost, wherever a [`WaitQueue`] guards a condition: *listen, look
//! at the condition, then await*; and on the other side: *change the condition, then wake*.

mod either;
mod gate;
mod line;
mod permits;
mod queue;
pub(crate) mod site;
mod slot;

pub use either::either;
pub use gate::Gate;
pub use permits::{Acquire, OwnedPermit, Permit, Permits};
pub use queue::{Listener, WaitQueue};
pub use site::waits_at;
pub use slot::{Slot, Take};
