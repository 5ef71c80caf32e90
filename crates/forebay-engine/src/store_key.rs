//! Which store of which cache a knob belongs to.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a cache, which no other cache of this program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheNumber(u64);

/// Stands for whatever cache a key is given to.
const ANY: u64 = 0;

impl CacheNumber {
    pub(crate) fn next() -> CacheNumber {
        // Hidden from the schedule explorer: nothing depends on the order.
        static NEXT: AtomicU64 = AtomicU64::new(ANY + 1);
        CacheNumber(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A store of one cache, for knobs and names of stores: another cache refuses it.
///
/// ```
/// # use forebay_engine as forebay;
/// # use forebay::{BuildError, Cache, Changes, Settings, StoreChanges};
/// # use forebay_store::MemoryStore;
/// # use std::sync::Arc;
/// # let settings = Settings { memory_bytes: 8 << 20, ..Settings::default() };
/// let [logs, users] = [Cache::new(settings.clone())?, Cache::new(settings)?];
/// let of_logs = logs.attach(Arc::new(MemoryStore::new()))?.key();
/// users.attach(Arc::new(MemoryStore::new()))?;
/// let change = StoreChanges { max_ratio_percent: Some(50), ..StoreChanges::of_store(of_logs) };
/// let changes = Changes { stores: vec![change], ..Changes::default() };
/// assert_eq!(users.retune(&changes), Err(BuildError::ForeignStore { bdi: 0 }));
/// assert!(logs.retune(&changes).is_ok());
/// # Ok::<(), forebay::BuildError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreKey {
    cache: u64,
    number: usize,
}

impl StoreKey {
    /// The store that has this number in whatever cache it is given to. For programs that get the
    /// number from a person, who means one cache.
    pub const fn numbered(number: usize) -> StoreKey {
        StoreKey { cache: ANY, number }
    }

    pub(crate) fn of(cache: CacheNumber, number: usize) -> StoreKey {
        StoreKey {
            cache: cache.0,
            number,
        }
    }

    /// Its place in [`crate::Statistics::backings`] and in trace events (bdi).
    pub fn number(self) -> usize {
        self.number
    }

    /// Whether it may be given to the cache `cache`.
    pub(crate) fn is_for(self, cache: CacheNumber) -> bool {
        self.cache == ANY || self.cache == cache.0
    }
}

// The number of the cache depends on what ran before, and a run of the lab may not.
impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreKey").field(&self.number).finish()
    }
}
