//! One object at a time is lost, restored after it was removed, or left out of listings, at any
//! step of writers, crashes, zombies and `gc`.
//!
//! What must hold:
//!
//! - nobody begins with a state that is older than what was acknowledged as durable: it is found,
//!   or the volume is refused (invariants VB15, VB16, VB17, VB18 and VB19);
//! - once the object is there again, so is everything that was acknowledged: neither `gc` nor a
//!   writer has removed what is needed (invariants VB8, VB9 and VB10);
//! - a snapshot is as it was taken, until it is removed (invariants VB22 and VB23).

#![allow(clippy::unwrap_used)]

mod simulated;

use forebay_volume::{LOG_PREFIX, TWIN_PREFIX};
use simulated::history::Histories;
use simulated::world::{World, seeds};

const SEEDS: u64 = 4_000;
const STEPS: u32 = 400;

/// What is wrong with an object at the moment.
enum Act {
    Lost(String, Vec<u8>),
    Hidden,
    /// Nothing can be done about it any more.
    Restored,
}

/// Does it, and undoes it, if not in this world.
struct Adversary {
    act: Option<Act>,
    undoes: bool,
    acts: u64,
    /// Whether a record was lost of which there was one copy.
    is_past_help: bool,
}

impl Adversary {
    fn step(&mut self, world: &mut World) {
        match &self.act {
            None if world.prng.chance(1, 30) => self.begin(world),
            Some(Act::Restored) => self.act = None,
            Some(_) if self.undoes && world.prng.chance(1, 40) => self.undo(world),
            _ => {}
        }
    }

    fn begin(&mut self, world: &mut World) {
        let removed = world.prng.chance(1, 4);
        let Some(key) = chosen(world, removed) else {
            return;
        };
        self.acts += 1;
        self.act = Some(if removed {
            world.bucket.restore(&key);
            Act::Restored
        } else if world.prng.chance(1, 3) {
            world.bucket.hide(Some(&key));
            Act::Hidden
        } else {
            let bytes = world.bucket.lose(&key);
            self.is_past_help |= was_alone(world, &key, &bytes);
            Act::Lost(key, bytes)
        });
    }

    fn undo(&mut self, world: &mut World) {
        match self.act.take() {
            Some(Act::Lost(key, bytes)) => {
                if !world.bucket.put_back(&key, &bytes) {
                    // It stays lost, and that is enough.
                    self.act = Some(Act::Lost(key, bytes));
                    self.undoes = false;
                }
            }
            Some(Act::Hidden) => world.bucket.hide(None),
            Some(Act::Restored) | None => {}
        }
    }
}

/// Whether `key` was the only copy of a record: one that is being made, so that no flush has
/// returned for it, or that met another writer which takes the volume over.
fn was_alone(world: &World, key: &str, bytes: &[u8]) -> bool {
    let other = |own, other| {
        let number = key.strip_prefix(own)?;
        Some(world.bucket.peek(&format!("{other}{number}")))
    };
    let other = other(TWIN_PREFIX, LOG_PREFIX).or_else(|| other(LOG_PREFIX, TWIN_PREFIX));
    other.is_some_and(|other| other != Some(bytes))
}

/// Some key of a kind, most often one of the last.
fn chosen(world: &mut World, removed: bool) -> Option<String> {
    let kinds = [
        "log/", "twin/", "map/", "data/", "snap/", "pin/", "volume", "mapped", "probe/",
    ];
    let kind = kinds[world.prng.below(kinds.len() as u64) as usize];
    let keys = world.bucket.keys(removed);
    let keys: Vec<String> = keys
        .filter(|it| it.starts_with(kind))
        .map(str::to_owned)
        .collect();
    let back = world.prng.below(keys.len().max(1) as u64) * world.prng.below(2);
    keys.into_iter().rev().nth(back as usize)
}

#[test]
fn no_single_loss_makes_a_volume_older_than_what_was_promised() {
    let seeds = seeds(SEEDS);
    let (mut acts, mut writers, mut acknowledged, mut noticed) = (0, 0, 0, 0);
    let mut snapshots = 0;
    for seed in seeds.clone() {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, Histories::lossy());
            let undoes = world.prng.chance(1, 2);
            let mut adversary = Adversary {
                act: None,
                undoes,
                acts: 0,
                is_past_help: false,
            };
            for _ in 0..STEPS {
                world.step();
                adversary.step(&mut world);
            }
            adversary.undo(&mut world);
            let acts = adversary.acts;
            (acts, world.end(adversary.is_past_help))
        });
        let Ok((of_world, histories)) = caught else {
            panic!("seed {seed}");
        };
        acts += of_world;
        writers += histories.writers();
        acknowledged += histories.acknowledged();
        noticed += histories.noticed;
        snapshots += histories.snapshots;
    }
    println!("{acts} objects lost, restored or hidden, noticed {noticed} times");
    println!("{writers} writers, {acknowledged} commits acknowledged, {snapshots} snapshots");
    let seeds = seeds.end - seeds.start;
    assert!(acts > seeds, "{acts} objects");
    assert!(acknowledged > 2 * seeds, "{acknowledged} commits");
    assert!(snapshots > seeds / 4, "{snapshots} snapshots");
    assert!(noticed > seeds / 10, "noticed {noticed} times");
}
