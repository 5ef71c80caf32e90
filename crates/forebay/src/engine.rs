//! The engine: what a cache is made of, and how it is built.

use crate::budget::Budget;
use crate::counters::{Counter, Counters};
use crate::error::BuildError;
use crate::event::{Event, EventSink};
use crate::layout::lay_out;
use crate::marks::{Mark, Marks};
use crate::memory::Memory;
use crate::policy::{ClosedFiles, Refaults, WriteDepth};
use crate::settings::{BackingSettings, Parts, Settings};
use crate::state::arena::Arena;
use crate::state::backing::Backing;
use crate::state::congestion::Congestion;
use crate::state::dirty_index::BlockSlab;
use crate::state::frame::FrameTable;
use crate::state::global::GlobalDirty;
use crate::state::object::{ObjectState, Origin};
use crate::state::objects::ObjectTable;
use crate::state::shadow::Shadows;
use crate::state::shrinkers::Shrinkers;
use crate::state::vectors::IoVectors;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::limits::{DirtyLimits, dirty_limits};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::Store;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// Writers that may pause at a time before the queue of those who wait grows.
const PAUSES: usize = 64;
/// Commits of one store that may be under way at a time: those of other objects wait.
const COMMITTERS: usize = 8;
/// Most writes of one store that may be under way at a time.
const OWN_VECTORS: u32 = 128;

/// Everything that a cache is. Flows borrow it; the daemons and the requests in flight share it.
pub(crate) struct Engine {
    me: Weak<Engine>,
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) rt: Rt,
    sink: Option<Arc<dyn EventSink>>,
    /// The sink panicked: it is not called any more.
    sink_failed: AtomicBool,
    pub(crate) counters: Arc<Counters>,
    marks: Marks,
    pub(crate) memory: Memory,
    pub(crate) slab: BlockSlab,
    pub(crate) balloon: Balloon,
    pub(crate) objects: ObjectTable,
    pub(crate) shrinkers: Shrinkers,
    backings: Mutex<Vec<Arc<Backing>>>,
    /// Sum of all stores' guaranteed parts of the dirty limit, percent.
    min_percent_sum: AtomicU64,
    pub(crate) global: GlobalDirty,
    pub(crate) vectors: IoVectors,
    pub(crate) congestion: Congestion,
    /// Read requests that stores have now.
    pub(crate) reads_in_flight: AtomicU64,
    closing: AtomicBool,
    pub(crate) closed: WaitQueue,
}

/// How far a budget that became smaller is met.
#[derive(Debug, Default)]
pub(crate) struct Balloon {
    /// The budget in bytes. One caller changes it, and the sizes of the zones, at a time.
    pub(crate) memory_bytes: Mutex<u64>,
    /// What was taken off the pages for objects; changed under the lock above.
    pub(crate) charged_bytes: AtomicU64,
    /// The place of the closed file that was asked last to make room for a smaller budget.
    pub(crate) room_hand: AtomicU64,
    /// A task fills the balloons of the zones.
    pub(crate) is_filling: AtomicBool,
    /// Told when it has filled something.
    pub(crate) changed: WaitQueue,
    /// Stores were told to forget the memory, parts of which are the system's now. Changed under
    /// the lock of the stores.
    has_forgotten: AtomicBool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(settings: Settings, parts: Parts) -> Result<Arc<Engine>, BuildError> {
        settings.check()?;
        let budget = Budget::plan(&settings)?;
        let no_memory = |error: std::io::Error| BuildError::NoMemory {
            bytes: settings.memory_bytes,
            errno: error.raw_os_error().unwrap_or(0),
        };
        let arena = Arena::new(budget.frames, settings.page_memory, settings.prefault)
            .map_err(no_memory)?;
        let frames = FrameTable::new(arena, budget.wait_queues);
        let zones_and_nodes = lay_out(&settings, &budget, &frames);
        let shadows = Shadows::new(match settings.policy.refaults {
            Refaults::Ignored => 0,
            Refaults::OfReads | Refaults::Activated => budget.frames,
        });
        let counters = Arc::new(Counters::new());
        let memory = Memory::new(frames, zones_and_nodes, shadows, counters.clone());
        let engine = Arc::new_cyclic(|me| Engine {
            me: me.clone(),
            memory,
            slab: BlockSlab::new(budget.dirty_blocks),
            objects: ObjectTable::new(
                settings.objects_limit,
                settings.policy.closed_files == ClosedFiles::Stripped,
            ),
            shrinkers: Shrinkers::default(),
            vectors: IoVectors::new(budget.io_vectors, budget.io_vector_pages),
            rt: parts.rt,
            sink: parts.sink,
            sink_failed: AtomicBool::new(false),
            counters,
            marks: Marks::new(),
            balloon: Balloon {
                memory_bytes: Mutex::new(budget.limit_bytes(&settings)),
                ..Balloon::default()
            },
            backings: Mutex::new(Vec::new()),
            min_percent_sum: AtomicU64::new(0),
            global: GlobalDirty::default(),
            congestion: Congestion::default(),
            reads_in_flight: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            closed: WaitQueue::with_room(PAUSES),
            settings,
            budget,
        });
        let memory_bytes = engine.budget.limit_bytes(&engine.settings);
        engine.make_room_for_objects(memory_bytes);
        for node in 0..engine.memory.nodes.len() {
            let keeper = engine.clone();
            engine
                .rt
                .spawn("kswapd", async move { keeper.kswapd(node).await });
        }
        Ok(engine)
    }

