//! The model of a reader: what it may see. That is the bytes at one moment, and all changes that
//! began since.
//!
//! One structure judges a read (the moment is its start), a page held by a guard, and a crash image
//! (the moment is the start of the last sync that returned). Each byte has to be the one of that
//! moment, or one from a change that was under way then or began later.

use super::extent_map::{ExtentMap, PIECE};
use super::pattern::{byte_of_version, is_of_version};
use std::ops::Range;

/// One change of a range: all its bytes become those of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) version: u64,
    /// The length of the object, if this changes it: at least this, or exactly this.
    pub(super) length: NewLength,
}

/// What a change does to an object's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewLength {
    /// Nothing.
    Same,
    /// It is at least this afterwards.
    AtLeast(u64),
    /// It is this afterwards.
    Exactly(u64),
}

impl Change {
    fn covers(&self, place: u64) -> bool {
        (self.start..self.end).contains(&place)
    }
}

/// A byte that nothing explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongByte {
    pub(super) place: u64,
    pub(super) found: u8,
    pub(super) expected: u8,
}

/// See above.
#[derive(Clone, Debug)]
pub(super) struct ReaderModel {
    start: u64,
    bytes: ExtentMap,
    changes: Vec<Change>,
    /// Shortest and longest length that the object can have.
    pub(super) length_bytes: (u64, u64),
}

impl ReaderModel {
    /// A model of `bytes`, which lie from `start` on in an object of `length_bytes`.
    pub(super) fn new(start: u64, bytes: impl Into<ExtentMap>, length_bytes: u64) -> ReaderModel {
        ReaderModel {
            start,
            bytes: bytes.into(),
            changes: Vec::new(),
            length_bytes: (length_bytes, length_bytes),
        }
    }

    /// A change begins.
    pub(super) fn note(&mut self, change: Change) {
        match change.length {
            NewLength::Same => {}
            NewLength::AtLeast(length) => self.length_bytes.1 = self.length_bytes.1.max(length),
            NewLength::Exactly(length) => {
                self.length_bytes.0 = self.length_bytes.0.min(length);
                self.length_bytes.1 = self.length_bytes.1.max(length);
            }
        }
        if change.start < change.end {
            self.changes.push(change);
        }
    }

    /// Whether it allows exactly what `other` allows, because nothing began to change since either.
    pub(super) fn is_as(&self, other: &ReaderModel) -> bool {
        self.bytes.is_copy_of(&other.bytes)
            && self.changes.is_empty()
            && other.changes.is_empty()
            && (self.start, self.length_bytes) == (other.start, other.length_bytes)
    }

    fn base(&self, place: u64) -> u8 {
        let at = place.checked_sub(self.start);
        at.and_then(|at| self.bytes.get(at as usize)).unwrap_or(0)
    }

    /// The ranges of the changes.
    pub(super) fn changed(&self) -> impl Iterator<Item = Range<u64>> {
        self.changes.iter().map(|change| change.start..change.end)
    }

    /// Whether `byte` may be seen at `place`, near which these changes were made.
    fn allows(&self, near: &[Change], place: u64, byte: u8) -> bool {
        let explains = |change: &Change| {
            change.covers(place) && byte_of_version(change.version, place) == byte
        };
        self.base(place) == byte || near.iter().rev().any(explains)
    }

    /// The first of `found`, which lie from `offset_bytes` on, that nothing explains.
    pub(super) fn judge(&self, offset_bytes: u64, found: &[u8]) -> Result<(), WrongByte> {
        let mut pieces = (offset_bytes..).step_by(PIECE).zip(found.chunks(PIECE));
        pieces.try_for_each(|(offset, piece)| self.judge_piece(offset, piece))
    }

    /// Whether `found` is what was at `offset_bytes` in the beginning: zeros past the end.
    fn is_unchanged(&self, offset_bytes: u64, found: &[u8]) -> bool {
        let at = offset_bytes.checked_sub(self.start);
        at.is_some_and(|at| self.bytes.has(at as usize, found))
    }

