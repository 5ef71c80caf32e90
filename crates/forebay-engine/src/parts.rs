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
use crate::marks::Mark;
use crate::memory::Memory;
use crate::policy::{DirtyThrottle, Past};
use crate::settings::Settings;
use crate::state::activity::STANDS_STILL;
use crate::state::backing::Backing;
use crate::state::balloon::Balloon;
use crate::state::congestion::Congestion;
use crate::state::dirtied::Dirtied;
use crate::state::dirty_index::BlockSlab;
use crate::state::global::GlobalDirty;
use crate::state::heaviest::Heaviest;
use crate::state::incidents::Incidents;
use crate::state::knobs::Knobs;
use crate::state::ledger::Ledger;
use crate::state::object::{ObjectState, Origin};
use crate::state::objects::ObjectTable;
use crate::state::open_calls::OpenCalls;
use crate::state::shrinkers::Shrinkers;
use crate::state::times::WaitTimes;
use crate::state::vectors::IoVectors;
use crate::stores::Stores;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use std::sync::{Arc, Weak};

/// What happens in a cache is told here. Every other part uses it.
pub(crate) struct Accounts {
    pub(crate) rt: Rt,
    /// As they were at start. What changes since then is in `knobs`.
    pub(crate) settings: Arc<Settings>,
    pub(crate) records: Records,
    pub(crate) ledger: Ledger,
    pub(crate) dirtied: Dirtied,
    /// The calls that wait now.
    pub(crate) open_calls: OpenCalls,
    pub(crate) times: WaitTimes,
    pub(crate) heaviest: Heaviest,
    pub(crate) incidents: Incidents,
    pub(crate) closing: AtomicBool,
    pub(crate) closed: WaitQueue,
}

/// The pages of a cache, and what is dirty in which object.
pub(crate) struct Pages {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) past: Past,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) slab: BlockSlab,
    pub(crate) objects: ObjectTable,
    pub(crate) vectors: IoVectors,
    pub(crate) balloon: Balloon,
}

/// What is dirty, and what may be.
pub(crate) struct Dirty {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) global: GlobalDirty,
    pub(crate) stores: Stores,
}

/// Requests to stores and their answers.
pub(crate) struct Writeback {
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
pub(crate) struct Flusher {
    pub(crate) rt: Rt,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) past: Past,
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
            past: writeback.pages.past,
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
pub(crate) struct Throttle {
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) past: Past,
    /// How pauses are cut, and whether that is fine.
    pub(crate) cut: DirtyThrottle,
    pub(crate) is_paced: bool,
    /// The pages of a store that has answered nothing for this long are left out when the writers
    /// of others are judged.
    pub(crate) stands_still: Span,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) flusher: Arc<Flusher>,
}

impl Throttle {
    pub(crate) fn over(flusher: &Arc<Flusher>) -> Arc<Throttle> {
        let cut = flusher.writeback.settings.policy.dirty_throttle;
        Arc::new(Throttle {
            rt: flusher.rt.clone(),
            past: flusher.past,
            cut,
            is_paced: cut == DirtyThrottle::Paced,
            stands_still: if cut == DirtyThrottle::Paced {
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
pub(crate) struct Capacity {
    pub(crate) settings: Arc<Settings>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) shrinkers: Shrinkers,
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
pub(crate) struct Reclaim {
    pub(crate) me: Weak<Reclaim>,
    pub(crate) rt: Rt,
    pub(crate) settings: Arc<Settings>,
    pub(crate) past: Past,
    pub(crate) budget: Arc<Budget>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) dirty: Arc<Dirty>,
    pub(crate) writeback: Arc<Writeback>,
    pub(crate) capacity: Arc<Capacity>,
    /// Which stores are congested, for policies that ask.
    pub(crate) congestion: Arc<Congestion>,
}

impl Reclaim {
    pub(crate) fn over(writeback: &Arc<Writeback>, budget: &Arc<Budget>) -> Arc<Reclaim> {
        Arc::new_cyclic(|me| Reclaim {
            me: me.clone(),
            rt: writeback.rt.clone(),
            settings: writeback.settings.clone(),
            past: writeback.pages.past,
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
            heaviest: Heaviest::default(),
            incidents: Incidents::default(),
            closing: AtomicBool::new(false),
            closed: WaitQueue::with_room(PAUSES),
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.rt.now().as_millis()
    }

    pub(crate) fn record(&self, event: &Event) {
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

    pub(crate) fn count(&self, counter: Counter, count: u64) {
        self.records.count(counter, count);
    }
}

impl Dirty {
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
    pub(crate) fn shared(&self) -> Arc<Writeback> {
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
