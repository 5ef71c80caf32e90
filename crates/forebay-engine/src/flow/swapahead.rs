//! What is read back from swap together with the wanted page.
//!
//! The law says how many slots. Of the pages around the wanted one, those are taken whose slots
//! follow one another without a gap, so that one request brings them all.

use crate::parts::Files;
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::pages_for;
use forebay_law::swapahead::slot_range;
use std::ops::Range;

impl Files {
    /// The pages to read when `page` of an anonymous object is wanted, including that page.
    pub(crate) fn pages_with(&self, object: &ObjectState, page: u64) -> Range<u64> {
        let alone = page..page + 1;
        let slot_of = |page: u64| u64::from(object.swap_slot(page).load(Ordering::Acquire));
        let slot = slot_of(page);
        let Some(swap) = self.memory.swap.get().filter(|_| slot != 0) else {
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
