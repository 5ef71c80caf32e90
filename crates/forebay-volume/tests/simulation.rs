//! Writers, crashes, zombies and `gc` over a bucket that loses replies, in thousands of orders.
//!
//! What must hold:
//!
//! - each writer begins with a state that the one before committed or tried to commit, not older
//!   than what was acknowledged to that one as durable (invariants VB2, VB3 and VB4);
//! - what is read is what was written last (invariants VB1, VB5 and VB6);
//! - a record in doubt is settled before the next (invariant VB7);
//! - neither `gc` nor a writer's own removal beside all of it takes what is needed (invariants VB8,
//!   VB9 and VB10), and who has just opened the volume finds all of it (invariant VB11).

#![allow(clippy::unwrap_used)]

mod simulated;

use forebay_base::Prng;
use simulated::bucket::Bucket;
use simulated::collector::Collector;
use simulated::history::{Histories, PAGES, manifest};
use simulated::reader::Reader;
use simulated::writer::{Life, SimulatedWriter};

/// `FOREBAY_VOLUME_SEEDS` is another number, and `FOREBAY_VOLUME_FIRST` the first one if not 0.
const SEEDS: u64 = 1_000;
const STEPS: u32 = 400;

/// Three places for writers, so that zombies go on beside the last one, and one for `gc`.
struct World {
    prng: Prng,
    bucket: Bucket,
    histories: Histories,
    writers: Vec<SimulatedWriter>,
    collector: Option<Collector>,
    reader: Option<Reader>,
    writers_born: u128,
}

impl World {
    fn new(seed: u64) -> World {
        let prng = Prng::from_seed(seed);
        World {
            bucket: Bucket::new(prng.child("bucket")),
            prng: prng.child("order"),
            histories: Histories::default(),
            writers: Vec::new(),
            collector: None,
            reader: None,
            writers_born: 0,
        }
    }

    fn step(&mut self) {
        if self.writers.is_empty() || (self.writers.len() < 3 && self.prng.chance(1, 40)) {
            self.writers_born += 1;
            let writer = SimulatedWriter::new(self.writers_born, self.prng.next_u64());
            self.writers.push(writer);
        }
        if self.prng.chance(1, 4) {
            if self.collector.is_none() && self.prng.chance(1, 10) {
                self.collector = Some(Collector::new());
            }
            let ended = self
                .collector
                .as_mut()
                .is_some_and(|collector| (0..4).any(|_| collector.step(&mut self.bucket)));
            // It crashes at any step too.
            if ended || self.prng.chance(1, 100) {
                self.collector = None;
            }
            return;
        }
        if self.prng.chance(1, 8) {
            let reader = self
                .reader
                .get_or_insert_with(|| Reader::new(&self.histories));
            if reader.step(&mut self.bucket, &self.histories) {
                self.reader = None;
            }
            return;
        }
        // The first ones are stopped for a while and go on as zombies.
        let last = self.writers.len() - 1;
        let at = if self.prng.chance(1, 2) {
            last
        } else {
            self.prng.below(self.writers.len() as u64) as usize
        };
        let life = self.writers[at].step(&mut self.bucket, &mut self.histories);
        if life == Life::Ended || self.prng.chance(1, 120) {
            self.writers.remove(at);
        }
    }

    /// The state at the end, without faults, is the last one that was committed.
    fn end(mut self) -> Histories {
        self.bucket.settle();
        let mut collector = Collector::new();
        while !collector.step(&mut self.bucket) {}
        self.histories.judge_end(&self.bucket);
        self.histories
    }
}

#[test]
fn each_writer_begins_with_a_prefix_that_has_all_acknowledged_commits() {
    let typed = |name, usual| {
        std::env::var(name).map_or(usual, |typed| typed.parse().expect("it is a number"))
    };
    let seeds = typed("FOREBAY_VOLUME_SEEDS", SEEDS);
    let first = typed("FOREBAY_VOLUME_FIRST", 0);
    let (mut takeovers, mut acknowledged, mut fenced) = (0, 0, 0);
    for seed in first..first + seeds {
        let caught = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.end()
        });
        let Ok(histories) = caught else {
            panic!("seed {seed}");
        };
        takeovers += histories.writers();
        acknowledged += histories.acknowledged();
        fenced += histories.fenced;
    }
    println!("{takeovers} writers, {acknowledged} commits acknowledged, {fenced} fenced");
    // The simulation meets what it is for.
    assert!(takeovers > 2 * seeds, "{takeovers} writers");
    assert!(acknowledged > 3 * seeds, "{acknowledged} commits");
    assert!(fenced > seeds / 4, "{fenced} fenced");
    assert_eq!(manifest().pages(), PAGES as u64);
}
