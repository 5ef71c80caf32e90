//! Atomics and locks, so that a schedule explorer can put its own in their place.
//!
//! Only the schedule tests build with `--cfg loom` or `--cfg shuttle`; nothing that ships depends
//! on either. Loom tries every order of a few steps; shuttle draws orders of very many.

#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(shuttle)]
pub use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Arc, Mutex, MutexGuard, atomic};

/// Locks `mutex`; a holder that panicked left nothing half done, for state is changed only after
/// every check has passed, so its poison is not passed on.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
