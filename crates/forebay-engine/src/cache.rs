//! The cache: built once, shared by its clones, closed explicitly.

use crate::caller::{Caller, CallerKey};
use crate::elastic::{MemoryLook, MemorySeen};
use crate::engine::Engine;
use crate::error::{BuildError, MemoryError, SyncError};
use crate::event::{CallKind, WaitedCall};
use crate::file::File;
use crate::histogram::Histograms;
use crate::incident::Incident;
use crate::kernel::PastFileSystem;
use crate::memory::Swap;
use crate::parts::Kernel;
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
use crate::store_key::StoreKey;
use crate::why::{Cause, DirtiedRow, OpenWait, WaitRow, Why};
use forebay_base::Span;
use forebay_base::sync::{Mutex, atomic::AtomicU64};
use forebay_base::units::{byte_of, pages_for};
use forebay_store::{Durability, ObjectId, Store};
use std::sync::{Arc, Weak};

/// A page cache: one memory budget before any number of stores.
///
/// A clone is another handle on the same cache. [`Cache::close`] writes what is dirty and ends the
/// daemons; a cache that is dropped without `close` ends them when its last handle is gone, and
/// what was not synced by then is lost, as after a crash.
///
/// A process that is made by `fork` has neither the threads of the cache nor its memory, and must
/// not use it before it calls `exec`. The cache of its parent goes on as if nothing had happened.
///
/// ```
/// # forebay_rt::block_on(async {
/// # use forebay_engine as forebay;
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
    pub(crate) engine: Arc<Engine>,
    /// Ends the daemons when the last cache or attached store handle is gone.
    _life: Arc<Life>,
}

/// A store that a cache knows.
#[derive(Clone, Debug)]
pub struct AttachedStore {
    backing: Arc<Backing>,
    key: StoreKey,
}

impl AttachedStore {
    /// Its place in [`Statistics::backings`] and in trace events (bdi).
    pub fn number(&self) -> usize {
        self.backing.number
    }

    /// The store, for knobs and names.
    pub fn key(&self) -> StoreKey {
        self.key
    }
}

