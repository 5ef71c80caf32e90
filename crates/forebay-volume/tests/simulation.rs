//! Writers, crashes, zombies and `gc` over a bucket that loses replies, in thousands of orders, and
//! volumes with pages in every format.
//!
//! What must hold:
//!
//! - each writer begins with a state that the one before committed or tried to commit, not older
//!   than what was acknowledged to that one as durable (invariants VB2, VB3 and VB4);
//! - what is read is what was written last (invariants VB1, VB5 and VB6);
//! - a record in doubt is settled before the next (invariant VB7);
//! - neither `gc` nor a writer's own removal beside all of it takes what is needed (invariants VB8,
//!   VB9 and VB10), and who has just opened the volume finds all of it (invariant VB11);
//! - who follows a writer finds what it has committed, and never goes back (VB11 and VB16);
//! - a snapshot is as it was taken, until it is removed (invariants VB22 and VB23), under a second
//!   name too (invariant VB25).

#![allow(clippy::unwrap_used)]

mod simulated;

use simulated::history::Histories;
use simulated::world::{World, seeds};

const SEEDS: u64 = 1_000;
const STEPS: u32 = 400;

#[test]
fn each_writer_begins_with_a_prefix_that_has_all_acknowledged_commits() {
    let seeds = seeds(SEEDS);
    let (mut takeovers, mut acknowledged, mut fenced) = (0, 0, 0);
    let (mut snapshots, mut kept_twice, mut dropped, mut followed) = (0, 0, 0, 0);
    for seed in seeds.clone() {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, Histories::default());
            for _ in 0..STEPS {
                world.step();
            }
            world.end(false)
        });
        let Ok(histories) = caught else {
            panic!("seed {seed}");
        };
        takeovers += histories.writers();
        acknowledged += histories.acknowledged();
        fenced += histories.fenced;
        snapshots += histories.snapshots;
        kept_twice += histories.kept_twice;
        dropped += histories.dropped;
        followed += histories.followed;
    }
    println!("{takeovers} writers, {acknowledged} commits acknowledged, {fenced} fenced");
    println!("{snapshots} snapshots, {kept_twice} kept twice, {dropped} pins dropped");
    println!("{followed} states followed");
    // The simulation meets what it is for.
    let seeds = seeds.end - seeds.start;
    assert!(takeovers > 2 * seeds, "{takeovers} writers");
    assert!(acknowledged > 3 * seeds, "{acknowledged} commits");
    assert!(snapshots > seeds / 4, "{snapshots} snapshots");
    assert!(kept_twice > seeds / 20, "{kept_twice} snapshots kept twice");
    assert!(dropped > seeds / 20, "{dropped} pins dropped");
    assert!(followed > seeds / 5, "{followed} states followed");
    assert!(fenced > seeds / 4, "{fenced} fenced");
}
