//! The dirty index against a naive twin: four ordered sets of page numbers. In the twin, the
//! invariants D3, D4 and D5 hold by construction.

use super::*;
use crate::state::index::INDEX_BITS;
use forebay_base::Prng;
use std::collections::BTreeSet;

#[derive(Default)]
struct Twin {
    dirty: BTreeSet<u64>,
    towrite: BTreeSet<u64>,
    in_flight: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

impl Twin {
    fn refuse(&mut self, page: u64) {
        self.dirty.insert(page);
        if !self.towrite.contains(&page) {
            self.refused.insert(page);
        }
    }

    fn take_run(&mut self, tag: Tag, range: std::ops::Range<u64>, limit: u64) -> Option<Run> {
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
        (!taken.is_empty()).then_some(Run {
            first,
            pages: taken.len() as u64,
        })
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
        for _ in 0..2_000 {
            let page = draw_page(&mut prng);
            match prng.below(8) {
                0..=2 => {
                    let fresh = index
                        .set_dirty(&slab, page)
                        .expect("the slab is large enough");
                    assert_eq!(fresh, twin.dirty.insert(page));
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
                    let end = page + prng.below(300);
                    let expected: Vec<u64> = twin.dirty.range(page..end).copied().collect();
                    assert_eq!(
                        index.tag_for_writing(&slab, page..end),
                        expected.len() as u64
                    );
                    twin.refused.retain(|page| !expected.contains(page));
                    twin.towrite.extend(expected);
                }
                5 => {
                    let tag = if prng.chance(1, 2) {
                        Tag::Dirty
                    } else {
                        Tag::ToWrite
                    };
                    let range = page..page + prng.below(400);
                    let limit = 1 + prng.below(200);
                    assert_eq!(
                        index.take_run(&slab, tag, range.clone(), |first| first + limit),
                        twin.take_run(tag, range, limit)
                    );
                }
                _ => {
                    let Some(&page) = twin.in_flight.range(page..).next() else {
                        continue;
                    };
                    twin.in_flight.remove(&page);
                    match prng.below(4) {
                        0 => {
                            index.refuse(&slab, page);
                            twin.refuse(page);
                        }
                        1 => {
                            index.untake(&slab, page, Tag::Dirty);
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
    let mut index = DirtyIndex::default();
    assert_eq!(index.set_dirty(&slab, 0), Ok(true));
    assert_eq!(index.set_dirty(&slab, 64), Ok(true));
    assert_eq!(index.set_dirty(&slab, 128), Err(SlabFull));
    assert_eq!(index.set_dirty(&slab, 1), Ok(true));
    assert_eq!(
        index.take_run(&slab, Tag::Dirty, 0..64, |first| first + 64),
        Some(Run { first: 0, pages: 2 })
    );
    assert_eq!(
        index.set_dirty(&slab, 128),
        Err(SlabFull),
        "a page in flight keeps its block (D2)"
    );
    index.untake(&slab, 0, Tag::Dirty);
    index.landed(&slab, 1);
    index.cancel(&slab, 0);
    assert_eq!(index.set_dirty(&slab, 128), Ok(true));
}

#[test]
fn a_run_crosses_blocks_and_stops_at_the_limit() {
    let slab = BlockSlab::new(8);
    let mut index = DirtyIndex::default();
    for page in 10..200 {
        index
            .set_dirty(&slab, page)
            .expect("the slab is large enough");
    }
    let taken = index.take_run(&slab, Tag::Dirty, 0..u64::MAX, |first| first + 150);
    assert_eq!(
        taken,
        Some(Run {
            first: 10,
            pages: 150
        })
    );
    let rest = index.take_run(&slab, Tag::Dirty, 0..u64::MAX, |first| first + 150);
    assert_eq!(
        rest,
        Some(Run {
            first: 160,
            pages: 40
        })
    );
    assert_eq!(
        index.take_run(&slab, Tag::Dirty, 0..u64::MAX, |first| first + 150),
        None
    );
}

#[test]
fn a_search_in_a_range_visits_no_block_past_it() {
    let slab = BlockSlab::new(1_000);
    let mut index = DirtyIndex::default();
    for number in 0..1_000 {
        let set = index.set_dirty(&slab, number * BLOCK_PAGES + 3);
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
