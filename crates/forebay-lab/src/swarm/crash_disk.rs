//! The disk: one object of a store that can crash. It knows what can be read, what is durable,
//! and what is between the two.

use super::extent_map::PIECE;
use forebay_base::Prng;
use std::ops::Range;

/// The unit in which a disk writes. A write that is cut short ends at a border of these.
const SECTOR: usize = 512;
/// Bytes of writes that a disk keeps back. If there are more and no commit comes, the older half
/// becomes durable by itself, as in a store whose cache is full.
const MOST_UNSETTLED_BYTES: usize = 64 << 20;

/// What a request does to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Write { offset: usize, bytes: Vec<u8> },
    SetLength(usize),
    Zero { start: usize, end: usize },
}

impl Act {
    pub(super) fn is_write(&self) -> bool {
        matches!(self, Act::Write { .. })
    }

    fn bytes(&self) -> usize {
        match self {
            Act::Write { bytes, .. } => bytes.len(),
            Act::SetLength(_) | Act::Zero { .. } => 0,
        }
    }

    /// Where it can change `bytes`.
    fn changes(&self, bytes: &[u8]) -> Range<usize> {
        let length = bytes.len();
        match self {
            // What lies between the end and a place past it becomes zeros, as which it was read.
            Act::Write { offset, bytes } => *offset..offset + bytes.len(),
            Act::SetLength(to) => length.min(*to)..length.max(*to),
            Act::Zero { start, end } => (*start).min(length)..(*end).min(length),
        }
    }

    /// Does all of it.
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Act::Write { offset, bytes } => put(to, *offset, bytes),
            Act::SetLength(length) => to.resize(*length, 0),
            Act::Zero { start, end } => {
                let end = (*end).min(to.len());
                if *start < end {
                    to[*start..end].fill(0);
                }
            }
        }
    }

    /// Does the part of it that a loss of power may leave.
    pub(super) fn apply_in_part(&self, to: &mut Vec<u8>, luck: &mut Luck) {
        let Act::Write { offset, bytes } = self else {
            if luck.lands() {
                self.apply(to);
            }
            return;
        };
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            if luck.lands() {
                put(to, offset + number * SECTOR, sector);
            }
        }
    }
}

/// Notes that `range` changed at `revision`.
fn note(changed: &mut Vec<u64>, range: Range<usize>, revision: u64) {
    let pieces = range.start / PIECE..range.end.div_ceil(PIECE);
    if pieces.start < pieces.end {
        changed.resize(changed.len().max(pieces.end), 0);
        changed[pieces].fill(revision);
    }
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[offset..end].copy_from_slice(bytes);
}

/// How much of what is done and not durable lands in a crash.
#[derive(Debug)]
pub(super) struct Luck {
    chance: Prng,
    /// The chance of each act to land, in quarters.
    odds: u64,
}

impl Luck {
    /// Draws any luck from nothing to everything.
    pub(super) fn draw(mut chance: Prng) -> Luck {
        let odds = chance.below(5);
        Luck { chance, odds }
    }

    fn lands(&mut self) -> bool {
        self.chance.chance(self.odds, 4)
    }
}

/// An act that is done and not yet durable.
#[derive(Clone, Debug)]
struct Unsettled {
    sequence: u64,
    act: Act,
}

/// See above.
#[derive(Clone, Debug, Default)]
pub(super) struct CrashDisk {
    current: Vec<u8>,
    /// Without what is unsettled.
    durable: Vec<u8>,
    unsettled: Vec<Unsettled>,
    /// Bytes of them.
    unsettled_bytes: usize,
    /// When the writes finished that were forgotten since. No commit has reported that yet.
    forgotten: Vec<u64>,
    /// Whether what is done is durable at once.
    is_solid: bool,
    /// Counts changes of what is durable.
    revision: u64,
    /// The revision at which each piece of it last changed.
    changed: Vec<u64>,
}

impl CrashDisk {
    /// An object that holds `bytes`, durably.
    pub(super) fn holding(bytes: Vec<u8>, is_solid: bool) -> CrashDisk {
        CrashDisk {
            durable: if is_solid { Vec::new() } else { bytes.clone() },
            current: bytes,
            unsettled: Vec::new(),
            unsettled_bytes: 0,
            forgotten: Vec::new(),
            is_solid,
            revision: 0,
            changed: Vec::new(),
        }
    }

    /// A number that is another one after each change of what is durable.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether something in `range` of what is durable has changed since `revision`.
    pub(super) fn has_changed(&self, range: Range<u64>, revision: u64) -> bool {
        let pieces = range.start as usize / PIECE..(range.end as usize).div_ceil(PIECE);
        let known = pieces.start.min(self.changed.len())..pieces.end.min(self.changed.len());
        self.changed[known].iter().any(|&at| at > revision)
    }

    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    /// What a crash leaves in every case.
    pub(super) fn durable(&self) -> &[u8] {
        if self.is_solid {
            &self.current
        } else {
            &self.durable
        }
    }

    /// Does `act`, at the store's moment `sequence`.
    pub(super) fn done(&mut self, sequence: u64, act: Act) {
        if self.is_solid {
            self.revision += 1;
            let range = act.changes(&self.current);
            note(&mut self.changed, range, self.revision);
        }
        act.apply(&mut self.current);
        if self.is_solid {
            return;
        }
        self.unsettled_bytes += act.bytes();
        self.unsettled.push(Unsettled { sequence, act });
        if self.unsettled_bytes > MOST_UNSETTLED_BYTES {
            self.settle(self.unsettled.len().div_ceil(2));
        }
    }

