//! Swap: which anonymous pages have a slot, whether one is available, and which pages have the same
//! content in memory and in swap.

use crate::memory::Memory;
use crate::state::backing::Backing;
use crate::state::gauge::less;
use crate::state::object::ObjectState;
use crate::state::swap::{SwapRetry, SwapSlots};
use crate::state::swap_ahead::SwapAhead;
use crate::state::vectors::IoVectors;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_store::ObjectId;
use std::sync::Arc;

/// The store to which anonymous pages are written.
pub(crate) struct Swap {
    pub(crate) backing: Arc<Backing>,
    pub(crate) object: ObjectId,
    pub(crate) slots: SwapSlots,
    /// Vectors of one page. They are never those of files, which have to be written as well. When
    /// more pages are on their way than there are vectors, the rest get small new ones.
    pub(crate) vectors: IoVectors,
    /// How much is read back at a time.
    pub(crate) ahead: SwapAhead,
    /// When pages that the store refused are tried again.
    pub(crate) retry: Mutex<SwapRetry>,
    /// Resident anonymous pages whose content is in swap, or on its way there: they can be freed
    /// without another slot.
    pub(crate) clean_pages: AtomicU64,
    /// Whether clean pages count as room. Linux asks only for a free slot (spec/reclaim.md 2.9):
    /// when swap is full, it reclaims only pages of files.
    pub(crate) clean_pages_count: bool,
}

impl Swap {
    /// Whether pages wait until swap is asked again.
    pub(crate) fn is_put_off(&self) -> bool {
        lock(&self.retry).is_put_off()
    }

    /// Whether reclaim can free any anonymous page: because a slot is free, or because the page has
    /// one.
    fn has_room(&self) -> bool {
        let clean_pages = self.clean_pages.load(Ordering::Relaxed);
        self.slots.free_slots() > 0 || self.clean_pages_count && clean_pages > 0
    }
}

impl Memory {
    pub(crate) fn swap_has_room(&self) -> bool {
        self.swap.get().is_some_and(Swap::has_room)
    }

    /// The content of an anonymous page is now in swap, or is about to be.
    pub(crate) fn anonymous_is_clean(&self) {
        if let Some(swap) = self.swap.get() {
            swap.clean_pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A clean anonymous page was dirtied or left the cache.
    pub(crate) fn clean_anonymous_is_gone(&self) {
        if let Some(swap) = self.swap.get() {
            less(&swap.clean_pages, 1);
        }
    }

    /// Frees the slot of a page whose content is not in swap or is no longer wanted.
    pub(crate) fn give_slot_back(&self, object: &ObjectState, page: u64) {
        let slot = object.swap_slot(page).swap(0, Ordering::AcqRel);
        if slot != 0 {
            let swap = self.swap.get().expect("a slot has its swap");
            swap.slots.give_back(slot);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::cache::Cache;
    use crate::engine::Engine;
    use crate::kernel::KernelValues;
    use crate::parts::Kernel;
    use crate::settings::{Parts, Settings};
    use forebay_base::PAGE_BYTES;
    use forebay_rt::{Virtual, VirtualSettings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    /// Spec/reclaim.md 2.9: early kernels ask for a free slot alone.
    #[test]
    fn a_full_swap_has_room_for_pages_that_have_a_slot() {
        for counts_clean_swap in [false, true] {
            let world = Virtual::new(VirtualSettings::default());
            let parts = Parts {
                rt: world.rt(),
                sink: None,
            };
            let values = KernelValues {
                counts_clean_swap,
                ..KernelValues::default()
            };
            let kernel = Kernel {
                values,
                flows: None,
            };
            let engine = Engine::new(Settings::small(4), parts, kernel);
            let cache = Cache::over(engine.expect("the settings are good"));
            let store = cache.attach(Arc::new(MemoryStore::new()));
            cache
                .set_swap(&store.expect("the store is well"), ObjectId(9), 64 << 12)
                .expect("there is room for swap");
            let memory = cache.anonymous(PAGE_BYTES as u64).expect("swap is set");
            let memory = &memory.handle.engine.memory;
            assert!(memory.swap_has_room(), "every slot is free");
            let swap = memory.swap.get().expect("it is set");
            while swap.slots.take().is_some() {}
            assert!(!memory.swap_has_room(), "none is");
            memory.anonymous_is_clean();
            assert_eq!(memory.swap_has_room(), counts_clean_swap);
            memory.clean_anonymous_is_gone();
            assert!(!memory.swap_has_room(), "nor has a page one");
        }
    }
}
