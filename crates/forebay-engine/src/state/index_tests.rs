//! Runs of pages in the index.

use super::*;
use crate::settings::PageMemory;
use crate::state::arena::Arena;

const FRAMES: u32 = 64;
/// Enough to have more than one count of stretches.
const INDEX_FRAMES: u32 = 4_096;

fn put_in(index: &Index, frames: &FrameTable, first: u64, run: &[u32]) -> u32 {
    for &frame in run {
        frames.exclude_free(frame).leave();
    }
    index.insert_run(frames, first, run, flag::ANON)
}

#[test]
fn invariants_x2_and_x3_hold_for_a_run_over_two_stretches() {
    let arena = Arena::new(FRAMES, PageMemory::Real, false).expect("a few pages can be mapped");
    let frames = FrameTable::new(arena, 1);
    let index = Index::new(INDEX_FRAMES);
    let page = |page: u64| key(1, STRETCH + page);
    // The pages 3 before and 2 after the border are already there.
    assert_eq!(put_in(&index, &frames, page(0) - 3, &[40]), 1);
    assert_eq!(put_in(&index, &frames, page(2), &[41]), 1);
    assert_eq!(
        put_in(&index, &frames, page(0) - 4, &[0, 1, 2, 3, 4, 5, 6, 7]),
        0b1011_1101
    );
    let expected = [0, 40, 2, 3, 4, 5, 41, 7];
    let there = || page(0) - 4..page(0) + 4;
    for (key, frame) in there().zip(expected) {
        assert_eq!(index.find(&frames, key), Some(frame));
        assert_eq!(frames.owner(frame), key);
        let wanted = flag::MAPPED | flag::ANON | flag::EXCLUSIVE;
        assert_eq!(frames.word(frame), wanted);
    }
    assert_eq!(index.stretches_off(there()), 0);
    assert!([1, 6].into_iter().all(|frame| frames.owner(frame) == 0));
}

#[test]
fn the_first_pages_of_many_objects_are_spread_over_the_buckets() {
    let frames = INDEX_FRAMES;
    let arena = Arena::new(frames, PageMemory::Phantom, false).expect("no page is mapped");
    let table = FrameTable::new(arena, 1);
    let index = Index::new(frames);
    for frame in 0..frames {
        put_in(&index, &table, key(frame + 1, 0), &[frame]);
    }
    let longest = index.buckets(&table).map(|bucket| bucket.len()).max();
    // One place of each group alone would have chains of 16 and more.
    assert!(longest <= Some(10), "{longest:?}");
}
