//! Slots of the swap store: which are taken, which cluster is being filled, and when a store that
//! refuses is asked again.
//!
//! invariant S1: a slot is taken exactly while an anonymous page has it, whether the page is
//! resident or not. Slot 0 is never given out: it stands for "none".

use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_law::scan::SWAP_CLUSTER_MAX;

/// Slots that are given out one after the other, so that pages swapped out together are neighbours
/// on the medium (spec/reclaim.md 7.1).
const CLUSTER_SLOTS: usize = 256;
const WORD_BITS: usize = 64;

#[derive(Debug)]
pub(crate) struct SwapSlots {
    map: Mutex<SlotMap>,
    total: u64,
    used: AtomicU64,
}

#[derive(Debug)]
struct SlotMap {
    taken: Box<[u64]>,
    next: usize,
    left_in_cluster: usize,
}

impl SwapSlots {
    /// A map of `slots` slots, the first of which is never used.
    pub(crate) fn new(slots: u64) -> SwapSlots {
        let words = (slots as usize).div_ceil(WORD_BITS);
        let mut taken = vec![0_u64; words].into_boxed_slice();
        if let Some(first) = taken.first_mut() {
            *first |= 1;
        }
        for beyond in slots as usize..words * WORD_BITS {
            taken[beyond / WORD_BITS] |= 1 << (beyond % WORD_BITS);
        }
        let map = SlotMap {
            taken,
            next: 1,
            left_in_cluster: 0,
        };
        SwapSlots {
            map: Mutex::new(map),
            total: slots.saturating_sub(1),
            used: AtomicU64::new(0),
        }
    }

