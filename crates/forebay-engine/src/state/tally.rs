//! What a pass of reclaim met, and the flags that it raises for it.

use crate::state::frame::flag;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::atomic::Ordering;

/// What a pass met (spec/reclaim.md 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub taken: u64,
    pub file_taken: u64,
    pub(crate) dirty: u64,
    pub(crate) unqueued_dirty: u64,
    pub writeback: u64,
    pub immediate: u64,
    pub(crate) congested: u64,
    pub(crate) activated: u64,
    /// Dirty pages that would be written, and those that a busy store kept from it.
    pub dirty_met: u64,
    pub gate_closed: u64,
    /// Anonymous pages submitted for writing.
    pub paged_out: u64,
}

impl Tally {
    /// Counts a page with the flags `word`. Flushers and stores are judged by the pages of files
    /// alone (spec/reclaim.md 3.1, P5 and P6). Returns whether reclaim met it under writeback
    /// before.
    pub fn classify(&mut self, word: u64, is_store_congested: impl FnOnce() -> bool) -> bool {
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

    pub fn add(&mut self, other: Tally) {
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
    pub fn raise(&self, flags: &ReclaimFlags, taken: u64) {
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

    #[test]
    fn each_page_is_counted_for_what_it_is() {
        let of = |word, is_congested| {
            let mut tally = Tally::default();
            tally.classify(word, || is_congested);
            [tally.dirty, tally.unqueued_dirty, tally.congested]
        };
        for clean in [0, flag::RECLAIM, flag::REFERENCED] {
            assert_eq!(of(clean, true), [0, 0, 0], "{clean:#x}");
        }
        assert_eq!(of(flag::DIRTY, false), [1, 1, 0]);
        assert_eq!(of(flag::DIRTY, true), [1, 1, 1]);
        assert_eq!(of(flag::WRITEBACK, false), [1, 0, 0]);
        assert_eq!(of(flag::UNSTABLE, false), [1, 0, 0]);
        assert_eq!(of(IN_FLIGHT, false), [1, 0, 1]);
        assert_eq!(of(flag::DIRTY | flag::ANON, true), [0, 0, 0]);
    }

    #[test]
    fn what_batches_met_adds_up() {
        let batch = Tally {
            taken: 1,
            file_taken: 2,
            dirty: 3,
            unqueued_dirty: 4,
            writeback: 5,
            immediate: 6,
            congested: 7,
            activated: 8,
            dirty_met: 9,
            gate_closed: 10,
            paged_out: 11,
        };
        let mut sum = batch;
        sum.add(batch);
        let twice = Tally {
            taken: 2,
            file_taken: 4,
            dirty: 6,
            unqueued_dirty: 8,
            writeback: 10,
            immediate: 12,
            congested: 14,
            activated: 16,
            dirty_met: 18,
            gate_closed: 20,
            paged_out: 22,
        };
        assert_eq!(sum, twice);
    }

    /// The flags of a node say that all that a pass met was alike.
    #[test]
    fn flags_are_raised_by_passes_that_met_nothing_else() {
        let raised = |tally: Tally, taken| {
            let flags = ReclaimFlags::default();
            tally.raise(&flags, taken);
            [&flags.writeback, &flags.dirty, &flags.congested].map(|of| of.load(Ordering::Relaxed))
        };
        assert_eq!(raised(Tally::default(), 0), [false; 3]);
        let all = Tally {
            taken: 4,
            writeback: 4,
            unqueued_dirty: 4,
            dirty: 4,
            congested: 4,
            ..Tally::default()
        };
        assert_eq!(raised(all, 4), [true; 3]);
        let but_one = Tally {
            writeback: 3,
            unqueued_dirty: 3,
            congested: 3,
            ..all
        };
        assert_eq!(raised(but_one, 4), [false; 3]);
    }
}
