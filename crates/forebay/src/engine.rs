//! The engine: what a cache is made of, and how it is built.

use crate::books::elastic::ElasticBook;
use crate::books::records::Records;
use crate::books::size::Balloon;
use crate::budget::{Budget, object_room_bytes};
use crate::counters::Counter;
use crate::error::BuildError;
use crate::event::Event;
use crate::layout::lay_out;
use crate::marks::Mark;
use crate::memory::Memory;
use crate::policy::{ClosedFiles, Past};
use crate::settings::{Parts, Settings};
use crate::state::arena::Arena;
use crate::state::backing::Backing;
use crate::state::congestion::Congestion;
use crate::state::dirtied::Dirtied;
use crate::state::dirty_index::BlockSlab;
use crate::state::frame::FrameTable;
use crate::state::global::GlobalDirty;
use crate::state::heaviest::Heaviest;
use crate::state::incidents::Incidents;
use crate::state::knobs::{KnobValues, Knobs};
use crate::state::ledger::Ledger;
use crate::state::object::{ObjectState, Origin};
use crate::state::objects::ObjectTable;
use crate::state::open_calls::OpenCalls;
use crate::state::shrinkers::Shrinkers;
use crate::state::times::WaitTimes;
use crate::state::vectors::IoVectors;
use crate::stores::Stores;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_law::limits::dirty_limits;
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Io, IoKind, PagePointer, Request};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// How many writers may pause at a time before the queue of waiters grows.
const PAUSES: usize = 64;

/// All of a cache. Flows borrow it; the daemons and the requests in flight share it.
pub(crate) struct Engine {
    me: Weak<Engine>,
    /// As they were at start. What changes since then is in `knobs`.
    pub(crate) settings: Settings,
    pub(crate) knobs: Knobs,
    /// What the policy takes over from older kernels.
    pub(crate) past: Past,
    pub(crate) budget: Budget,
    pub(crate) rt: Rt,
    pub(crate) records: Records,
    pub(crate) ledger: Ledger,
    pub(crate) dirtied: Dirtied,
    /// The calls that wait now.
    pub(crate) open_calls: OpenCalls,
    pub(crate) times: WaitTimes,
    pub(crate) heaviest: Heaviest,
    pub(crate) incidents: Incidents,
    pub(crate) memory: Memory,
    pub(crate) slab: BlockSlab,
    pub(crate) balloon: Balloon,
    pub(crate) elastic: Mutex<ElasticBook>,
    pub(crate) objects: ObjectTable,
    pub(crate) shrinkers: Shrinkers,
    pub(crate) stores: Stores,
    pub(crate) global: GlobalDirty,
    pub(crate) vectors: IoVectors,
    /// Which stores are congested, for policies that ask.
    pub(crate) congestion: Arc<Congestion>,
    /// Read requests under way at all stores.
    pub(crate) reads_in_flight: AtomicU64,
    closing: AtomicBool,
    pub(crate) closed: WaitQueue,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine whose daemons do not run yet.
    pub(crate) fn new(settings: Settings, parts: Parts) -> Result<Arc<Engine>, BuildError> {
        let budget = Budget::checked(&settings)?;
        let no_memory = |error: std::io::Error| BuildError::NoMemory {
            bytes: settings.memory_bytes,
            errno: error.raw_os_error().unwrap_or(0),
        };
        let arena = Arena::new(budget.frames, settings.page_memory, settings.prefault)
            .map_err(no_memory)?;
        let frames = FrameTable::new(arena, budget.wait_queues);
        let zones_and_nodes = lay_out(&settings, &budget);
        let records = Records::new(parts.sink);
        let memory = Memory::new(
            frames,
            zones_and_nodes,
            &settings.policy,
            records.counters.clone(),
        );
        let limit_pages = dirty_limits(memory.dirtyable_pages(), &settings.dirty).thresh;
        let engine = Arc::new_cyclic(|me| Engine {
            me: me.clone(),
            memory,
            slab: BlockSlab::new(budget.dirty_blocks),
            objects: ObjectTable::new(
                settings.objects_limit,
                settings.policy.closed_files <= ClosedFiles::Stripped,
            ),
            shrinkers: Shrinkers::default(),
            vectors: IoVectors::new(budget.io_vectors, budget.io_vector_pages),
            rt: parts.rt,
            records,
            ledger: Ledger::with_room(budget.ledger_room()),
            dirtied: Dirtied::with_rows(budget.ledger_room().rows),
            open_calls: OpenCalls::with_places(budget.ledger_room().places()),
            times: WaitTimes::default(),
            heaviest: Heaviest::default(),
            incidents: Incidents::default(),
            knobs: Knobs::new(&KnobValues::of(&settings)),
            balloon: Balloon {
                memory_bytes: AtomicU64::new(budget.limit_bytes(&settings)),
                ..Balloon::default()
            },
            elastic: Mutex::default(),
            stores: Stores::new(),
            global: GlobalDirty::new(&settings.policy, limit_pages),
            congestion: Arc::default(),
            reads_in_flight: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            closed: WaitQueue::with_room(PAUSES),
            past: Past::of(&settings.policy),
            settings,
            budget,
        });
        let memory_bytes = engine.budget.limit_bytes(&engine.settings);
        engine
            .objects
            .set_room(object_room_bytes(&engine.settings, memory_bytes));
        Ok(engine)
    }

