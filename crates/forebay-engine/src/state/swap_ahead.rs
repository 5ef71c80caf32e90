//! How much is read back from swap at a time. It depends on how much of what was read ahead before
//! has been used.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_law::swapahead::{SwapaheadInputs, window_pages};

/// Most pages of one window (2 to the power of page_cluster).
const MAX_PAGES: u64 = 8;

/// What the law remembers between two faults. The fields are read and written one by one: two
/// faults at the same time may confuse each other's windows, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct SwapAhead {
    previous_slot: AtomicU64,
    previous_pages: AtomicU64,
    /// Pages read ahead that were used since the last fault.
    hits: AtomicU64,
}

impl SwapAhead {
    /// A page that was read ahead has been used.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn window_pages(&self, slot: u64) -> u64 {
        let pages = window_pages(&SwapaheadInputs {
            previous_slot: self.previous_slot.swap(slot, Ordering::Relaxed),
            slot,
            hits: self.hits.swap(0, Ordering::Relaxed),
            max_pages: MAX_PAGES,
            previous_pages: self.previous_pages.load(Ordering::Relaxed),
        });
        self.previous_pages.store(pages, Ordering::Relaxed);
        pages
    }
}
