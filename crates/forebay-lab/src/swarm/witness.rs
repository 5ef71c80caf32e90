//! A witness: what a reader may see. It holds the bytes at one moment, and all changes that began
//! since.
//!
//! One structure judges a read (the moment is its start), a page held by a guard, and a crash image
//! (the moment is the start of the last sync that returned). Each byte has to be the one of that
//! moment, or one from a change that was under way then or began later.

use super::pattern::byte_of_version;
use std::sync::Arc;

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
pub(super) struct Witness {
    start: u64,
    /// Shared with the ledger until the ledger's bytes change.
    bytes: Arc<Vec<u8>>,
    changes: Vec<Change>,
    /// Shortest and longest length that the object can have.
    pub(super) length_bytes: (u64, u64),
}

impl Witness {
    /// A witness of `bytes`, which lie from `start` on in an object of `length_bytes`.
    pub(super) fn new(start: u64, bytes: impl Into<Arc<Vec<u8>>>, length_bytes: u64) -> Witness {
        Witness {
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
    pub(super) fn is_as(&self, other: &Witness) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
            && self.changes.is_empty()
            && other.changes.is_empty()
            && (self.start, self.length_bytes) == (other.start, other.length_bytes)
    }

    fn base(&self, place: u64) -> u8 {
        let at = place.checked_sub(self.start);
        at.and_then(|at| self.bytes.get(at as usize))
            .copied()
            .unwrap_or(0)
    }

    /// Whether `byte` may be seen at `place`.
    pub(super) fn allows(&self, place: u64, byte: u8) -> bool {
        let explains = |change: &Change| {
            change.covers(place) && byte_of_version(change.version, place) == byte
        };
        self.base(place) == byte || self.changes.iter().rev().any(explains)
    }

    /// The first of `found`, which lie from `offset_bytes` on, that nothing explains.
    pub(super) fn judge(&self, offset_bytes: u64, found: &[u8]) -> Result<(), WrongByte> {
        // Most bytes are as they were.
        const PIECE: usize = 4096;
        let pieces = (offset_bytes..).step_by(PIECE).zip(found.chunks(PIECE));
        let mut judged = pieces.map(|(offset, piece)| self.judge_piece(offset, piece));
        judged.find(Result::is_err).unwrap_or(Ok(()))
    }

    fn judge_piece(&self, offset_bytes: u64, found: &[u8]) -> Result<(), WrongByte> {
        let is_simple = offset_bytes >= self.start
            && self
                .bytes
                .get((offset_bytes - self.start) as usize..)
                .and_then(|from| from.get(..found.len()))
                == Some(found);
        if is_simple {
            return Ok(());
        }
        let mut seen = (offset_bytes..).zip(found);
        let wrong = seen.find(|&(place, &byte)| !self.allows(place, byte));
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
        let mut witness = Witness::new(0, bytes_of_version(1, 0, 100), 100);
        witness.note(write(50, 150, 2));
        let mut seen = bytes_of_version(1, 0, 100);
        seen[60..80].copy_from_slice(&bytes_of_version(2, 60, 20));
        assert_eq!(witness.judge(0, &seen), Ok(()));
        assert_eq!(witness.length_bytes, (100, 150));
        seen[10..20].copy_from_slice(&bytes_of_version(2, 10, 10));
        let wrong = witness
            .judge(0, &seen)
            .expect_err("nobody wrote version 2 there");
        assert!((10..20).contains(&wrong.place));
    }
}