    pub(crate) fn free_slots(&self) -> u64 {
        self.total - self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether fewer than half of the slots are free: then slots of resident pages are given up.
    pub(crate) fn is_tight(&self) -> bool {
        self.free_slots() * 2 < self.total
    }

    /// Takes a slot: the next of the present cluster, else the first of an empty cluster, else
    /// the first free one.
    pub(crate) fn take(&self) -> Option<u32> {
        // Reclaim asks for every page that it meets, so the answer that there is none has to be
        // quick.
        if self.free_slots() == 0 {
            return None;
        }
        let mut map = lock(&self.map);
        let slot = map.find()?;
        map.taken[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        map.next = slot + 1;
        map.left_in_cluster = map.left_in_cluster.saturating_sub(1);
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(slot as u32)
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&self, slot: u32) {
        let slot = slot as usize;
        let mut map = lock(&self.map);
        let bit = 1 << (slot % WORD_BITS);
        assert_ne!(
            map.taken[slot / WORD_BITS] & bit,
            0,
            "slot {slot} was taken (S1)"
        );
        map.taken[slot / WORD_BITS] &= !bit;
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SlotMap {
    fn find(&mut self) -> Option<usize> {
        if self.left_in_cluster > 0 && self.is_free(self.next) {
            return Some(self.next);
        }
        if let Some(start) = self.empty_cluster() {
            self.left_in_cluster = CLUSTER_SLOTS;
            return Some(start);
        }
        self.left_in_cluster = 0;
        let words = self.taken.len();
        let first = (self.next / WORD_BITS).min(words);
        // The word of the next slot comes first, and again at the end for the slots before it.
        let first_word = std::iter::once((first, !0 << (self.next % WORD_BITS)));
        let others = (first + 1..words).chain(0..words.min(first + 1));
        first_word
            .chain(others.map(|word| (word, !0)))
            .find_map(|(word, wanted)| {
                let free = !self.taken.get(word)? & wanted;
                (free != 0).then(|| word * WORD_BITS + free.trailing_zeros() as usize)
            })
    }

    fn is_free(&self, slot: usize) -> bool {
        slot / WORD_BITS < self.taken.len()
            && self.taken[slot / WORD_BITS] >> (slot % WORD_BITS) & 1 == 0
    }

    fn empty_cluster(&self) -> Option<usize> {
        const WORDS: usize = CLUSTER_SLOTS / WORD_BITS;
        let clusters = self.taken.chunks_exact(WORDS);
        let found = clusters
            .into_iter()
            .position(|cluster| cluster.iter().all(|&word| word == 0));
        found.map(|cluster| cluster * CLUSTER_SLOTS)
    }
}

/// First wait before a swap store that refused is asked again, ms.
const FIRST_RETRY_MS: u64 = 1_000;

/// How many pages may be refused after a success before the others wait: a store that fails only
/// now and then takes a page when it is tried again, and must not be kept waiting for it.
const REFUSED_IN_A_ROW: u64 = SWAP_CLUSTER_MAX;

/// When pages that the swap store refused are tried again: one of them at a time, each after twice
/// the wait of the one before, and all of them as soon as the store has taken one. Pages that were
/// never refused are not affected: the next of them may succeed where the last did not.
///
/// When no refused page is left, nothing is put off: only another try could end the wait, and there
/// is no page left to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwapRetry {
    /// 0 if nothing is put off.
    wait_ms: u64,
    next_at_ms: u64,
    /// A page is being tried.
    is_trying: bool,
    /// Tries that are left before the next wait.
    tries: u64,
    /// Resident pages whose last write was refused.
    refused_pages: u64,
}

impl SwapRetry {
    pub(crate) fn is_put_off(&self) -> bool {
        self.wait_ms > 0
    }

    pub(crate) fn refused_pages(&self) -> u64 {
        self.refused_pages
    }

    /// Whether a refused page may be tried at `now_ms`. If so, no other has its turn before the
    /// next wait is over, whether the store answers or not.
    pub(crate) fn take_turn(&mut self, now_ms: u64) -> bool {
        if self.wait_ms == 0 {
            return true;
        }
        if self.tries > 0 {
            self.tries -= 1;
            return true;
        }
        let is_due = now_ms >= self.next_at_ms;
        if is_due {
            self.is_trying = true;
            self.next_at_ms = now_ms + self.wait_ms;
        }
        is_due
    }

    /// The store refused a page that it had not refused before.
    pub(crate) fn add_page(&mut self) {
        self.refused_pages += 1;
    }

    /// The store refused a page. Of many that were under way at once, only the first counts.
    pub(crate) fn put_off(&mut self, now_ms: u64, longest_ms: u64) {
        let is_first = self.wait_ms == 0;
        if is_first || self.is_trying {
            let longest_ms = longest_ms.max(FIRST_RETRY_MS);
            self.wait_ms = (self.wait_ms * 2).clamp(FIRST_RETRY_MS, longest_ms);
            self.next_at_ms = now_ms + self.wait_ms;
            self.is_trying = false;
        }
    }

    /// The store took a page that it had refused.
    pub(crate) fn page_is_taken(&mut self) {
        *self = SwapRetry {
            tries: REFUSED_IN_A_ROW,
            refused_pages: self.refused_pages - 1,
            ..SwapRetry::default()
        };
    }

    /// A page that the store refused was dropped, which says nothing about the store.
    pub(crate) fn page_is_dropped(&mut self) {
        self.refused_pages -= 1;
        if self.refused_pages == 0 {
            *self = SwapRetry {
                tries: self.tries,
                ..SwapRetry::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_slot_is_given_once_and_slot_0_never() {
        let slots = SwapSlots::new(1_000);
        let taken: BTreeSet<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (1..1_000).collect());
        assert_eq!(slots.free_slots(), 0);
        slots.give_back(77);
        assert_eq!(slots.take(), Some(77));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn a_cluster_is_filled_in_order() {
        let slots = SwapSlots::new(4_096);
        let run: Vec<u32> = (0..CLUSTER_SLOTS).filter_map(|_| slots.take()).collect();
        assert_eq!(run, (256..512).collect::<Vec<_>>());
    }

    #[test]
    fn without_an_empty_cluster_the_next_free_slot_is_taken_and_those_before_it_last() {
        let slots = SwapSlots::new(100);
        let take = || slots.take().expect("a slot is free");
        let first: Vec<u32> = (0..70).map(|_| take()).collect();
        assert_eq!(first, (1..71).collect::<Vec<_>>());
        for slot in [3, 69, 70] {
            slots.give_back(slot);
        }
        let take = || slots.take().expect("a slot is free");
        // The last one was 70: what lies before it comes after what lies past it.
        let rest: Vec<u32> = (0..32).map(|_| take()).collect();
        assert_eq!(rest[..29], (71..100).collect::<Vec<_>>());
        assert_eq!(rest[29..], [3, 69, 70]);
    }

    #[test]
    fn one_refused_page_at_a_time_is_tried_again_and_later_each_time() {
        let mut retry = SwapRetry::default();
        assert!(retry.take_turn(5), "nothing was refused yet");
        for now_ms in [10, 20, 30] {
            retry.put_off(now_ms, 3_000);
        }
        let mut tried_at_ms = Vec::new();
        for now_ms in 31..12_000 {
            if retry.take_turn(now_ms) {
                tried_at_ms.push(now_ms);
                retry.put_off(now_ms, 3_000);
            }
        }
        assert_eq!(tried_at_ms, [1_010, 3_010, 6_010, 9_010]);
    }

    #[test]
    fn what_a_store_does_not_answer_is_not_tried_faster() {
        let mut retry = SwapRetry::default();
        retry.put_off(0, 8_000);
        let tries = (0..10_000).filter(|&now_ms| retry.take_turn(now_ms));
        assert_eq!(tries.count(), 9);
    }

    #[test]
    fn a_page_that_is_taken_opens_the_way_for_all() {
        let mut retry = SwapRetry::default();
        retry.add_page();
        retry.put_off(0, 8_000);
        assert!(retry.take_turn(1_000));
        assert!(!retry.take_turn(1_001), "another has the turn");
        retry.page_is_taken();
        assert!(!retry.is_put_off());
        assert!(retry.take_turn(1_002) && retry.take_turn(1_002));
        retry.put_off(1_003, 8_000);
        let tries = (1_003..2_003).filter(|&now_ms| retry.take_turn(now_ms));
        assert_eq!(tries.count() as u64, REFUSED_IN_A_ROW);
    }

    #[test]
    fn nothing_is_put_off_when_the_last_refused_page_was_dropped() {
        let mut retry = SwapRetry::default();
        for now_ms in [0, 1] {
            retry.add_page();
            retry.put_off(now_ms, 8_000);
        }
        assert!(retry.take_turn(1_000));
        retry.put_off(1_000, 8_000);
        retry.page_is_dropped();
        assert!(retry.is_put_off() && !retry.take_turn(2_999));
        retry.page_is_dropped();
        assert!(!retry.is_put_off());
        // The next refused page waits as long as the first did.
        retry.add_page();
        retry.put_off(60_000, 8_000);
        assert!(!retry.take_turn(60_999) && retry.take_turn(61_000));
    }
}