    /// Makes `store` known and starts its flusher.
    pub(crate) fn attach(
        self: &Arc<Self>,
        store: Arc<dyn Store>,
        settings: BackingSettings,
    ) -> Result<Arc<Backing>, BuildError> {
        if self.is_closing() {
            return Err(BuildError::Closed);
        }
        settings.check()?;
        let geometry = store.geometry();
        if geometry.max_io_pages == 0 {
            return Err(BuildError::BadSetting {
                setting: "max_io_pages of the store",
                given: geometry.max_io_pages.to_string(),
                allowed: "at least 1",
            });
        }
        let mut backings = lock(&self.backings);
        let min_sum: u64 = backings
            .iter()
            .map(|other| other.settings.min_ratio_percent)
            .sum();
        if min_sum + settings.min_ratio_percent >= 100 {
            return Err(BuildError::BadSetting {
                setting: "min_ratio_percent",
                given: settings.min_ratio_percent.to_string(),
                allowed: "less than 100 over all stores together",
            });
        }
        let has_forgotten = self.balloon.has_forgotten.load(Ordering::Relaxed);
        if !self.memory.frames.arena().is_phantom() && !has_forgotten {
            let (base, bytes) = self.memory.frames.arena().region();
            store.register_memory(base, bytes);
        }
        let vectors = self.vectors_of(store.geometry().queue_depth, settings.queue_requests);
        let number = backings.len();
        let backing = Backing::new(number, store, settings, vectors, self.now_ms());
        let backing = Arc::new(backing);
        backings.push(backing.clone());
        self.min_percent_sum
            .store(min_sum + settings.min_ratio_percent, Ordering::Relaxed);
        drop(backings);
        let (engine, of) = (self.clone(), backing.clone());
        self.rt
            .spawn("flusher", async move { engine.flusher(of).await });
        for _ in 0..COMMITTERS {
            let (engine, of) = (self.clone(), backing.clone());
            self.rt
                .spawn("committer", async move { engine.committer(of).await });
        }
        Ok(backing)
    }

    /// The vectors that a store has for itself. Where its queue is to run full each request has a
    /// long one, beside the budget: only historic policies want that.
    fn vectors_of(&self, queue_depth: u32, queue_requests: u32) -> IoVectors {
        let (count, pages) = match self.settings.policy.write_depth {
            WriteDepth::FullQueue => (queue_depth.min(queue_requests), self.vectors.half_pages()),
            WriteDepth::FifthOfSecond => (queue_depth.min(OWN_VECTORS), self.vectors.short_pages()),
        };
        IoVectors::new(count.max(1) as usize, pages)
    }

    /// Makes the object of `origin` known, or finds it if it is.
    pub(crate) fn open(
        &self,
        origin: Origin,
        length_bytes: u64,
    ) -> Result<Arc<ObjectState>, BuildError> {
        if self.is_closing() {
            return Err(BuildError::Closed);
        }
        let limit_bytes = crate::file::LONGEST_BYTES;
        if length_bytes > limit_bytes {
            return Err(BuildError::TooLong {
                length_bytes,
                limit_bytes,
            });
        }
        let limit = self.settings.objects_limit;
        let forget = |object: &ObjectState| self.forget_object(object);
        let opened = self.objects.open(origin, length_bytes, forget);
        self.charge_objects();
        opened.ok_or(BuildError::TooManyObjects { limit })
    }

