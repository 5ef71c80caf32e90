//! What a pass of reclaim met, and the flags that it raises for it.

use crate::state::frame::flag;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::atomic::Ordering;

/// What a pass met (spec/reclaim.md 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) taken: u64,
    pub(crate) file_taken: u64,
    pub(crate) dirty: u64,
    pub(crate) unqueued_dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) immediate: u64,
    pub(crate) congested: u64,
    pub(crate) activated: u64,
    /// Dirty pages that would be written, and those that a busy store kept from it.
    pub(crate) dirty_met: u64,
    pub(crate) gate_closed: u64,
    /// Anonymous pages submitted for writing.
    pub(crate) paged_out: u64,
}

impl Tally {
    /// Counts a page with the flags `word`. Flushers and stores are judged by the pages of files
    /// alone (spec/reclaim.md 3.1, P5 and P6). Returns whether reclaim met it under writeback
    /// before.
    pub(crate) fn classify(
        &mut self,
        word: u64,
        is_store_congested: impl FnOnce() -> bool,
    ) -> bool {
        let is_dirty = word & flag::DIRTY != 0;
        let in_writeback = word & (flag::WRITEBACK | flag::UNSTABLE) != 0;
        let met_before = in_writeback && word & flag::RECLAIM != 0;
        if word & flag::ANON == 0 && (is_dirty || in_writeback) {
            self.dirty += 1;
            self.unqueued_dirty += u64::from(!in_writeback);
            self.congested += u64::from(met_before || is_store_congested());
        }
        met_before
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.taken += other.taken;
        self.file_taken += other.file_taken;
        self.dirty += other.dirty;
        self.unqueued_dirty += other.unqueued_dirty;
        self.writeback += other.writeback;
        self.immediate += other.immediate;
        self.congested += other.congested;
        self.activated += other.activated;
        self.dirty_met += other.dirty_met;
        self.gate_closed += other.gate_closed;
        self.paged_out += other.paged_out;
    }

    /// Raises the flags for what a pass or a batch met. It met only dirty pages if `taken` of
    /// them were.
    pub(crate) fn raise(&self, flags: &ReclaimFlags, taken: u64) {
        if self.writeback > 0 && self.writeback == self.taken {
            flags.writeback.store(true, Ordering::Relaxed);
        }
        if self.unqueued_dirty > 0 && self.unqueued_dirty == taken {
            flags.dirty.store(true, Ordering::Relaxed);
        }
        if self.dirty > 0 && self.dirty == self.congested {
            flags.congested.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_FLIGHT: u64 = flag::WRITEBACK | flag::RECLAIM;

    /// Classifies pages with these flags on a store that is never congested.
    fn is_congested(words: &[(u64, usize)]) -> bool {
        let mut tally = Tally::default();
        for &(word, count) in words {
            (0..count).for_each(|_| {
                tally.classify(word, || false);
            });
        }
        let flags = ReclaimFlags::default();
        tally.raise(&flags, 32);
        flags.congested.load(Ordering::Relaxed)
    }

    #[test]
    fn a_node_is_congested_if_every_dirty_page_of_a_file_was_met_in_flight_before() {
        assert!(is_congested(&[(IN_FLIGHT, 10)]));
        assert!(!is_congested(&[(IN_FLIGHT, 10), (flag::DIRTY, 1)]));
        assert!(!is_congested(&[(0, 32)]), "nothing is dirty");
    }

    #[test]
    fn pages_on_their_way_to_swap_neither_make_a_node_congested_nor_keep_it_from_that() {
        let to_swap = IN_FLIGHT | flag::ANON;
        assert!(is_congested(&[(IN_FLIGHT, 10), (to_swap, 1)]));
        assert!(!is_congested(&[(flag::DIRTY, 5), (to_swap, 5)]));
    }

    #[test]
    fn a_page_in_flight_was_met_before_if_it_is_marked_for_reclaim() {
        let met = |word| Tally::default().classify(word, || false);
        assert!(met(IN_FLIGHT) && met(flag::UNSTABLE | flag::RECLAIM));
        assert!(!met(flag::WRITEBACK) && !met(flag::DIRTY | flag::RECLAIM));
    }
}