    /// As [`CrashDisk::done`]. True if the act is durable at once, because nothing else waits for a
    /// commit.
    pub(super) fn done_durably(&mut self, sequence: u64, act: Act) -> bool {
        let is_alone = self.unsettled.is_empty() && self.forgotten.is_empty();
        self.done(sequence, act);
        if is_alone {
            self.settle(self.unsettled.len());
        }
        is_alone
    }

    /// Makes the first `count` acts durable.
    fn settle(&mut self, count: usize) {
        self.revision += count as u64;
        for Unsettled { act, .. } in self.unsettled.drain(..count) {
            self.unsettled_bytes -= act.bytes();
            let range = act.changes(&self.durable);
            note(&mut self.changed, range, self.revision);
            act.apply(&mut self.durable);
        }
    }

    /// Makes durable what was done before `sequence`. False if some of that was forgotten. Then
    /// nothing is made durable, and the loss counts as reported.
    pub(super) fn commit(&mut self, sequence: u64) -> bool {
        let untold = self.forgotten.len();
        self.forgotten.retain(|&finished| finished >= sequence);
        if self.forgotten.len() < untold {
            return false;
        }
        let covered = self
            .unsettled
            .partition_point(|act| act.sequence < sequence);
        self.settle(covered);
        true
    }

    /// The store restarts. It forgets some of the writes that were not committed, by chance.
    pub(super) fn forget(&mut self, luck: &mut Luck) {
        if self.is_solid {
            return;
        }
        let (forgotten, unsettled_bytes) = (&mut self.forgotten, &mut self.unsettled_bytes);
        self.unsettled.retain(|done| {
            let is_kept = !done.act.is_write() || luck.lands();
            if !is_kept {
                forgotten.push(done.sequence);
                *unsettled_bytes -= done.act.bytes();
            }
            is_kept
        });
        self.current.clone_from(&self.durable);
        for Unsettled { act, .. } in &self.unsettled {
            act.apply(&mut self.current);
        }
    }

    /// What a crash leaves. `in_flight` are the requests that were in flight.
    pub(super) fn image(&self, in_flight: &[Act], luck: &mut Luck) -> Vec<u8> {
        let mut bytes = self.durable().to_vec();
        let unsettled = self.unsettled.iter().map(|done| &done.act);
        for act in unsettled.chain(in_flight) {
            act.apply_in_part(&mut bytes, luck);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(byte: u8) -> Act {
        Act::Write {
            offset: 0,
            bytes: vec![byte; 1024],
        }
    }

    fn images(disk: &CrashDisk, in_flight: &[Act]) -> std::collections::BTreeSet<Vec<u8>> {
        let image = |seed| disk.image(in_flight, &mut Luck::draw(Prng::from_seed(seed)));
        (0..200).map(image).collect()
    }

    #[test]
    fn what_was_committed_is_in_every_image() {
        let mut disk = CrashDisk::holding(Vec::new(), false);
        disk.done(1, write(1));
        assert!(disk.commit(2));
        disk.done(3, write(2));
        let images = images(&disk, &[write(3)]);
        assert!(images.len() > 4, "torn ones among them: {}", images.len());
        for image in &images {
            assert_eq!(image.len(), 1024);
            assert!(image.iter().all(|byte| (1..=3).contains(byte)));
        }
    }

    #[test]
    fn an_act_is_durable_at_once_if_nothing_waits_for_a_commit() {
        let mut disk = CrashDisk::holding(Vec::new(), false);
        assert!(disk.done_durably(1, write(1)));
        assert_eq!(disk.durable(), [1; 1024]);
        disk.done(2, write(2));
        assert!(!disk.done_durably(3, write(3)));
        assert_eq!(disk.durable(), [1; 1024]);
        assert!(disk.commit(4));
        assert_eq!(disk.durable(), [3; 1024]);
    }

    #[test]
    fn what_is_never_committed_settles_when_it_is_too_much() {
        let mut disk = CrashDisk::holding(Vec::new(), false);
        let most = MOST_UNSETTLED_BYTES / 1024;
        for sequence in 0..most as u64 {
            disk.done(sequence, write(1));
        }
        let nothing = &mut Luck {
            chance: Prng::from_seed(1),
            odds: 0,
        };
        assert_eq!(disk.image(&[], nothing), b"", "it may still be lost");
        disk.done(most as u64, write(2));
        assert!(disk.unsettled_bytes <= MOST_UNSETTLED_BYTES / 2 + 1024);
        assert_eq!(disk.image(&[], nothing), [1; 1024]);
        assert_eq!(disk.current(), [2; 1024]);
    }

    #[test]
    fn a_solid_medium_loses_only_what_is_in_flight() {
        let mut disk = CrashDisk::holding(Vec::new(), true);
        disk.done(1, write(1));
        assert!(
            images(&disk, &[])
                .iter()
                .all(|image| image == disk.current())
        );
    }

    #[test]
    fn forgotten_writes_are_reported_by_each_commit_that_covers_them() {
        let mut disk = CrashDisk::holding(Vec::new(), false);
        disk.done(1, write(1));
        disk.done(5, write(2));
        disk.forget(&mut Luck {
            chance: Prng::from_seed(1),
            odds: 0,
        });
        assert_eq!(disk.current(), b"");
        assert!(!disk.commit(3), "the first write was forgotten");
        assert!(!disk.commit(7), "so was the second");
        assert!(disk.commit(9));
    }
}
