//! Stores: those that the cache stands in front of, in the order in which they were attached.
//!
//! It owns the list of stores, and what they know about the cache's memory. It never knows what a
//! page is or when a page is written, which is the flusher's business.

use crate::error::BuildError;
use crate::retune::StoreChanges;
use crate::state::arena::Arena;
use crate::state::backing::Backing;
use crate::state::flusher_requests::FlusherWork;
use crate::store_key::{CacheNumber, StoreKey};
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use std::sync::Arc;

/// The stores of one cache.
pub struct Stores {
    cache: CacheNumber,
    known: Mutex<Known>,
    /// Sum of all stores' guaranteed parts of the dirty limit, percent.
    min_percent_sum: AtomicU64,
}

#[derive(Default)]
struct Known {
    backings: Vec<Arc<Backing>>,
    /// All stores were asked to forget the memory, because parts of it went back to the system.
    has_forgotten: bool,
}

impl Stores {
    pub(crate) fn new() -> Stores {
        Stores {
            cache: CacheNumber::next(),
            known: Mutex::default(),
            min_percent_sum: AtomicU64::new(0),
        }
    }

    /// The key of the store numbered `number`.
    pub(crate) fn key_of(&self, number: usize) -> StoreKey {
        StoreKey::of(self.cache, number)
    }

    /// The place of the store that `key` means.
    pub(crate) fn place_of(&self, key: StoreKey) -> Result<usize, BuildError> {
        let number = key.number();
        if !key.is_for(self.cache) {
            return Err(BuildError::ForeignStore { bdi: number });
        }
        if number >= lock(&self.known).backings.len() {
            return Err(BuildError::BadSetting {
                setting: "store",
                given: number.to_string(),
                allowed: "the number of a store that is attached",
            });
        }
        Ok(number)
    }

    /// Refuses changes of stores that this cache does not have.
    pub(crate) fn check_keys(&self, changes: &[StoreChanges]) -> Result<(), BuildError> {
        let mut keys = changes.iter().map(|change| change.store);
        keys.try_for_each(|key| self.place_of(key).map(drop))
    }

    /// Adds the backing that `make` makes for the number it is given, and registers the memory of
    /// `arena` with its store.
    pub(crate) fn add(
        &self,
        min_ratio_percent: u64,
        arena: &Arena,
        make: impl FnOnce(usize) -> Backing,
    ) -> Result<Arc<Backing>, BuildError> {
        let mut known = lock(&self.known);
        let guaranteed = known
            .backings
            .iter()
            .map(|other| other.knobs.min_ratio_percent());
        let min_sum = guaranteed.sum::<u64>() + min_ratio_percent;
        if min_sum >= 100 {
            return Err(too_much_guaranteed(min_ratio_percent));
        }
        let backing = Arc::new(make(known.backings.len()));
        if !arena.is_phantom() && !known.has_forgotten {
            backing.store.register_memory(arena.memory());
        }
        known.backings.push(backing.clone());
        self.min_percent_sum.store(min_sum, Ordering::Relaxed);
        Ok(backing)
    }

    /// Makes all `changes`, whose keys were checked, or none if what would come of them is not
    /// allowed. Returns the old values of what was changed.
    pub(crate) fn retune(&self, changes: &[StoreChanges]) -> Result<Vec<StoreChanges>, BuildError> {
        let known = lock(&self.known);
        let present = |backing: &Arc<Backing>| backing.knobs.put_into(backing.settings);
        let before: Vec<_> = known.backings.iter().map(present).collect();
        let mut after = before.clone();
        let mut old = Vec::with_capacity(changes.len());
        for change in changes {
            let number = change.store.number();
            after[number] = change.applied(after[number]);
            old.push(change.old(self.key_of(number), &before[number]));
        }
        for settings in &after {
            settings.check()?;
        }
        let min_sum = after.iter().map(|it| it.min_ratio_percent).sum();
        if min_sum >= 100 {
            return Err(too_much_guaranteed(min_sum));
        }
        for (backing, settings) in known.backings.iter().zip(&after) {
            backing.knobs.set(settings);
        }
        self.min_percent_sum.store(min_sum, Ordering::Relaxed);
        Ok(old)
    }

    pub(crate) fn min_percent_sum(&self) -> u64 {
        self.min_percent_sum.load(Ordering::Relaxed)
    }

    pub fn all(&self) -> Vec<Arc<Backing>> {
        lock(&self.known).backings.clone()
    }

    /// Calls `look` with each store, without allocating a list of them.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&Backing)) {
        for backing in &lock(&self.known).backings {
            look(backing);
        }
    }

    /// The store numbered `number`.
    pub fn get(&self, number: usize) -> Arc<Backing> {
        lock(&self.known).backings[number].clone()
    }

    /// Refuses a store of another cache, whose number means another store here.
    pub(crate) fn check_own(&self, backing: &Arc<Backing>) -> Result<(), BuildError> {
        let known = lock(&self.known);
        let own = known.backings.get(backing.number);
        if own.is_some_and(|own| Arc::ptr_eq(own, backing)) {
            return Ok(());
        }
        Err(BuildError::ForeignStore {
            bdi: backing.number,
        })
    }

    /// Asks the flusher of each store that has dirty pages for `work`.
    pub fn ask_flushers(&self, work: FlusherWork) {
        for backing in self.all() {
            if backing.counts.reclaimable.load(Ordering::Relaxed) > 0 {
                backing.flushing.requests.ask(work);
            }
        }
    }

    /// Asks the flusher of each store with pages that wait for a commit, if any store has some.
    pub(crate) fn ask_for_commits(&self) {
        for backing in self.all() {
            if backing.counts.uncommitted.load(Ordering::Relaxed) > 0 {
                backing.flushing.requests.ask_for_background();
            }
        }
    }

    /// Makes all stores forget the memory before parts of it are given up: a store that has it
    /// registered would go on using the old memory.
    pub(crate) fn forget_memory(&self, arena: &Arena) {
        let mut known = lock(&self.known);
        let had_forgotten = std::mem::replace(&mut known.has_forgotten, true);
        if !had_forgotten && !arena.is_phantom() {
            arena.want_huge_pages(false);
            arena.memory().close();
            for backing in &known.backings {
                backing.store.forget_memory(arena.memory());
            }
        }
    }

    /// Registers the memory with all stores again, now that none of it is given up.
    pub(crate) fn remember_memory(&self, arena: &Arena) {
        let mut known = lock(&self.known);
        let had_forgotten = std::mem::replace(&mut known.has_forgotten, false);
        if had_forgotten && !arena.is_phantom() {
            arena.want_huge_pages(true);
            arena.memory_is_whole();
            for backing in &known.backings {
                backing.store.register_memory(arena.memory());
            }
        }
    }
}

fn too_much_guaranteed(min_ratio_percent: u64) -> BuildError {
    BuildError::BadSetting {
        setting: "min_ratio_percent",
        given: min_ratio_percent.to_string(),
        allowed: "less than 100 over all stores together",
    }
}
