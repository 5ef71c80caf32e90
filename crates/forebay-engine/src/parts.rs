//! The parts of a cache: what each of them owns, and which others it may use.
//!
//! A part holds the parts below it and none above, so the compiler keeps the arrows pointing down:
//!
//! | part | what it does |
//! |---|---|
//! | `Accounts` | is told what happens: counters, events, who waited for what, incidents |
//! | `Pages` | owns the memory: lookup, holds, lists, what is dirty in which object |
//! | `Dirty` | knows what is dirty and what may be: counts, limits, shares, rates of stores |
//! | `Writeback` | gives requests to stores and takes their answers: writes, commits, cuts |
//! | `Syncer` | makes durable what a caller asks for |
//! | `Flusher` | writes out in the background |
//! | `Throttle` | decides how long a writer pauses |
//! | `Capacity` | says how large the cache is, and forgets files to make room |
//! | `Reclaim` | finds a frame, now or in kswapd |
//! | `Files` | carries out reads, writes and cuts of files and of anonymous memory |
//!
//! The [engine](crate::engine) owns them all.

use crate::accounting::records::Records;
use crate::budget::Budget;
use crate::counters::Counter;
use crate::event::Event;
use crate::kernel::KernelValues;
use crate::marks::Mark;
use crate::memory::{FrameRequest, Memory, NodePolicy, Search};
use crate::settings::Settings;
use crate::state::activity::STANDS_STILL;
use crate::state::backing::Backing;
use crate::state::balloon::Balloon;
use crate::state::congestion::Congestion;
use crate::state::dirtied::Dirtied;
use crate::state::dirtier::Dirtier;
use crate::state::dirty_index::BlockSlab;
use crate::state::global::GlobalDirty;
use crate::state::incidents::Incidents;
use crate::state::knobs::Knobs;
use crate::state::ledger::Ledger;
use crate::state::node::Node;
use crate::state::object::{ObjectState, Origin};
use crate::state::objects::ObjectTable;
use crate::state::open_calls::OpenCalls;
use crate::state::payer::{DirtiedPages, Payer};
use crate::state::scan_control::ScanControl;
use crate::state::shrinkers::Shrinkers;
use crate::state::times::WaitTimes;
use crate::state::top_dirtiers::TopDirtiers;
use crate::state::vectors::IoVectors;
use crate::state::waits::Waits;
use crate::state::zone::Zone;
use crate::stores::Stores;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};

/// What happens in a cache is told here. Every other part uses it.
pub struct Accounts {
    pub(crate) rt: Rt,
    /// As they were at start. What changes since then is in `knobs`.
    pub(crate) settings: Arc<Settings>,
    pub records: Records,
    pub(crate) ledger: Ledger,
    pub(crate) dirtied: Dirtied,
    /// The calls that wait now.
    pub(crate) open_calls: OpenCalls,
    pub(crate) times: WaitTimes,
    pub(crate) top_dirtiers: TopDirtiers,
    pub(crate) incidents: Incidents,
    pub(crate) closing: AtomicBool,
    pub(crate) closed: WaitQueue,
}

/// The pages of a cache, and what is dirty in which object.
pub struct Pages {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub knobs: Arc<Knobs>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) accounts: Arc<Accounts>,
    pub memory: Arc<Memory>,
    pub(crate) slab: BlockSlab,
    pub objects: ObjectTable,
    pub(crate) vectors: IoVectors,
    pub(crate) balloon: Balloon,
}

/// What is dirty, and what may be.
pub struct Dirty {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub global: GlobalDirty,
    pub stores: Stores,
}

/// Requests to stores and their answers.
pub struct Writeback {
    pub(crate) me: Weak<Writeback>,
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    /// Read requests under way at all stores.
    pub(crate) reads_in_flight: AtomicU64,
}

impl Writeback {
    pub(crate) fn over(dirty: &Arc<Dirty>) -> Arc<Writeback> {
        Arc::new_cyclic(|me| Writeback {
            me: me.clone(),
            rt: dirty.rt.clone(),
            settings: dirty.settings.clone(),
            accounts: dirty.accounts.clone(),
            memory: dirty.memory.clone(),
            pages: dirty.pages.clone(),
            dirty: dirty.clone(),
            reads_in_flight: AtomicU64::new(0),
        })
    }
}

/// Makes durable what a caller asks for.
pub(crate) struct Syncer {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) writeback: Arc<Writeback>,
}

impl Syncer {
    pub(crate) fn over(writeback: &Arc<Writeback>) -> Arc<Syncer> {
        Arc::new(Syncer {
            rt: writeback.rt.clone(),
            settings: writeback.settings.clone(),
            accounts: writeback.accounts.clone(),
            memory: writeback.memory.clone(),
            pages: writeback.pages.clone(),
            dirty: writeback.dirty.clone(),
            writeback: writeback.clone(),
        })
    }
}

