//! Everything that goes on in one volume.

use super::bucket::Bucket;
use super::collector::Collector;
use super::history::{Histories, manifest};
use super::reader::Reader;
use super::snapshots::Snapshots;
use super::writer::{Life, SimulatedWriter};
use forebay_base::Prng;
use forebay_volume::{PageFormat, Pins};
use std::ops::Range;

/// The seeds of a test, usually so many: `FOREBAY_VOLUME_SEEDS` is another number, and
/// `FOREBAY_VOLUME_FIRST` the first one if not 0.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let typed = |name, usual| {
        std::env::var(name).map_or(usual, |typed| typed.parse().expect("it is a number"))
    };
    let first = typed("FOREBAY_VOLUME_FIRST", 0);
    first..first + typed("FOREBAY_VOLUME_SEEDS", usual)
}

/// Three places for writers, so that zombies go on beside the last one, and one for `gc`.
pub(crate) struct World {
    pub(crate) prng: Prng,
    pub(crate) bucket: Bucket,
    histories: Histories,
    writers: Vec<SimulatedWriter>,
    collector: Option<Collector>,
    reader: Option<Reader>,
    pub(crate) snapshots: Snapshots,
    writers_born: u128,
}

impl World {
    pub(crate) fn new(seed: u64, histories: Histories) -> World {
        let prng = Prng::from_seed(seed);
        let pages = PageFormat::ALL[prng.child("pages").below(3) as usize];
        World {
            bucket: Bucket::new(manifest(pages), prng.child("bucket")),
            prng: prng.child("order"),
            histories,
            writers: Vec::new(),
            collector: None,
            reader: None,
            snapshots: Snapshots::default(),
            writers_born: 0,
        }
    }

    pub(crate) fn step(&mut self) {
        if self.writers.is_empty() || (self.writers.len() < 3 && self.prng.chance(1, 40)) {
            self.writers_born += 1;
            let writer = SimulatedWriter::new(
                self.writers_born,
                self.prng.next_u64(),
                self.bucket.manifest,
            );
            self.writers.push(writer);
        }
        if self.prng.chance(1, 4) {
            if self.collector.is_none() && self.prng.chance(1, 10) {
                self.collector = Some(Collector::new(pins(&mut self.prng)));
            }
            let ended = self.collector.as_mut().is_some_and(|collector| {
                (0..4).any(|_| collector.step(&mut self.bucket, &mut self.histories))
            });
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
            if reader.step(&mut self.prng, &mut self.bucket, &mut self.histories) {
                self.reader = None;
            }
            return;
        }
        if self.prng.chance(1, 5) {
            self.snapshots
                .step(&mut self.prng, &mut self.bucket, &mut self.histories);
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
    /// A volume `may_be_refused` for good if that cannot be helped.
    pub(crate) fn end(mut self, may_be_refused: bool) -> Histories {
        self.bucket.settle();
        let mut collector = Collector::new(Pins::Drop);
        while !collector.step(&mut self.bucket, &mut self.histories) {}
        self.snapshots.judge_end(&self.bucket, &mut self.histories);
        self.histories.judge_end(&self.bucket, may_be_refused);
        self.histories.snapshots += self.snapshots.taken;
        self.histories.kept_twice += self.snapshots.kept_twice;
        self.histories.dropped += self.snapshots.dropped;
        self.histories
    }
}

/// Most removers give a snapshot its time.
pub(crate) fn pins(prng: &mut Prng) -> Pins {
    if prng.chance(1, 3) {
        return Pins::Drop;
    }
    Pins::Respect
}
