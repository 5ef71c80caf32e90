//! The cache: built once, shared by whoever clones it, closed by name.

use crate::caller::{Caller, CallerKey};
use crate::engine::Engine;
use crate::error::{BuildError, MemoryError, SyncError};
use crate::event::{CallKind, WaitedCall};
use crate::file::File;
use crate::marks::Mark;
use crate::memory::Swap;
use crate::policy::ScanBalance;
use crate::retune::Changes;
use crate::settings::{BackingSettings, Parts, Settings};
use crate::shrinker::Shrinker;
use crate::state::backing::Backing;
use crate::state::object::Origin;
use crate::state::swap::{SwapRetry, SwapSlots};
use crate::state::swap_ahead::SwapAhead;
use crate::state::vectors::IoVectors;
use crate::state::waits::CallOf;
use crate::statistics::Statistics;
use crate::why::{Cause, WaitRow, Why};
use forebay_base::Span;
use forebay_base::sync::{Mutex, atomic::AtomicU64};
use forebay_base::units::{byte_of, pages_for};
use forebay_store::{Durability, ObjectId, Store};
use std::sync::{Arc, Weak};

/// A page cache: one memory budget before any number of stores.
///
/// A clone is another name for the same cache. [`Cache::close`] writes what is dirty and ends the
/// daemons; a cache that is dropped unclosed ends them when its last handle is gone, and what was
/// not synced by then is lost, as after a crash.
///
/// ```
/// # forebay_rt::block_on(async {
/// use forebay::{Cache, Settings};
/// use forebay_store::{MemoryStore, ObjectId};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
/// let file = cache.open(&backing, ObjectId(7), 0)?;
/// file.write_at(&[1; 100_000], 0).await?;
/// cache.close().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    engine: Arc<Engine>,
    /// Ends the daemons when the last cache or attached store handle is gone.
    _life: Arc<Life>,
}

/// A store that a cache knows.
#[derive(Clone, Debug)]
pub struct AttachedStore {
    backing: Arc<Backing>,
}

impl AttachedStore {
    /// Its place in [`Statistics::backings`] and in trace events (bdi).
    pub fn number(&self) -> usize {
        self.backing.number
    }
}

