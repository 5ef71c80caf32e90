//! Pages that arrive in a run, and the same pages one by one.

use super::*;
use crate::settings::PageMemory;
use crate::state::arena::Arena;
use crate::state::index::key;
use forebay_base::Prng;

const FRAMES: u32 = 24;
/// Frames of active pages that are there before.
const ACTIVE_FRAMES: u32 = 8;

/// The lists after the arrival of 24 pages, in runs of at most `longest`.
fn arrived(seed: u64, longest: usize) -> (Vec<Refault>, Vec<Vec<u32>>, u64) {
    let arena = Arena::new(FRAMES + ACTIVE_FRAMES, PageMemory::Real, false)
        .expect("a few pages can be mapped");
    let frames = FrameTable::new(arena, 1);
    let lists = Lists::new(Arc::new(TwoLists), 1, 4 * FRAMES);
    for frame in FRAMES..FRAMES + ACTIVE_FRAMES {
        frames.set(frame, flag::ACTIVE);
        lists.of(0).list_run(&frames, &[frame]);
    }
    let mut chance = Prng::from_seed(seed);
    for page in 0..u64::from(FRAMES) {
        if chance.chance(1, 2) {
            let was_active = flag::WORKINGSET * chance.below(2);
            lists.evicted(0, key(1, page), was_active);
        }
    }
    let run: Vec<u32> = (0..FRAMES).collect();
    for &frame in &run {
        let mut hold = frames.exclude_free(frame);
        // The last page to leave is the first to come back.
        hold.set_owner(key(1, u64::from(FRAMES - 1 - frame)));
        hold.set(flag::MAPPED);
        hold.leave();
    }
    let mut refaults = Vec::new();
    for part in run.chunks(longest) {
        lists.arrive(
            &frames,
            Arrivals { zone: 0, run: part },
            || false,
            |_, refault| refaults.push(refault),
        );
    }
    let members = List::ALL.map(|list| lists.of(0).members(&frames, list));
    (refaults, members.to_vec(), lists.of(0).age())
}

#[test]
fn a_run_arrives_as_its_pages_would_one_by_one() {
    let mut activated = 0;
    for seed in 0..40 {
        let one_by_one = arrived(seed, 1);
        assert_eq!(arrived(seed, FRAMES as usize), one_by_one, "seed {seed}");
        assert_eq!(arrived(seed, 5), one_by_one, "seed {seed}");
        activated += one_by_one.1[List::ActiveFile as usize].len() - ACTIVE_FRAMES as usize;
    }
    assert!(activated > 40, "some were near enough: {activated}");
}