/// Writes out in the background.
pub struct Flusher {
    pub(crate) rt: Rt,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) writeback: Arc<Writeback>,
}

impl Flusher {
    pub(crate) fn over(writeback: &Arc<Writeback>) -> Arc<Flusher> {
        Arc::new(Flusher {
            rt: writeback.rt.clone(),
            kernel: writeback.pages.kernel.clone(),
            accounts: writeback.accounts.clone(),
            memory: writeback.memory.clone(),
            pages: writeback.pages.clone(),
            dirty: writeback.dirty.clone(),
            knobs: writeback.dirty.knobs.clone(),
            writeback: writeback.clone(),
        })
    }
}

/// Slows writers.
pub struct Throttle {
    pub rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub kernel: Arc<Kernel>,
    /// The pages of a store that has answered nothing for this long are left out when the writers
    /// of others are judged.
    pub(crate) stands_still: Span,
    pub accounts: Arc<Accounts>,
    pub memory: Arc<Memory>,
    pub dirty: Arc<Dirty>,
    pub flusher: Arc<Flusher>,
}

impl Throttle {
    pub(crate) fn over(flusher: &Arc<Flusher>) -> Arc<Throttle> {
        Arc::new(Throttle {
            rt: flusher.rt.clone(),
            kernel: flusher.kernel.clone(),
            stands_still: if flusher.kernel.values.is_paced {
                STANDS_STILL
            } else {
                Span::MAX
            },
            accounts: flusher.accounts.clone(),
            memory: flusher.memory.clone(),
            dirty: flusher.dirty.clone(),
            settings: flusher.writeback.settings.clone(),
            flusher: flusher.clone(),
        })
    }
}

/// How large the cache is, once objects have taken their part.
pub struct Capacity {
    pub(crate) settings: Arc<Settings>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub shrinkers: Shrinkers,
}

impl Capacity {
    pub(crate) fn over(dirty: &Arc<Dirty>, budget: &Arc<Budget>) -> Arc<Capacity> {
        Arc::new(Capacity {
            settings: dirty.settings.clone(),
            budget: budget.clone(),
            accounts: dirty.accounts.clone(),
            memory: dirty.memory.clone(),
            pages: dirty.pages.clone(),
            dirty: dirty.clone(),
            shrinkers: Shrinkers::default(),
        })
    }
}

/// Finds frames, and makes the cache as large as it may be.
pub struct Reclaim {
    pub(crate) me: Weak<Reclaim>,
    pub rt: Rt,
    pub settings: Arc<Settings>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) budget: Arc<Budget>,
    pub accounts: Arc<Accounts>,
    pub memory: Arc<Memory>,
    pub pages: Arc<Pages>,
    pub dirty: Arc<Dirty>,
    pub writeback: Arc<Writeback>,
    pub capacity: Arc<Capacity>,
    /// Which stores are congested, for policies that ask.
    pub congestion: Arc<Congestion>,
}

impl Reclaim {
    pub(crate) fn over(writeback: &Arc<Writeback>, budget: &Arc<Budget>) -> Arc<Reclaim> {
        Arc::new_cyclic(|me| Reclaim {
            me: me.clone(),
            rt: writeback.rt.clone(),
            settings: writeback.settings.clone(),
            kernel: writeback.pages.kernel.clone(),
            accounts: writeback.accounts.clone(),
            memory: writeback.memory.clone(),
            pages: writeback.pages.clone(),
            dirty: writeback.dirty.clone(),
            budget: budget.clone(),
            writeback: writeback.clone(),
            capacity: Capacity::over(&writeback.dirty, budget),
            congestion: Arc::default(),
        })
    }
}

/// Carries out the calls of files.
pub(crate) struct Files {
    pub(crate) me: Weak<Files>,
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) writeback: Arc<Writeback>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) reclaim: Arc<Reclaim>,
}

impl Files {
    pub(crate) fn over(
        writeback: &Arc<Writeback>,
        throttle: &Arc<Throttle>,
        reclaim: &Arc<Reclaim>,
    ) -> Arc<Files> {
        Arc::new_cyclic(|me| Files {
            me: me.clone(),
            rt: writeback.rt.clone(),
            settings: writeback.settings.clone(),
            accounts: writeback.accounts.clone(),
            memory: writeback.memory.clone(),
            pages: writeback.pages.clone(),
            dirty: writeback.dirty.clone(),
            writeback: writeback.clone(),
            throttle: throttle.clone(),
            reclaim: reclaim.clone(),
        })
    }
}

/// How many writers may pause at a time before the queue of waiters grows.
const PAUSES: usize = 64;