/// While this lives the daemons do.
#[derive(Debug)]
pub(crate) struct Life(Arc<Engine>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

impl Cache {
    /// A cache by `settings`, with the usual parts.
    ///
    /// # Errors
    /// [`BuildError::BudgetTooSmall`], `BadSetting`, `NoMemory`.
    pub fn new(settings: Settings) -> Result<Cache, BuildError> {
        Cache::with_parts(settings, Parts::default())
    }

    /// A cache on another runtime or with a sink for its events.
    ///
    /// # Errors
    /// As [`Cache::new`].
    pub fn with_parts(settings: Settings, parts: Parts) -> Result<Cache, BuildError> {
        let engine = Engine::new(settings, parts)?;
        engine.start();
        let life = Arc::new(Life(engine.clone()));
        Ok(Cache {
            engine,
            _life: life,
        })
    }

    /// Puts the cache before `store`.
    ///
    /// # Errors
    /// [`BuildError::Closed`].
    pub fn attach(&self, store: Arc<dyn Store>) -> Result<AttachedStore, BuildError> {
        self.attach_with(store, BackingSettings::default())
    }

    /// Puts the cache before `store`, with shares of the dirty limit other than the usual ones.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`], `Closed`.
    pub fn attach_with(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
    ) -> Result<AttachedStore, BuildError> {
        Ok(AttachedStore {
            backing: self.engine.attach(store, settings)?,
        })
    }

    /// Opens the store's object `object`, which is `length_bytes` long now. Every handle on one
    /// object sees the same bytes; the length counts only when the object is not yet known.
    ///
    /// # Errors
    /// [`BuildError::TooLong`], `TooManyObjects`, `Closed`.
    pub fn open(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<File, BuildError> {
        self.open_as(store, object, length_bytes, false)
    }

    /// As [`Cache::open`], with a handle for reading alone: others may change the object.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn open_read_only(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<File, BuildError> {
        self.open_as(store, object, length_bytes, true)
    }

    /// As [`Cache::open`], with a handle that belongs to `caller`: [`Cache::why`] tells its name.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn open_for(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
        caller: &Caller,
    ) -> Result<File, BuildError> {
        Ok(self.open(store, object, length_bytes)?.for_caller(caller))
    }

    fn open_as(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
        is_read_only: bool,
    ) -> Result<File, BuildError> {
        let origin = Origin::File {
            backing: store.backing.number,
            object,
        };
        let object = self.engine.open(origin, length_bytes)?;
        let caller = self.engine.ledger.next_handle();
        Ok(File::new(self.engine.clone(), object, is_read_only, caller))
    }

    /// Names the object of a store to which anonymous pages are written: `length_bytes` of room.
    /// Once for a cache, and not in a store that is [`Durability::Unstable`]: anonymous pages are
    /// nowhere but in swap once they were written there, and nobody commits them.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`] if there is swap already, the room is under two pages or the
    /// store may forget what it has written.
    pub fn set_swap(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<(), BuildError> {
        let pages = length_bytes / forebay_base::PAGE_BYTES as u64;
        let durability = store.backing.geometry.durability;
        let bad = |allowed| BuildError::BadSetting {
            setting: "swap",
            given: format!("{length_bytes} bytes, {durability:?}"),
            allowed,
        };
        if pages < 2 || pages > u64::from(u32::MAX) {
            return Err(bad("two pages to 16 TiB"));
        }
        if durability == Durability::Unstable {
            return Err(bad("in a store that keeps what it has written"));
        }
        let swap = Swap {
            backing: store.backing.clone(),
            object,
            slots: SwapSlots::new(pages),
            vectors: IoVectors::new(store.backing.vectors.count(), 1),
            ahead: SwapAhead::default(),
            retry: Mutex::new(SwapRetry::default()),
            clean_pages: AtomicU64::new(0),
            clean_pages_count: self.engine.settings.policy.scan_balance == ScanBalance::Cost,
        };
        self.engine
            .memory
            .swap
            .set(swap)
            .map_err(|_| bad("set once"))
    }

    /// Anonymous memory of `length_bytes`, zeros at first: for sorts, hashes, temporary pages. It
    /// is written to swap when memory is short and is gone with its last handle.
    ///
    /// # Errors
    /// [`BuildError::NoSwap`] if there is no swap, or more than swap and memory hold;
    /// `TooManyObjects`, `Closed`.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay::{Cache, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// cache.set_swap(&store, ObjectId(0), 64 << 20)?;
    /// let sort = cache.anonymous(32 << 20)?;
    /// sort.write_at(b"run 1", 1 << 20).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn anonymous(&self, length_bytes: u64) -> Result<File, BuildError> {
        let object = self.engine.anonymous(pages_for(length_bytes))?;
        let caller = self.engine.ledger.next_handle();
        Ok(File::new(self.engine.clone(), object, false, caller))
    }

    /// Changes the memory budget while the cache runs. The memory taken at start, which is
    /// [`Settings::memory_bytes`] or what zones that name their frames come to, is the most that it
    /// can be; what a smaller budget has no room for goes back to the system.
    ///
    /// A smaller budget is met by what is free and by what reclaim makes free; limits on dirty
    /// pages and watermarks are those of the smaller cache at once. Returns the bytes that are
    /// still over it: 0, unless pages are held by guards, cannot be written or have nowhere to go
    /// after `held_timeout`, or `answer_timeout` while something is dirty. Those follow as soon as
    /// they can, in the background; so does everything when the future is dropped. Where open
    /// objects take more than half of the budget, what they take beyond it is over it too, and not
    /// in the number returned ([`Statistics::object_bytes`]). A larger budget is there when the
    /// call returns.
    ///
    /// # Errors
    /// [`MemoryError`]; the budget is then as it was.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay::{Cache, Settings};
    /// let cache = Cache::new(Settings { memory_bytes: 64 << 20, ..Settings::default() })?;
    /// // Somebody else needs most of it for a while.
    /// assert_eq!(cache.set_memory(16 << 20).await?, 0);
    /// assert!(cache.statistics().memory_bytes <= 16 << 20);
    /// cache.set_memory(64 << 20).await?;
    /// assert_eq!(cache.statistics().nr_balloon_pages, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn set_memory(&self, memory_bytes: u64) -> Result<u64, MemoryError> {
        let call = self.engine.call_of(CallOf {
            caller: CallerKey::CACHE,
            bdi: None,
            kind: CallKind::Memory,
            offset_bytes: 0,
            bytes: memory_bytes,
        });
        let _waiting = self.engine.waiting(&call.waits, Cause::Memory);
        let pages_over = self.engine.set_memory(memory_bytes).await?;
        Ok(byte_of(pages_over))
    }

    /// Has reclaim ask `shrinker` for its part as long as somebody else holds it.
    pub fn add_shrinker<S: Shrinker + 'static>(&self, shrinker: &Arc<S>) {
        let shrinker: Weak<S> = Arc::downgrade(shrinker);
        self.engine.shrinkers.add(shrinker);
    }

    /// What the cache says of itself.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// Who waited, for what and who is to blame: in the last `last`, rounded up to minutes, or since
    /// the start where that is more than ten of them or none is given.
    pub fn why(&self, last: Option<Span>) -> Why {
        self.engine.why(last)
    }

    /// How long each caller waited for each store and cause, in the same window.
    pub fn wait_rows(&self, last: Option<Span>) -> Vec<WaitRow> {
        self.engine.wait_rows(last)
    }

    /// The latest calls that took [`Settings::stall_threshold`] or longer from their first wait on,
    /// of those that ended in the last `last`, or of all that are kept. The newest first.
    pub fn stalls(&self, last: Option<Span>) -> Vec<WaitedCall> {
        self.engine.stalls(last)
    }

    /// The caller whom events call `key`.
    pub fn caller(&self, key: CallerKey) -> Caller {
        self.engine.ledger.caller(key)
    }

    /// The callers that dirtied most lately, at most eight, with their parts of what is dirty, in
    /// pages. Heaviest first.
    pub fn heaviest_callers(&self) -> Vec<(Caller, u64)> {
        self.engine.heaviest_callers()
    }

    /// Turns knobs while the cache runs, and returns their old values. If one is refused, nothing
    /// changes.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`] with what is allowed, `Memory`, `Closed`.
    pub fn retune(&self, changes: &Changes) -> Result<Changes, BuildError> {
        self.engine.retune(changes)
    }

    /// Every knob that [`Cache::retune`] can turn, as it is now.
    pub fn tuned(&self) -> Changes {
        self.engine.tuned()
    }

    /// How often knobs were turned: whoever shows them asks again only when this has changed.
    pub fn times_tuned(&self) -> u64 {
        self.engine.knobs.version()
    }

    /// Writes all that is dirty in every object and makes it durable.
    ///
    /// # Errors
    /// The first [`SyncError`]; the other objects are synced all the same.
    pub async fn sync(&self) -> Result<(), SyncError> {
        self.engine.sync_all().await
    }

    /// Syncs, refuses new work, and ends the daemons.
    ///
    /// # Errors
    /// As [`Cache::sync`]; then the cache stays open, so that nothing dirty is lost.
    pub async fn close(&self) -> Result<(), SyncError> {
        self.engine.all_cuts_end().await?;
        self.sync().await?;
        self.engine.shut_down();
        Ok(())
    }

    /// How often an arm that is taken when something goes wrong was taken, for tests that have to
    /// reach them all.
    pub fn times_reached(&self, mark: Mark) -> u32 {
        self.engine.records.times_reached(mark)
    }

    /// Walks all state and says what is inconsistent, for tests and for the curious. It locks
    /// lists one after the other, so it is meaningful only while nobody else uses the cache.
    pub fn check(&self) -> Vec<String> {
        self.engine.check()
    }

    /// Says which pages lie behind the end of their object, a sentence each. There is none while
    /// no thread is between two waits: all tasks of a virtual runtime may be under way.
    pub fn check_ends(&self) -> Vec<String> {
        self.engine.check_ends()
    }
}