/// The daemons run while this lives.
#[derive(Debug)]
pub(crate) struct Life(Arc<Engine>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

impl Cache {
    /// A cache with these `settings` and the usual parts.
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
        Ok(Cache::over(Engine::new(
            settings,
            parts,
            Kernel::default(),
        )?))
    }

    /// The cache of `engine`, whose daemons begin to run.
    pub(crate) fn over(engine: Arc<Engine>) -> Cache {
        engine.start();
        let life = Arc::new(Life(engine.clone()));
        Cache {
            engine,
            _life: life,
        }
    }

    /// Puts the cache in front of `store`. A store has one cache at a time: until this one is
    /// closed or dropped, no other one takes it. A wrapper counts as the store inside
    /// ([`Store::inner`]).
    ///
    /// # Errors
    /// [`BuildError::AlreadyAttached`], `Closed`.
    pub fn attach(&self, store: Arc<dyn Store>) -> Result<AttachedStore, BuildError> {
        self.attach_with(store, BackingSettings::default())
    }

    /// Puts the cache in front of `store`, with settings of its own, such as its shares of the
    /// dirty limit.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`], `AlreadyAttached`, `Closed`.
    pub fn attach_with(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
    ) -> Result<AttachedStore, BuildError> {
        self.attach_over(store, settings, PastFileSystem::default())
    }

    /// The same, over a store whose file system is as an older kernel knew it.
    pub(crate) fn attach_over(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        file_system: PastFileSystem,
    ) -> Result<AttachedStore, BuildError> {
        let backing = self.engine.attach(store, settings, file_system)?;
        let key = self.engine.dirty.stores.key_of(backing.number);
        Ok(AttachedStore { backing, key })
    }

    /// Calls `store` `name` in what people read: the log, `why`. The first name stays.
    ///
    /// # Errors
    /// [`BuildError::ForeignStore`]; `BadSetting` for a number that no store has.
    pub fn name_store(&self, store: StoreKey, name: &str) -> Result<(), BuildError> {
        let place = self.engine.dirty.stores.place_of(store)?;
        let backing = self.engine.dirty.stores.get(place);
        backing.owner.name.get_or_init(|| name.into());
        Ok(())
    }

    /// What people call the store numbered `bdi`: its number, with its name if it has one.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let store = cache.attach(std::sync::Arc::new(forebay_store::MemoryStore::new()))?;
    /// assert_eq!(cache.store_name(store.number()), "store 0");
    /// cache.name_store(store.key(), "disk.img")?;
    /// assert_eq!(cache.store_name(store.number()), "store 0 (disk.img)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store_name(&self, bdi: usize) -> String {
        self.engine.store_name(bdi)
    }

    /// Opens the store's object `object`, which is `length_bytes` long now. All handles on an
    /// object see the same bytes. The length is used only when the object is not yet known. Then
    /// it must not be less than what the store says, if it says something
    /// ([`Store::length_bytes`]).
    ///
    /// # Errors
    /// [`BuildError::ForeignStore`], `WrongLength`, `TooLong`, `TooManyObjects`, `Closed`.
    pub fn open(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<File, BuildError> {
        self.open_as(store, object, length_bytes, false)
    }

    /// As [`Cache::open`], but the handle is only for reading. Other handles may change the object.
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

    /// As [`Cache::open`], with a handle that belongs to `caller`: [`Cache::why`] shows its name.
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
        self.engine.dirty.stores.check_own(&store.backing)?;
        let origin = Origin::File {
            backing: store.backing.number,
            object,
        };
        let object = self.engine.files.open(origin, length_bytes)?;
        let caller = self.engine.accounts.ledger.next_handle();
        Ok(File::new(self.engine.clone(), object, is_read_only, caller))
    }

    /// Names the object of a store to which anonymous pages are written: `length_bytes` of room.
    /// Call it once for a cache, and not with a store that is [`Durability::Unstable`]: once
    /// anonymous pages are written to swap they are nowhere else, and nothing commits them.
    ///
    /// # Errors
    /// [`BuildError::ForeignStore`]; `BadSetting` if there is swap already, if the room is less
    /// than two pages, or if the store may forget what it has written.
    pub fn set_swap(
        &self,
        store: &AttachedStore,
        object: ObjectId,
        length_bytes: u64,
    ) -> Result<(), BuildError> {
        self.engine.dirty.stores.check_own(&store.backing)?;
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
            vectors: IoVectors::new(store.backing.writes.vectors.count(), 1),
            ahead: SwapAhead::default(),
            retry: Mutex::new(SwapRetry::default()),
            clean_pages: AtomicU64::new(0),
            clean_pages_count: self.engine.kernel.values.counts_clean_swap,
        };
        self.engine
            .memory
            .swap
            .set(swap)
            .map_err(|_| bad("set once"))
    }

    /// Anonymous memory of `length_bytes`, all zeros at first: for sorts, hashes, temporary pages.
    /// It is written to swap when memory is short, and is gone with its last handle.
    ///
    /// # Errors
    /// [`BuildError::NoSwap`] if there is no swap, or if this is more than swap and memory can
    /// hold; `TooManyObjects`, `Closed`.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
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
        let object = self.engine.files.anonymous(pages_for(length_bytes))?;
        let caller = self.engine.accounts.ledger.next_handle();
        Ok(File::new(self.engine.clone(), object, false, caller))
    }

    /// Changes the memory budget while the cache runs. The budget cannot exceed the memory taken at
    /// start, which is [`Settings::memory_bytes`] or the sum of the zones that name their frames.
    /// Memory over a smaller budget goes back to the system.
    ///
    /// A smaller budget is reached with free frames and with frames that reclaim frees; limits on
    /// dirty pages and watermarks are those of the smaller cache at once. Returns the bytes that
    /// are still over the budget. It is 0, unless some pages are still held by guards, cannot be
    /// written or have nowhere to go after `held_timeout`, or after `answer_timeout` while
    /// something is dirty. Those pages follow in the background as soon as they can. If the future
    /// is dropped, all the rest happens in the background. If open objects take more than half of
    /// the budget, the surplus is over the budget too, but not part of the returned number
    /// ([`Statistics::object_bytes`]). A larger budget is available when the call returns.
    ///
    /// # Errors
    /// [`MemoryError`]; the budget is then as it was.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// let cache = Cache::new(Settings { memory_bytes: 64 << 20, ..Settings::default() })?;
    /// // Another program needs most of it for a while.
    /// assert_eq!(cache.set_memory(16 << 20).await?, 0);
    /// assert!(cache.statistics().memory_bytes <= 16 << 20);
    /// cache.set_memory(64 << 20).await?;
    /// assert_eq!(cache.statistics().nr_balloon_pages, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn set_memory(&self, memory_bytes: u64) -> Result<u64, MemoryError> {
        let call = self.engine.dirty.call_of(CallOf {
            caller: CallerKey::CACHE,
            bdi: None,
            kind: CallKind::Memory,
            offset_bytes: 0,
            bytes: memory_bytes,
        });
        let _waiting = self.engine.accounts.waiting(&call.waits, Cause::Memory);
        let pages_over = self.engine.reclaim.set_memory(memory_bytes).await?;
        Ok(byte_of(pages_over))
    }

    /// Lets the budget follow what is left of the memory of the machine, as
    /// [`Settings::elastic`] allows it. Call it when that changes, and at the latest after the time
    /// that it returns; none if the budget is not elastic. It never waits: what has to be given
    /// back follows in the background.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::settings::Elastic;
    /// # use forebay::{Cache, Settings};
    /// use forebay::elastic::{MemorySeen, Scarce};
    ///
    /// let elastic = Some(Elastic { floor_bytes: 16 << 20 });
    /// let settings = Settings { memory_bytes: 256 << 20, elastic, ..Settings::default() };
    /// let cache = Cache::new(settings)?;
    /// let mut seen = MemorySeen {
    ///     headroom_bytes: 1 << 30,
    ///     free_bytes: 1 << 30,
    ///     is_pressed: false,
    ///     scarce: Scarce::Machine,
    /// };
    /// let look = cache.memory_seen(&seen).expect("it is elastic");
    /// assert_eq!(look.step, None);
    /// // Somebody has taken nearly all of it.
    /// seen.headroom_bytes = 8 << 20;
    /// let step = cache.memory_seen(&seen).and_then(|look| look.step).expect("it gives");
    /// assert!(step.to_bytes < 256 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_seen(&self, seen: &MemorySeen) -> Option<MemoryLook> {
        self.engine.memory_seen(seen)
    }

    /// Makes reclaim ask `shrinker` for its part, as long as another `Arc` of it exists.
    pub fn add_shrinker<S: Shrinker + 'static>(&self, shrinker: &Arc<S>) {
        let shrinker: Weak<S> = Arc::downgrade(shrinker);
        self.engine.reclaim.capacity.shrinkers.add(shrinker);
    }

    /// Counters, gauges and limits at this instant.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics(false)
    }

    /// Who waited, for what, and who is to blame: in the time `last` before now, rounded up to five
    /// seconds, and to minutes if it is more than one. Without it, or with more than nine minutes,
    /// since the start. Waits that go on count from their first moment.
    pub fn why(&self, last: Option<Span>) -> Why {
        self.engine.why(last)
    }

    /// How long each caller waited for each store and cause, in the same window.
    pub fn wait_rows(&self, last: Option<Span>) -> Vec<WaitRow> {
        self.engine.wait_rows(last)
    }

    /// The waits that go on, the longest first. Beyond as many calls as the cache has places for,
    /// those that began last are left out, and count once they end.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// assert_eq!(cache.open_waits(), []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_waits(&self) -> Vec<OpenWait> {
        self.engine.open_waits()
    }

    /// How many pages each caller made dirty in each store, in the same window.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Caller, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let log = cache.open_for(&store, ObjectId(1), 0, &Caller::named("log"))?;
    /// log.write_at(&[7; 8192], 0).await?;
    /// // It is dirty already, or being written: most often this counts nothing.
    /// log.write_at(&[8; 100], 0).await?;
    /// drop(log);
    /// assert!(cache.dirtied_rows(None)[0].pages >= 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn dirtied_rows(&self, last: Option<Span>) -> Vec<DirtiedRow> {
        self.engine.dirtied_rows(last)
    }

    /// The statistics, and the age of the oldest dirty page of each store. To find it all dirty
    /// pages are looked through.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let store = cache.attach(std::sync::Arc::new(forebay_store::MemoryStore::new()))?;
    /// let statistics = cache.statistics_with_ages();
    /// assert_eq!(statistics.backings[0].oldest_dirty, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics_with_ages(&self) -> Statistics {
        self.engine.statistics(true)
    }

    /// How long calls waited and stores took, counted by length.
    pub fn histograms(&self) -> Histograms {
        self.engine.histograms()
    }

    /// Stalls: calls that took [`Settings::stall_threshold`] or longer from their first wait on.
    /// They ended in the time `last` before now; without it, all that are kept. The newest comes
    /// first.
    pub fn stalls(&self, last: Option<Span>) -> Vec<WaitedCall> {
        self.engine.stalls(last)
    }

    /// The latest turns of knobs, budgets and refused requests, those in the time `last` before
    /// now; without it, all that are kept. The oldest comes first.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Changes, Settings};
    /// use forebay::incident::Happening;
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// cache.retune(&Changes { swappiness: Some(10), ..Changes::default() })?;
    /// let happened = &cache.incidents(None)[0].what;
    /// assert!(matches!(happened, Happening::Turned { from, .. } if from.swappiness == Some(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn incidents(&self, last: Option<Span>) -> Vec<Incident> {
        self.engine.incidents(last)
    }

    /// The caller that has `key` in events.
    pub fn caller(&self, key: CallerKey) -> Caller {
        self.engine.accounts.ledger.caller(key)
    }

    /// The callers that have dirtied most lately, at most eight, with their parts of the dirty
    /// pages, the most pages first.
    pub fn heaviest_callers(&self) -> Vec<(Caller, u64)> {
        self.engine.heaviest_callers()
    }

    /// Turns knobs while the cache runs, and returns their old values. If one is refused, nothing
    /// changes.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`] with the allowed values, `ForeignStore`, `Memory`, `Closed`.
    pub fn retune(&self, changes: &Changes) -> Result<Changes, BuildError> {
        self.engine.retune(changes)
    }

    /// Every knob that [`Cache::retune`] can turn, as it is now.
    pub fn tuned(&self) -> Changes {
        self.engine.tuned()
    }

    /// How often knobs were turned. A program that shows them has to ask again only when this has
    /// changed.
    pub fn times_tuned(&self) -> u64 {
        self.engine.knobs.version()
    }

    /// Writes everything that is dirty in every object and makes it durable.
    ///
    /// # Errors
    /// The first [`SyncError`]; the other objects are synced nevertheless.
    pub async fn sync(&self) -> Result<(), SyncError> {
        let synced = self.engine.syncer.sync_all().await;
        self.engine.accounts.told(CallKind::Sync, synced)
    }

    /// Syncs, refuses new work, and ends the daemons.
    ///
    /// # Errors
    /// As [`Cache::sync`]; then the cache stays open, so that nothing dirty is lost.
    pub async fn close(&self) -> Result<(), SyncError> {
        self.engine.syncer.all_cuts_end().await?;
        self.sync().await?;
        self.engine.shut_down();
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
impl Cache {
    /// A cache of `mib` MiB on `rt`, whose memory is touched when it is used.
    pub(crate) fn small(rt: &forebay_rt::Rt, mib: u64) -> Cache {
        let parts = Parts {
            rt: rt.clone(),
            sink: None,
        };
        Cache::with_parts(Settings::small(mib), parts).expect("the settings are good")
    }
}
