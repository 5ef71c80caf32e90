//! The caches beside the pages: reclaim asks each of them to free its part.

use crate::shrinker::Shrinker;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use std::fmt;
use std::sync::{Arc, Weak};

/// The objects that earlier passes wanted a cache to free and did not ask it for.
#[derive(Debug, Default)]
pub struct Owed(AtomicU64);

impl Owed {
    /// Takes the debt over, so that another pass at the same time does not count it too.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    pub fn add(&self, objects: u64) {
        self.0.fetch_add(objects, Ordering::Relaxed);
    }
}

/// A cache that belongs to the program.
pub(crate) struct Registered {
    shrinker: Weak<dyn Shrinker>,
    pub(crate) owed: Owed,
}

impl Registered {
    /// The cache, if its owner has not dropped it.
    pub(crate) fn shrinker(&self) -> Option<Arc<dyn Shrinker>> {
        self.shrinker.upgrade()
    }
}

#[derive(Default)]
pub struct Shrinkers {
    registered: Mutex<Vec<Arc<Registered>>>,
    /// What the files that nobody has open owe.
    pub unused_files: Owed,
    /// What files that nobody has open and that have no pages owe for their memory.
    pub(crate) closed_files: Owed,
    /// The place of the closed file that was examined last.
    pub(crate) closed_hand: AtomicU64,
}

impl fmt::Debug for Shrinkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shrinkers").finish_non_exhaustive()
    }
}

impl Shrinkers {
    pub(crate) fn add(&self, shrinker: Weak<dyn Shrinker>) {
        let mut registered = lock(&self.registered);
        registered.retain(|known| known.shrinker.strong_count() > 0);
        registered.push(Arc::new(Registered {
            shrinker,
            owed: Owed::default(),
        }));
    }

    /// Forgets a cache that must not be asked again.
    pub(crate) fn remove(&self, gone: &Arc<Registered>) {
        lock(&self.registered).retain(|known| !Arc::ptr_eq(known, gone));
    }

    /// All registered caches; the caller asks them without holding the lock.
    pub(crate) fn all(&self) -> Vec<Arc<Registered>> {
        lock(&self.registered).clone()
    }
}
