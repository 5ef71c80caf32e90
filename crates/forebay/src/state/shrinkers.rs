//! The caches beside the pages that reclaim asks for their part.

use crate::shrinker::Shrinker;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use std::fmt;
use std::sync::{Arc, Weak};

/// What a cache of objects was not asked for yet, though passes wanted it.
#[derive(Debug, Default)]
pub(crate) struct Owed(AtomicU64);

impl Owed {
    /// Takes the debt over: another pass at the same time must not count it too.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn add(&self, objects: u64) {
        self.0.fetch_add(objects, Ordering::Relaxed);
    }
}

/// A cache of a program.
pub(crate) struct Registered {
    shrinker: Weak<dyn Shrinker>,
    pub(crate) owed: Owed,
}

impl Registered {
    /// The cache, if its owner still has it.
    pub(crate) fn shrinker(&self) -> Option<Arc<dyn Shrinker>> {
        self.shrinker.upgrade()
    }
}

#[derive(Default)]
pub(crate) struct Shrinkers {
    registered: Mutex<Vec<Arc<Registered>>>,
    /// Of the files that nobody has open.
    pub(crate) unused_files: Owed,
    /// Of the memory of files that nobody has open and that have no pages.
    pub(crate) closed_files: Owed,
    /// The place of the closed file that was looked at last.
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

    /// All that are registered: they are asked without the lock.
    pub(crate) fn all(&self) -> Vec<Arc<Registered>> {
        lock(&self.registered).clone()
    }
}
