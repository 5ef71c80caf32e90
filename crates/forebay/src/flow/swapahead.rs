//! What is read back from swap together with the page that is wanted.
//!
//! The law says how many slots; of the pages around the wanted one those are taken whose slots
//! follow one another without a gap, so that one request brings them all.

use crate::engine::Engine;
use crate::flow::swap::slot_of;
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::units::pages_for;
use forebay_law::swapahead::{SwapaheadInputs, slot_range, window_pages};
use std::ops::Range;

/// Most pages of one window (2 to the power of page_cluster).
const MAX_PAGES: u64 = 8;

/// What the law remembers between two faults. The fields are read and written one by one: two
/// faults at a time may confuse each other's windows and nothing else.
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

    fn window_pages(&self, slot: u64) -> u64 {
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

impl Engine {
    /// The pages to read when `page` of an anonymous object is wanted, that one among them.
    pub(crate) fn pages_with(&self, object: &ObjectState, page: u64) -> Range<u64> {
        let alone = page..page + 1;
        let slot_of = |page: u64| u64::from(slot_of(object, page).load(Ordering::Acquire));
        let slot = slot_of(page);
        let Some(swap) = self.swap.get().filter(|_| slot != 0) else {
            return alone;
        };
        let window = slot_range(slot, swap.ahead.window_pages(slot));
        let Range { mut start, mut end } = alone;
        while start > 0 && slot - (page - start) > window.first {
            if slot_of(start - 1) != slot - (page - start) - 1 {
                break;
            }
            start -= 1;
        }
        let pages = pages_for(object.length_bytes());
        while end < pages && slot + (end - page) <= window.last {
            if slot_of(end) != slot + (end - page) {
                break;
            }
            end += 1;
        }
        start..end
    }
}