    fn judge_piece(&self, offset_bytes: u64, found: &[u8]) -> Result<(), WrongByte> {
        if self.is_unchanged(offset_bytes, found) {
            return Ok(());
        }
        let end = offset_bytes + found.len() as u64;
        let touches = |change: &&Change| change.start < end && change.end > offset_bytes;
        let near: Vec<Change> = self.changes.iter().filter(touches).copied().collect();
        let borders = near.iter().flat_map(|change| [change.start, change.end]);
        let mut borders: Vec<u64> = borders.filter(|place| *place < end).collect();
        borders.push(end);
        borders.sort_unstable();
        let mut from = offset_bytes;
        for to in borders {
            if from < to {
                let stretch = &found[(from - offset_bytes) as usize..(to - offset_bytes) as usize];
                self.judge_stretch(&near, from, stretch)?;
                from = to;
            }
        }
        Ok(())
    }

    /// Judges a stretch in which none of `near` begins or ends. Most are of one change as a whole.
    fn judge_stretch(&self, near: &[Change], from: u64, found: &[u8]) -> Result<(), WrongByte> {
        let covers = |change: &&Change| change.covers(from);
        let mut covering = near.iter().rev().filter(covers);
        if self.is_unchanged(from, found)
            || covering.any(|change| is_of_version(change.version, from, found))
        {
            return Ok(());
        }
        let mut seen = (from..).zip(found);
        let wrong = seen.find(|&(place, &byte)| !self.allows(near, place, byte));
        wrong.map_or(Ok(()), |(place, &found)| {
            Err(WrongByte {
                place,
                found,
                expected: self.base(place),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::bytes_of_version;
    use super::*;

    fn write(start: u64, end: u64, version: u64) -> Change {
        Change {
            start,
            end,
            version,
            length: NewLength::AtLeast(end),
        }
    }

    #[test]
    fn a_byte_of_before_or_of_a_change_is_allowed_and_no_other() {
        let mut model = ReaderModel::new(0, bytes_of_version(1, 0, 100), 100);
        model.note(write(50, 150, 2));
        let mut seen = bytes_of_version(1, 0, 100);
        seen[60..80].copy_from_slice(&bytes_of_version(2, 60, 20));
        assert_eq!(model.judge(0, &seen), Ok(()));
        assert_eq!(model.length_bytes, (100, 150));
        seen[10..20].copy_from_slice(&bytes_of_version(2, 10, 10));
        let wrong = model
            .judge(0, &seen)
            .expect_err("nobody wrote version 2 there");
        assert!((10..20).contains(&wrong.place));
    }
    #[test]
    fn zeros_are_past_the_end_until_a_change_makes_it_longer() {
        let mut model = ReaderModel::new(0, bytes_of_version(1, 0, 50), 50);
        let mut seen = bytes_of_version(1, 0, 50);
        seen.resize(90, 0);
        assert_eq!(model.judge(0, &seen), Ok(()));
        seen[70] = bytes_of_version(2, 70, 1)[0];
        assert_eq!(model.judge(0, &seen).expect_err("not yet").place, 70);
        model.note(write(60, 80, 2));
        assert_eq!(model.judge(0, &seen), Ok(()));
    }

    #[test]
    fn each_byte_of_a_piece_with_many_changes_is_judged() {
        let mut model = ReaderModel::new(0, bytes_of_version(1, 0, 300), 300);
        let changes = [
            write(10, 200, 2),
            write(13, 113, 3),
            write(100, 250, 4),
            write(0, 300, 5),
        ];
        let mut seen = bytes_of_version(1, 0, 300);
        for change in changes {
            model.note(change);
            let range = change.start as usize..change.end as usize;
            let bytes = bytes_of_version(change.version, change.start, range.len() as u64);
            seen[range].copy_from_slice(&bytes);
            assert_eq!(model.judge(0, &seen), Ok(()));
            // Parts of two changes in any order are allowed too.
            seen[105..110].copy_from_slice(&bytes_of_version(1, 105, 5));
            assert_eq!(model.judge(0, &seen), Ok(()));
        }
        for place in 0..300 {
            let mut wrong = seen.clone();
            wrong[place] = (0..=255)
                .find(|&byte| is_new(&changes, place, byte))
                .unwrap();
            let found = model.judge(0, &wrong).expect_err("nobody wrote this");
            assert_eq!(found.place, place as u64);
        }
    }

    /// Whether neither version 1 nor a change has `byte` at `place`.
    fn is_new(changes: &[Change], place: usize, byte: u8) -> bool {
        let covering = changes.iter().filter(|change| change.covers(place as u64));
        let mut versions = covering.map(|change| change.version).chain([1]);
        versions.all(|version| byte_of_version(version, place as u64) != byte)
    }
}
