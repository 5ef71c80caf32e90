//! Keeps a server that serves its own machine from waiting for itself.
//!
//! The kernel's client writes pages back when memory is short. If the server then needed memory, it
//! would wait for that same write. So its memory is locked, and its own writes are marked as part
//! of write-back. Both need privileges; without them the server works as well, except in that one
//! situation.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

/// Marks this thread, and every thread that it starts later, as one that writes back. Call it
/// before the first thread is started. Returns a text if this was refused.
pub(crate) fn become_flusher() -> Option<String> {
    configure_io_flusher_behavior(true)
        .err()
        .map(|errno| format!("not marked as part of writeback ({errno}): needs CAP_SYS_RESOURCE"))
}

/// Locks memory as soon as it is used: code that must not wait for memory touches it first. So
/// memory that is hardly used, like most of a thread's stack and of the program's code, is not
/// taken. Returns a text if this was refused.
pub(crate) fn lock_what_is_used() -> Option<String> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
        .err()
        .map(|errno| format!("memory not locked ({errno}): needs CAP_IPC_LOCK or a higher limit"))
}
