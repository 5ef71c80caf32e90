//! The bytes of a range, in pieces. A copy shares them, and a piece is copied when it changes.

use std::ops::Range;
use std::sync::Arc;

/// Bytes are kept and compared in pieces of this many, as most are what they were.
pub(super) const PIECE: usize = 4096;

type Piece = Arc<[u8; PIECE]>;

/// See above.
#[derive(Clone, Debug)]
pub(super) struct ExtentMap {
    pieces: Arc<Vec<Piece>>,
    length: usize,
    zeros: Piece,
}

impl ExtentMap {
    /// Zeros.
    pub(super) fn zeros(length: usize) -> ExtentMap {
        let zeros = Arc::new([0; PIECE]);
        ExtentMap {
            pieces: Arc::new(vec![zeros.clone(); length.div_ceil(PIECE)]),
            length,
            zeros,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Cuts it, or makes it longer by zeros.
    pub(super) fn resize(&mut self, length: usize) {
        let tail = length..self.length.min(length.next_multiple_of(PIECE));
        if tail.start < tail.end {
            self.change(tail, |_, bytes| bytes.fill(0));
        }
        let count = length.div_ceil(PIECE);
        if count != self.pieces.len() {
            Arc::make_mut(&mut self.pieces).resize(count, self.zeros.clone());
        }
        self.length = length;
    }

    /// Calls `change` with each stretch of `range`, which lies within, and its place.
    pub(super) fn change(&mut self, range: Range<usize>, change: impl Fn(usize, &mut [u8])) {
        let pieces = Arc::make_mut(&mut self.pieces);
        let mut at = range.start;
        while at < range.end {
            let within = at % PIECE;
            let count = (PIECE - within).min(range.end - at);
            let piece = Arc::make_mut(&mut pieces[at / PIECE]);
            change(at, &mut piece[within..within + count]);
            at += count;
        }
    }

    /// The byte at `at`, if it lies within.
    pub(super) fn get(&self, at: usize) -> Option<u8> {
        let piece = self.pieces.get(at / PIECE);
        let byte = piece.map(|piece| piece[at % PIECE]);
        byte.filter(|_| at < self.length)
    }

    /// Whether `found` is what lies from `at` on: zeros past the end.
    pub(super) fn has(&self, at: usize, found: &[u8]) -> bool {
        let within = found.len().min(self.length.saturating_sub(at));
        let (mut rest, past) = found.split_at(within);
        let mut at = at;
        while !rest.is_empty() {
            let known = &self.pieces[at / PIECE][at % PIECE..];
            let (here, later) = rest.split_at(rest.len().min(known.len()));
            if !known.starts_with(here) {
                return false;
            }
            at += here.len();
            rest = later;
        }
        past.iter().all(|&byte| byte == 0)
    }

    /// The pieces that hold `range`, and where the first of them begins. It is only read.
    pub(super) fn part(&self, range: Range<usize>) -> (usize, ExtentMap) {
        let first = range.start / PIECE;
        let pieces = first..range.end.div_ceil(PIECE).max(first);
        let part = ExtentMap {
            pieces: Arc::new(self.pieces.get(pieces).unwrap_or_default().to_vec()),
            length: range.end - first * PIECE,
            zeros: self.zeros.clone(),
        };
        (first * PIECE, part)
    }

    /// Whether it is a copy of `other` that has not changed since.
    pub(super) fn is_copy_of(&self, other: &ExtentMap) -> bool {
        Arc::ptr_eq(&self.pieces, &other.pieces) && self.length == other.length
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.pieces.len() * PIECE);
        for piece in self.pieces.iter() {
            bytes.extend_from_slice(&piece[..]);
        }
        bytes.truncate(self.length);
        bytes
    }
}

impl From<Vec<u8>> for ExtentMap {
    fn from(bytes: Vec<u8>) -> ExtentMap {
        let mut map = ExtentMap::zeros(bytes.len());
        map.change(0..bytes.len(), |at, to| {
            to.copy_from_slice(&bytes[at..at + to.len()]);
        });
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;

    #[test]
    fn a_sheet_is_as_a_vector_and_its_copies_stay_what_they_were() {
        for seed in 0..50 {
            let mut chance = Prng::from_seed(seed);
            let (mut map, mut vector) = (ExtentMap::zeros(0), Vec::new());
            let mut copies = Vec::new();
            for _ in 0..60 {
                let longest = 5 * PIECE as u64;
                if chance.chance(1, 3) {
                    let length = chance.below(longest) as usize;
                    map.resize(length);
                    vector.resize(length, 0);
                }
                let end = chance.below(vector.len() as u64 + 1);
                let range = chance.below(end + 1) as usize..end as usize;
                let value = chance.below(256) as u8;
                map.change(range.clone(), |_, bytes| bytes.fill(value));
                vector[range.clone()].fill(value);
                assert_eq!(map.to_vec(), vector);
                assert_eq!(map.len(), vector.len());
                let at = chance.below(longest) as usize;
                assert_eq!(map.get(at), vector.get(at).copied());
                let (first, part) = map.part(range.clone());
                let mut seen = vector[first..range.end].to_vec();
                seen.resize(range.end - first + 70, 0);
                assert!(part.has(0, &seen), "zeros are past the end of a part");
                if let Some(at) = seen.len().checked_sub(1 + chance.below(200) as usize) {
                    seen[at] ^= 1;
                    assert!(!part.has(0, &seen), "byte {at} of {} is wrong", seen.len());
                }
                copies.push((map.clone(), vector.clone()));
            }
            for (copy, before) in copies {
                assert_eq!(copy.to_vec(), before);
            }
        }
    }
}
