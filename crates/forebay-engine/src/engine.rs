//! The engine: what a cache is made of, and how it is built.

use crate::accounting::records::Records;
use crate::budget::{Budget, object_room_bytes};
use crate::error::BuildError;
use crate::kernel::KernelValues;
use crate::layout::lay_out;
use crate::memory::Memory;
use crate::parts::{
    Accounts, Dirty, Files, Flusher, Kernel, Pages, Reclaim, Syncer, Throttle, Writeback,
};
use crate::settings::{Parts, Settings};
use crate::state::arena::Arena;
use crate::state::balloon::Balloon;
use crate::state::dirty_index::BlockSlab;
use crate::state::elastic::ElasticBook;
use crate::state::frame::FrameTable;
use crate::state::global::GlobalDirty;
use crate::state::knobs::{KnobValues, Knobs};
use crate::state::objects::ObjectTable;
use crate::state::vectors::IoVectors;
use crate::stores::Stores;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_law::limits::dirty_limits;
use forebay_rt::Rt;
use std::fmt;
use std::sync::Arc;

/// All of a cache: it owns the parts, and builds, tunes and explains them.
pub struct Engine {
    pub(crate) rt: Rt,
    pub settings: Arc<Settings>,
    pub(crate) knobs: Arc<Knobs>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) elastic: Mutex<ElasticBook>,
    pub accounts: Arc<Accounts>,
    pub memory: Arc<Memory>,
    pub pages: Arc<Pages>,
    pub dirty: Arc<Dirty>,
    pub(crate) writeback: Arc<Writeback>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) throttle: Arc<Throttle>,
    pub reclaim: Arc<Reclaim>,
    pub(crate) files: Arc<Files>,
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
    pub fn new(
        settings: Settings,
        parts: Parts,
        kernel: Kernel,
    ) -> Result<Arc<Engine>, BuildError> {
        let budget = Budget::checked(&settings)?;
        let records = Records::new(parts.sink);
        let memory = Arc::new(memory_of(&settings, &budget, &kernel.values, &records)?);
        let limit_pages = dirty_limits(memory.dirtyable_pages(), &settings.dirty).thresh;
        let (rt, kernel) = (parts.rt, Arc::new(kernel));
        let (settings, budget) = (Arc::new(settings), Arc::new(budget));
        let knobs = Arc::new(Knobs::new(&KnobValues::of(&settings)));
        let accounts = Arc::new(Accounts::new(&rt, &settings, &budget, records));
        let pages = Arc::new(Pages {
            slab: BlockSlab::new(budget.dirty_blocks),
            objects: ObjectTable::new(settings.objects_limit, kernel.values.strips_closed_files),
            vectors: IoVectors::new(budget.io_vectors, budget.io_vector_pages),
            balloon: Balloon {
                memory_bytes: AtomicU64::new(budget.limit_bytes(&settings)),
                ..Balloon::default()
            },
            memory: memory.clone(),
            kernel: kernel.clone(),
            rt: rt.clone(),
            settings: settings.clone(),
            knobs: knobs.clone(),
            accounts: accounts.clone(),
        });
        let dirty = Arc::new(Dirty {
            global: GlobalDirty::new(&kernel.values, limit_pages),
            stores: Stores::new(),
            rt: rt.clone(),
            settings: settings.clone(),
            knobs: knobs.clone(),
            accounts: accounts.clone(),
            memory: memory.clone(),
            pages: pages.clone(),
        });
        let memory_bytes = budget.limit_bytes(&settings);
        pages
            .objects
            .set_room(object_room_bytes(&settings, memory_bytes));
        let writeback = Writeback::over(&dirty);
        let syncer = Syncer::over(&writeback);
        let flusher = Flusher::over(&writeback);
        let throttle = Throttle::over(&flusher);
        let reclaim = Reclaim::over(&writeback, &budget);
        let files = Files::over(&writeback, &throttle, &reclaim);
        Ok(Arc::new(Engine {
            rt,
            settings,
            knobs,
            kernel: kernel.clone(),
            budget,
            elastic: Mutex::default(),
            accounts,
            memory,
            pages,
            dirty,
            writeback,
            syncer,
            flusher,
            throttle,
            reclaim,
            files,
        }))
    }

    /// Tells the daemons to end.
    pub(crate) fn shut_down(&self) {
        self.accounts.closing.store(true, Ordering::Release);
        self.accounts.closed.wake_all();
        // The task that fills the balloons waits for writes to end.
        self.pages.slab.freed.wake_all();
        for node in &self.memory.nodes {
            node.wake_kswapd.wake_all();
        }
        for backing in self.dirty.stores.all() {
            backing.flushing.requests.wake();
            backing.commits.wake_committer.wake_all();
            drop(lock(&backing.owner.attachment).take());
        }
    }
}

/// The memory of a cache, with no page in it.
fn memory_of(
    settings: &Settings,
    budget: &Budget,
    kernel: &KernelValues,
    records: &Records,
) -> Result<Memory, BuildError> {
    let arena = Arena::new(budget.frames, settings.page_memory, settings.prefault);
    let arena = arena.map_err(|error| BuildError::NoMemory {
        bytes: settings.memory_bytes,
        errno: error.raw_os_error().unwrap_or(0),
    })?;
    let (zones, nodes) = lay_out(settings, budget, kernel.mark_spacing(settings));
    Ok(Memory::new(
        FrameTable::new(arena, budget.wait_queues),
        zones,
        nodes,
        kernel,
        records.counters.clone(),
    ))
}

#[cfg(all(test, not(loom)))]
impl Engine {
    /// An engine of 4 MiB on `rt` without daemons.
    pub(crate) fn alone(rt: Rt) -> Arc<Engine> {
        let parts = Parts { rt, sink: None };
        Engine::new(Settings::small(4), parts, Kernel::default()).expect("the settings are good")
    }
}
