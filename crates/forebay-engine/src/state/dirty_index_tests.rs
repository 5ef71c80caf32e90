//! The dirty index against a naive twin: four ordered sets of page numbers. In the twin, the
//! invariants D3, D4 and D5 hold by construction.

use super::*;
use crate::state::index::INDEX_BITS;
use forebay_base::Prng;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Twin {
    dirty: BTreeSet<u64>,
    towrite: BTreeSet<u64>,
    in_flight: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// Since when each page is newer than its store.
    since: BTreeMap<u64, u64>,
}

impl Twin {
    fn refuse(&mut self, page: u64) {
        self.dirty.insert(page);
        if !self.towrite.contains(&page) {
            self.refused.insert(page);
        }
    }

    /// Whether no page of the run became dirty earlier than it says.
    fn is_as_old(&self, run: Run) -> bool {
        let pages = run.first..run.first + run.pages;
        let mut since = pages.map(|page| Stamp::at(self.since[&page]));
        since.all(|since| !run.since.is_after(since))
    }

    fn take_run(&mut self, tag: Tag, range: Range<u64>, limit: u64) -> Option<(u64, u64)> {
        let tagged = if tag == Tag::Dirty {
            &self.dirty
        } else {
            &self.towrite
        };
        let mut takeable: BTreeSet<u64> = tagged.difference(&self.in_flight).copied().collect();
        if tag == Tag::Dirty {
            takeable.retain(|page| !self.refused.contains(page));
        }
        let first = *takeable.range(range.start..).next()?;
        let end = range.end.min(first + limit);
        let taken: Vec<u64> = (first..end)
            .take_while(|page| takeable.contains(page))
            .collect();
        for page in &taken {
            self.dirty.remove(page);
            self.towrite.remove(page);
            self.in_flight.insert(*page);
        }
        (!taken.is_empty()).then_some((first, taken.len() as u64))
    }
}

/// Pages of the tests: few blocks, so that they fill and empty, with some far away, up to the end
/// of the longest object.
fn draw_page(prng: &mut Prng) -> u64 {
    const FAR: [u64; 4] = [1 << 37, 1 << 38, (1 << 38) - 3, (1 << INDEX_BITS) - 3];
    if prng.chance(1, 16) {
        FAR[prng.below(FAR.len() as u64) as usize] + prng.below(3)
    } else {
        prng.below(700)
    }
}

/// Since when the oldest page is dirty.
fn all_looks(index: &DirtyIndex, slab: &BlockSlab) -> Option<Stamp> {
    let (mut oldest, mut from) = (None, Some(0));
    while let Some(at) = from {
        let (found, next) = index.oldest_dirty(slab, at);
        oldest = earliest(oldest, found);
        from = next;
    }
    oldest
}

const ALL: Takes = Takes {
    tag: Tag::Dirty,
    pass: None,
};

fn pages_of(run: Option<Run>) -> Option<(u64, u64)> {
    run.map(|run| (run.first, run.pages))
}

fn check(index: &DirtyIndex, slab: &BlockSlab, twin: &Twin) {
    assert_eq!(index.dirty_pages(), twin.dirty.len() as u64);
    let has_untried = !twin.dirty.is_subset(&twin.refused);
    assert_eq!(index.has_untried(), has_untried, "invariant D5");
    for (tag, set) in [
        (Tag::Dirty, &twin.dirty),
        (Tag::ToWrite, &twin.towrite),
        (Tag::InFlight, &twin.in_flight),
    ] {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(page) = index.next_tagged(slab, tag, from..u64::MAX) {
            found.push(page);
            from = page + 1;
        }
        assert_eq!(found, set.iter().copied().collect::<Vec<_>>(), "{tag:?}");
    }
    let oldest = twin.dirty.iter().map(|page| twin.since[page]).min();
    let found = all_looks(index, slab);
    let is_old_enough = match (found, oldest) {
        (Some(found), Some(oldest)) => !found.is_after(Stamp::at(oldest)),
        (found, oldest) => found.is_none() && oldest.is_none(),
    };
    assert!(is_old_enough, "{found:?} and {oldest:?} (D6)");
    let blocks: BTreeSet<u64> = twin
        .dirty
        .union(&twin.in_flight)
        .map(|page| page / BLOCK_PAGES)
        .collect();
    let used = slab.blocks.len() as u32 - slab.free_count();
    assert_eq!(
        used as usize,
        blocks.len(),
        "a block exists exactly while it has a bit (D4)"
    );
}