    /// The engine as its daemons and requests share it.
    pub(crate) fn shared(&self) -> Arc<Engine> {
        self.me
            .upgrade()
            .expect("whoever calls a method keeps the engine alive")
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Tells the daemons to end.
    pub(crate) fn shut_down(&self) {
        self.closing.store(true, Ordering::Release);
        self.closed.wake_all();
        // The task that fills the balloons waits for writes that end.
        self.slab.freed.wake_all();
        for node in &self.memory.nodes {
            node.wake_kswapd.wake_all();
        }
        for backing in self.backings() {
            backing.requests.wake();
            backing.wake_committer.wake_all();
        }
    }

    pub(crate) fn min_percent_sum(&self) -> u64 {
        self.min_percent_sum.load(Ordering::Relaxed)
    }

    pub(crate) fn backings(&self) -> Vec<Arc<Backing>> {
        lock(&self.backings).clone()
    }

    /// Calls `look` with each store, without the memory of a list of them.
    pub(crate) fn for_each_backing(&self, mut look: impl FnMut(&Backing)) {
        for backing in lock(&self.backings).iter() {
            look(backing);
        }
    }

    pub(crate) fn backing(&self, number: usize) -> Arc<Backing> {
        lock(&self.backings)[number].clone()
    }

    /// The backing of a file's object, or of swap.
    pub(crate) fn backing_of(&self, object: &ObjectState) -> Arc<Backing> {
        match &object.origin {
            Origin::File { backing, .. } => self.backing(*backing),
            Origin::Anonymous { .. } => self
                .memory
                .swap
                .get()
                .expect("anonymous memory needs swap")
                .backing
                .clone(),
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.rt.now().as_millis()
    }

    pub(crate) fn record(&self, event: &Event) {
        let Some(sink) = &self.sink else { return };
        if self.sink_failed.load(Ordering::Relaxed) {
            return;
        }
        // Somebody else's code, in the middle of ours: the flusher does not end with it.
        let record = AssertUnwindSafe(|| sink.record(self.rt.now(), event));
        if catch_unwind(record).is_err() && !self.sink_failed.swap(true, Ordering::Relaxed) {
            forebay_rt::say("the sink for events panicked; it gets no more of them");
        }
    }

    /// As [`Engine::record`], for an event that is not free to make.
    pub(crate) fn record_with(&self, event: impl FnOnce() -> Event) {
        if self.sink.is_some() {
            self.record(&event());
        }
    }

    /// Something went wrong, and this is where it was taken care of.
    pub(crate) fn mark(&self, mark: Mark) {
        self.marks.reach(mark);
    }

    pub(crate) fn times_reached(&self, mark: Mark) -> u32 {
        self.marks.reached(mark)
    }

    pub(crate) fn count(&self, counter: Counter, count: u64) {
        self.counters.add(counter, count);
    }

    /// Lets all stores forget the memory before parts of it are given up: one that has it
    /// registered would go on using what was there.
    pub(crate) fn forget_memory(&self) {
        let arena = self.memory.frames.arena();
        let backings = lock(&self.backings);
        if !self.balloon.has_forgotten.swap(true, Ordering::Relaxed) && !arena.is_phantom() {
            arena.want_huge_pages(false);
            let (base, bytes) = arena.region();
            for backing in backings.iter() {
                backing.store.forget_memory(base, bytes);
            }
        }
    }

    /// Tells all stores of the memory again, now that none of it is given up.
    pub(crate) fn remember_memory(&self) {
        let arena = self.memory.frames.arena();
        let backings = lock(&self.backings);
        if self.balloon.has_forgotten.swap(false, Ordering::Relaxed) && !arena.is_phantom() {
            arena.want_huge_pages(true);
            let (base, bytes) = arena.region();
            for backing in backings.iter() {
                backing.store.register_memory(base, bytes);
            }
        }
    }

    /// The dirty limits of the whole cache. However they were set, a quarter of the memory stays
    /// clean, so that reclaim always finds something.
    pub(crate) fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable = self.memory.dirtyable_pages();
        let mut limits = dirty_limits(dirtyable, &self.settings.dirty);
        let cap = dirtyable - dirtyable / 4;
        limits.thresh = limits.thresh.min(cap);
        limits.background = limits.background.min(cap - cap / 8);
        limits
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.memory.frames.arena().is_phantom() {
            return;
        }
        let (base, bytes) = self.memory.frames.arena().region();
        for backing in self.backings() {
            backing.store.forget_memory(base, bytes);
        }
    }
}
