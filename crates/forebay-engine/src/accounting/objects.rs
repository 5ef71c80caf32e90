//! The memory that objects take beside their pages. It counts in the budget, and closed files give
//! theirs back.
//!
//! All of it is taken off the pages, in steps. Below one step nothing changes, and neither does it
//! if zones say how many frames they have.

use crate::accounting::drop::is_idle;
use crate::parts::Capacity;
use crate::state::index::key;
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::pages_for;

/// How many closed files are asked at a time.
const BATCH: usize = 32;

impl Capacity {
    /// Forgets some of the files that were closed longest ago, with their pages, while objects
    /// take more than their part of the budget. True if there are more to ask.
    ///
    /// Files that cannot go are asked again when the budget changes and when a file is opened.
    pub(crate) fn forget_over_room(&self) -> bool {
        let forget = |file: &ObjectState| self.forget_object(file);
        let hand = &self.pages.balloon.room_hand;
        let ask = || {
            self.pages.objects.is_over_room(0)
                && self.pages.objects.ask_for_room(hand, forget).is_some()
        };
        let are_more = (0..BATCH).all(|_| ask());
        self.charge_objects();
        are_more
    }

    /// Looks at up to `offered` closed files, round and round in the order in which they were
    /// closed, and forgets those without pages.
    pub(crate) fn forget_without_pages(&self, offered: u64) {
        for _ in 0..offered {
            let hand = &self.shrinkers.closed_hand;
            let Some((place, file)) = self
                .pages
                .objects
                .closed_after(hand.load(Ordering::Relaxed))
            else {
                hand.store(0, Ordering::Relaxed);
                break;
            };
            hand.store(place, Ordering::Relaxed);
            if self.is_without_pages(&file) {
                self.pages.objects.remove_closed(&file, place);
            }
        }
        self.charge_objects();
    }

    /// Whether a closed file can be forgotten without losing anything.
    fn is_without_pages(&self, file: &ObjectState) -> bool {
        let is_resident = |page| {
            let key = key(file.number, page);
            self.memory.find_surely(key).is_some()
        };
        let mut pages = self
            .memory
            .pages_to_visit(file, 0..pages_for(file.length_bytes()));
        // Read what is owed after what is under way, as where a file is forgotten.
        is_idle(file) && !self.dirty.is_owed(file) && !pages.any(is_resident)
    }
}