#[test]
fn random_changes_agree_with_the_twin() {
    for seed in 0..20 {
        let mut prng = Prng::from_seed(seed);
        let slab = BlockSlab::new(64);
        let mut index = DirtyIndex::default();
        let mut twin = Twin::default();
        for step in 0..2_000 {
            let now_ms = step * 40;
            let page = draw_page(&mut prng);
            match prng.below(8) {
                0..=2 => {
                    let fresh = index
                        .set_dirty(&slab, page, || Stamp::at(now_ms))
                        .expect("the slab is large enough");
                    assert_eq!(fresh, twin.dirty.insert(page));
                    if fresh {
                        twin.since.insert(page, now_ms);
                    }
                }
                3 => {
                    index.cancel(&slab, page);
                    twin.dirty.remove(&page);
                    twin.towrite.remove(&page);
                    twin.refused.remove(&page);
                    if prng.chance(1, 32) {
                        index.retry_refused(&slab);
                        twin.refused.clear();
                    }
                }
                4 => {
                    let range = page..page + prng.below(300);
                    let expected: Vec<u64> = twin.dirty.range(range.clone()).copied().collect();
                    let tagged = index.tag_for_writing(&slab, range);
                    assert_eq!(tagged, expected.len() as u64);
                    twin.refused.retain(|page| !expected.contains(page));
                    twin.towrite.extend(expected);
                }
                5 => {
                    let tag = [Tag::ToWrite, Tag::Dirty][usize::from(prng.chance(1, 2))];
                    let range = page..page + prng.below(400);
                    let limit = 1 + prng.below(200);
                    let takes = Takes { tag, pass: None };
                    let run = index.take_run(&slab, takes, range.clone(), |first| first + limit);
                    assert_eq!(pages_of(run), twin.take_run(tag, range, limit));
                    assert!(run.is_none_or(|run| twin.is_as_old(run)), "{run:?}");
                }
                _ => {
                    let Some(&page) = twin.in_flight.range(page..).next() else {
                        continue;
                    };
                    twin.in_flight.remove(&page);
                    let since = Stamp::at(twin.since[&page]);
                    match prng.below(4) {
                        0 => {
                            index.refuse(&slab, page, since);
                            twin.refuse(page);
                        }
                        1 => {
                            index.untake(&slab, page, Tag::Dirty, since);
                            twin.dirty.insert(page);
                        }
                        _ => index.landed(&slab, page),
                    }
                }
            }
            check(&index, &slab, &twin);
        }
    }
}

#[test]
fn a_full_slab_refuses_new_blocks_and_keeps_the_old_ones() {
    let slab = BlockSlab::new(2);
    let now = || Stamp::at(0);
    let mut index = DirtyIndex::default();
    assert_eq!(index.set_dirty(&slab, 0, now), Ok(true));
    assert_eq!(index.set_dirty(&slab, 64, now), Ok(true));
    assert_eq!(index.set_dirty(&slab, 128, now), Err(SlabFull));
    assert_eq!(index.set_dirty(&slab, 1, now), Ok(true));
    assert_eq!(
        pages_of(index.take_run(&slab, ALL, 0..64, |first| first + 64)),
        Some((0, 2))
    );
    assert_eq!(
        index.set_dirty(&slab, 128, now),
        Err(SlabFull),
        "a page in flight keeps its block (D2)"
    );
    index.untake(&slab, 0, Tag::Dirty, now());
    index.landed(&slab, 1);
    index.cancel(&slab, 0);
    assert_eq!(index.set_dirty(&slab, 128, now), Ok(true));
}

#[test]
fn a_run_crosses_blocks_and_stops_at_the_limit() {
    let slab = BlockSlab::new(8);
    let mut index = DirtyIndex::default();
    for page in 10..200 {
        index
            .set_dirty(&slab, page, || Stamp::at(0))
            .expect("the slab is large enough");
    }
    let taken = index.take_run(&slab, ALL, 0..u64::MAX, |first| first + 150);
    assert_eq!(pages_of(taken), Some((10, 150)));
    let rest = index.take_run(&slab, ALL, 0..u64::MAX, |first| first + 150);
    assert_eq!(pages_of(rest), Some((160, 40)));
    assert_eq!(
        index.take_run(&slab, ALL, 0..u64::MAX, |first| first + 150),
        None
    );
}

