//! The whole walk after each random operation of the twin. It reads words, links and buckets and
//! calls none of the code that changes them.
//!
//! It proves invariants F1, F2, F3 and F4 of frame words, invariants X1 and X2 of the index, and
//! invariants Z1, Z2 and Z3 of the lists.

use crate::lists::List;
use crate::state::frame::{HOLDS, NO_FRAME, flag};
use crate::state::twin_tests::{FRAMES, Machine, Twin, TwinFrame};
use forebay_base::sync::atomic::Ordering;
use std::collections::BTreeSet;

impl Twin<'_> {
    fn walk(&self) {
        let mut places = [0_u32; FRAMES as usize];
        for zone in 0..self.zones.len() {
            self.walk_free(zone, &mut places);
            for list in List::ALL {
                self.walk_list(zone, list, &mut places);
            }
        }
        for isolation in &self.isolations {
            for &frame in isolation.taken.as_slice() {
                places[frame as usize] += 1;
            }
        }
        assert_eq!(places, [1; FRAMES as usize], "each is in one place (Z1)");
        self.walk_words();
        self.walk_index();
    }

    fn walk_free(&self, number: usize, places: &mut [u32]) {
        let Machine { frames, zones, .. } = self.machine;
        let free = zones[number].free_members();
        let expected: Vec<u32> = self.zones[number].free.iter().copied().collect();
        assert_eq!(free, expected);
        assert_eq!(zones[number].free_pages(), free.len() as u64);
        for frame in free {
            places[frame as usize] += 1;
            let word = frames.word(frame);
            assert_eq!(word & flag::OF_PAGE, 0, "{word:#x} of a free frame (F4)");
            assert_eq!(frames.owner(frame), 0, "a free frame has no page (F4)");
        }
    }

    fn walk_list(&self, number: usize, list: List, places: &mut [u32]) {
        let Machine { frames, lists, .. } = self.machine;
        let (lists, twin) = (&lists[number], &self.zones[number]);
        let members = lists.members(frames, list);
        let expected: Vec<u32> = twin.lists[list as usize].iter().rev().copied().collect();
        assert_eq!(members, expected, "{list:?}");
        assert_eq!(lists.size(list), members.len() as u64, "{list:?} (Z2)");
        for (at, &frame) in members.iter().enumerate() {
            places[frame as usize] += 1;
            let links = frames.frame(frame);
            let older = at.checked_sub(1).map_or(NO_FRAME, |at| members[at]);
            let newer = members.get(at + 1).copied().unwrap_or(NO_FRAME);
            assert_eq!(links.older.load(Ordering::Relaxed), older, "{list:?} (Z2)");
            assert_eq!(links.newer.load(Ordering::Relaxed), newer, "{list:?} (Z2)");
            assert_eq!(List::of(frames.word(frame)), list, "frame {frame} (Z3)");
        }
        let is_file = list.is_file();
        let isolated = twin.isolated[usize::from(is_file)];
        assert_eq!(lists.isolated(is_file), isolated);
    }

    /// A word has the flags that it should, those of lists among them (Z3), and as many holds as
    /// there are values of holds (F1, F2); its owner is the page it was given (F3).
    fn walk_words(&self) {
        for (frame, twin) in self.frames.iter().enumerate() {
            let TwinFrame {
                owner,
                flags,
                holds,
                ..
            } = *twin;
            let word = self.machine.frames.word(frame as u32);
            assert_eq!(word & !HOLDS, flags, "flags of frame {frame}");
            assert_eq!(word & HOLDS, holds, "holds of frame {frame}");
            assert_eq!(self.machine.frames.owner(frame as u32), owner);
        }
        assert!(self.machine.shadows.len() <= self.shadows.len());
    }

    fn walk_index(&self) {
        let Machine { frames, index, .. } = self.machine;
        let mapped: Vec<u32> = index.buckets(frames).flatten().collect();
        let distinct: BTreeSet<u32> = mapped.iter().copied().collect();
        assert_eq!(mapped.len(), distinct.len(), "in one bucket (X1)");
        assert_eq!(distinct, self.pages.values().copied().collect(), "X1");
        for (&key, &frame) in &self.pages {
            assert_eq!(index.find(frames, key), Some(frame), "X1");
            assert_eq!(index.find_surely(frames, key), Some(frame), "X1");
        }
    }
}

#[test]
fn random_operations_agree_with_the_twin() {
    for seed in 0..60 {
        let machine = Machine::new();
        let mut twin = Twin::new(&machine, seed);
        for _ in 0..1_500 {
            twin.step();
            twin.walk();
        }
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let machine = Machine::new();
    let mut twin = Twin::new(&machine, 1);
    for _ in 0..500 {
        twin.step();
        let key = twin.draw_key();
        let expected = twin.pages.get(&key).copied();
        assert_eq!(machine.index.find(&machine.frames, key), expected);
        assert_eq!(machine.index.find_surely(&machine.frames, key), expected);
    }
}