impl Accounts {
    /// Nothing has happened yet.
    pub(crate) fn new(
        rt: &Rt,
        settings: &Arc<Settings>,
        budget: &Budget,
        records: Records,
    ) -> Accounts {
        Accounts {
            rt: rt.clone(),
            settings: settings.clone(),
            records,
            ledger: Ledger::with_room(budget.ledger_room()),
            dirtied: Dirtied::with_rows(budget.ledger_room().rows),
            open_calls: OpenCalls::with_places(budget.ledger_room().places()),
            times: WaitTimes::default(),
            top_dirtiers: TopDirtiers::default(),
            incidents: Incidents::default(),
            closing: AtomicBool::new(false),
            closed: WaitQueue::with_room(PAUSES),
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub fn now_ms(&self) -> u64 {
        self.rt.now().as_millis()
    }

    pub fn record(&self, event: &Event) {
        self.records.record(self.rt.now(), event);
    }

    /// As [`Accounts::record`], for an event that is costly to make.
    pub(crate) fn record_with(&self, event: impl FnOnce() -> Event) {
        if self.records.has_listener() {
            self.record(&event());
        }
    }

    /// Notes that something went wrong and where it was handled.
    pub(crate) fn mark(&self, mark: Mark) {
        self.records.mark(mark);
    }

    pub fn count(&self, counter: Counter, count: u64) {
        self.records.count(counter, count);
    }
}

impl Dirty {
    /// The backing of a file's object, or of swap.
    pub fn backing_of(&self, object: &ObjectState) -> Arc<Backing> {
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
}

impl Drop for Dirty {
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

impl Writeback {
    /// The part as a shared pointer, for its tasks and its requests.
    pub fn shared(&self) -> Arc<Writeback> {
        self.me
            .upgrade()
            .expect("the caller of a method keeps the part alive")
    }
}

impl Reclaim {
    /// The part as a shared pointer, for its tasks.
    pub(crate) fn shared(&self) -> Arc<Reclaim> {
        self.me
            .upgrade()
            .expect("the caller of a method keeps the part alive")
    }
}

impl Files {
    /// The part as a shared pointer, for its tasks.
    pub(crate) fn shared(&self) -> Arc<Files> {
        self.me
            .upgrade()
            .expect("the caller of a method keeps the part alive")
    }
}

/// A kernel that a cache works like. The default is today's.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Values with which the state is made.
    pub values: KernelValues,
    /// The flows of an older kernel. None if all are today's.
    pub flows: Option<Arc<dyn OlderFlows>>,
}

/// What a flow of an older kernel returns.
pub type Flow<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The flows of an older kernel, each in place of the flow of today that a door names.
pub trait OlderFlows: fmt::Debug + Send + Sync {
    /// Reclaims for a caller that found no frame. Returns the pages freed.
    fn reclaim_for<'a>(
        &'a self,
        reclaim: &'a Reclaim,
        waits: &'a Waits,
        want: FrameRequest,
    ) -> Flow<'a, u64>;

    /// Reclaims where `node_policy` says, as `control` says.
    fn reclaim_near<'a>(
        &'a self,
        reclaim: &'a Reclaim,
        node_policy: NodePolicy,
        control: &'a mut ScanControl<'_>,
    ) -> Flow<'a, ()>;

    /// The life of the kswapd of `node`.
    fn kswapd<'a>(&'a self, reclaim: &'a Reclaim, node: usize) -> Flow<'a, ()>;

    /// Whether kswapd has nothing to do for a request of `class`.
    fn need_not_wake(&self, reclaim: &Reclaim, node: &Node, class: usize) -> bool;

    /// Whether a caller tries once more to find a frame.
    fn tries_again<'a>(&'a self, reclaim: &'a Reclaim, search: Search) -> Flow<'a, bool>;

    /// How many pages a turn of the flusher writes, if the round has `pages_left`.
    fn turn_pages(&self, flusher: &Flusher, backing: &Backing, pages_left: u64) -> u64;

    /// Whether a page may be dirtied in `zone`, which is one of several.
    fn zone_takes_dirty(&self, pages: &Pages, zone: &Zone) -> bool;

    /// Notes that a writer made clean pages dirty. True if it has to be evaluated.
    fn note_dirtied(&self, throttle: &Throttle, dirtied: &DirtiedPages<'_>) -> bool;

    /// Pages that a writer may make dirty before it has to be evaluated.
    fn quota_left(&self, throttle: &Throttle, backing: &Backing, dirtier: &Dirtier) -> u64;

    /// Lets a writer pay for what it dirtied.
    fn throttle<'a>(&'a self, throttle: &'a Throttle, payer: Payer<'a>) -> Flow<'a, ()>;
}