#[test]
fn invariant_d6_only_what_was_dirty_by_then_is_taken() {
    let slab = BlockSlab::new(8);
    let mut index = DirtyIndex::default();
    let mut dirty = |page, now_ms| {
        index
            .set_dirty(&slab, page, || Stamp::at(now_ms))
            .expect("the slab is large enough");
    };
    dirty(3, 1_600);
    dirty(70, 3_200);
    // A block is as old as its oldest page.
    dirty(4, 4_800);
    let by = |began_ms, now_ms| Takes {
        tag: Tag::Dirty,
        pass: Some(Pass {
            began: Stamp::at(began_ms),
            now: Stamp::at(now_ms),
        }),
    };
    let mut take = |takes| index.take_run(&slab, takes, 0..u64::MAX, |first| first + 8);
    assert_eq!(take(by(1_500, 1_500)), None);
    let run = take(by(3_000, 3_100)).expect("a block is old enough");
    assert_eq!((run.first, run.pages, run.since), (3, 2, Stamp::at(1_600)));
    assert_eq!(take(by(3_000, 3_100)), None);
    assert_eq!(all_looks(&index, &slab), Some(Stamp::at(3_200)));
    // One that was taken is as old as before if it comes back, and begins anew if it is written.
    index.untake(&slab, 3, Tag::Dirty, run.since);
    index.landed(&slab, 4);
    assert_eq!(all_looks(&index, &slab), Some(Stamp::at(1_600)));
    index
        .set_dirty(&slab, 4, || Stamp::at(8_000))
        .expect("its block is there");
    assert_eq!(all_looks(&index, &slab), Some(Stamp::at(1_600)));
}

#[test]
fn invariant_d6_a_block_that_is_never_clean_is_as_old_as_the_last_pass() {
    let slab = BlockSlab::new(8);
    let mut index = DirtyIndex::default();
    let dirty = |index: &mut DirtyIndex, page, now_ms| {
        index
            .set_dirty(&slab, page, || Stamp::at(now_ms))
            .expect("the slab is large enough");
    };
    for page in [1, 5, 9] {
        dirty(&mut index, page, 1_600);
    }
    let mut now_ms = 3_200;
    let mut take = |index: &mut DirtyIndex| {
        now_ms += 160;
        let pass = Some(Pass {
            began: Stamp::at(3_200),
            now: Stamp::at(now_ms),
        });
        let takes = Takes {
            tag: Tag::Dirty,
            pass,
        };
        pages_of(index.take_run(&slab, takes, 0..u64::MAX, |first| first + 8))
    };
    assert_eq!(take(&mut index), Some((1, 1)));
    // Before the pass is done with the block, pages become dirty before and behind it.
    dirty(&mut index, 3, 3_400);
    dirty(&mut index, 7, 3_400);
    assert_eq!(all_looks(&index, &slab), Some(Stamp::at(1_600)));
    assert_eq!(take(&mut index), Some((5, 1)));
    assert_eq!(take(&mut index), Some((9, 1)));
    assert_eq!(all_looks(&index, &slab), Some(Stamp::at(3_360)));
    assert_eq!(
        take(&mut index),
        None,
        "what came later is for the next pass"
    );
}

#[test]
fn a_search_in_a_range_visits_no_block_past_it() {
    let slab = BlockSlab::new(1_000);
    let mut index = DirtyIndex::default();
    for number in 0..1_000 {
        let set = index.set_dirty(&slab, number * BLOCK_PAGES + 3, || Stamp::at(0));
        assert_eq!(set, Ok(true));
    }
    let met = std::cell::Cell::new(0);
    let look = |range| {
        met.set(0);
        let found = index.next(&slab, &range, |block| {
            met.set(met.get() + 1);
            block.bits(Tag::ToWrite)
        });
        assert_eq!(found, None);
        met.get()
    };
    assert_eq!(look(0..BLOCK_PAGES), 1);
    assert_eq!(look(10..3 * BLOCK_PAGES + 1), 4);
    assert_eq!(look(5..5), 0);
    let first = index.next_tagged(&slab, Tag::Dirty, 0..3);
    assert_eq!(first, None, "the page past the range is not part of it");
}