    /// The engine as a shared pointer, for its daemons and requests.
    pub(crate) fn shared(&self) -> Arc<Engine> {
        self.me
            .upgrade()
            .expect("the caller of a method keeps the engine alive")
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Tells the daemons to end.
    pub(crate) fn shut_down(&self) {
        self.closing.store(true, Ordering::Release);
        self.closed.wake_all();
        // The task that fills the balloons waits for writes to end.
        self.slab.freed.wake_all();
        for node in &self.memory.nodes {
            node.wake_kswapd.wake_all();
        }
        for backing in self.stores.all() {
            backing.requests.wake();
            backing.wake_committer.wake_all();
            drop(lock(&backing.attachment).take());
        }
    }

    /// A request for pages of this cache to the store of `backing`.
    pub(crate) fn page_io(
        &self,
        backing: &Backing,
        request: Request,
        (pages, token): (Vec<PagePointer>, u64),
    ) -> Io {
        let arena = self.memory.frames.arena();
        let io = if arena.is_phantom() {
            Io::without_bytes(request, pages, self.shared(), token)
        } else {
            Io::new(request, pages, self.shared(), token).in_memory(arena.memory())
        };
        let io = io.submitted_at(self.rt.now());
        let may_change = request.kind == IoKind::Write && !backing.geometry.stable_pages;
        if may_change { io.changing() } else { io }
    }

    /// Gives `io` to the store of `backing`, whose panics end here: they are the fault of the
    /// store, and its other requests and other stores have no part in it.
    pub(crate) fn submit(&self, backing: &Backing, io: Io) {
        let submit = AssertUnwindSafe(|| backing.store.submit(io));
        if catch_unwind(submit).is_err() {
            self.mark(Mark::StorePanicked);
            if !backing.has_panicked.swap(true, Ordering::Relaxed) {
                let number = backing.number;
                forebay_rt::say(format_args!(
                    "store {number} panicked when a request was submitted; if it still had the \
                     request, that has failed, and the store gets others as before"
                ));
            }
        }
    }

    /// The backing of a file's object, or of swap.
    pub(crate) fn backing_of(&self, object: &ObjectState) -> Arc<Backing> {
        match &object.origin {
            Origin::File { backing, .. } => self.stores.get(*backing),
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
        self.records.record(self.rt.now(), event);
    }

    /// As [`Engine::record`], for an event that is costly to make.
    pub(crate) fn record_with(&self, event: impl FnOnce() -> Event) {
        if self.records.has_listener() {
            self.record(&event());
        }
    }

    /// Notes that something went wrong and where it was handled.
    pub(crate) fn mark(&self, mark: Mark) {
        self.records.mark(mark);
    }

    pub(crate) fn count(&self, counter: Counter, count: u64) {
        self.records.count(counter, count);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.memory.frames.arena().is_phantom() {
            return;
        }
        let memory = self.memory.frames.arena().memory();
        memory.close();
        for backing in self.stores.all() {
            backing.store.forget_memory(memory);
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Engine {
    /// An engine of 4 MiB on `rt` under `policy`, without daemons.
    pub(crate) fn alone(rt: Rt, policy: crate::policy::Policy) -> Arc<Engine> {
        let parts = Parts { rt, sink: None };
        Engine::new(Settings::small(4, policy), parts).expect("the settings are good")
    }
}
