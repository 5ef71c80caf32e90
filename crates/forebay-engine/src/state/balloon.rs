//! The budget of a cache, and how far the cache has got to it.

use forebay_base::sync::Mutex;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64};
use forebay_rt::wait::WaitQueue;

/// The budget and how far the cache has got to it.
#[derive(Debug, Default)]
pub(crate) struct Balloon {
    /// Only one caller at a time changes the budget and the sizes of the zones.
    pub(crate) resizing: Mutex<()>,
    /// The budget in bytes; changed under the lock above, which is held for long. Calls that end
    /// read it without the lock.
    pub(crate) memory_bytes: AtomicU64,
    /// What was taken off the pages for objects; changed under the same lock.
    pub(crate) charged_bytes: AtomicU64,
    /// The place of the closed file that was asked last to make room for a smaller budget.
    pub(crate) room_hand: AtomicU64,
    /// A task fills the balloons of the zones.
    pub(crate) is_filling: AtomicBool,
    /// Notified when that task has filled something.
    pub(crate) changed: WaitQueue,
}
