//! Which pieces of a range have to be judged again, because what is promised of them has changed
//! since they were judged last.

use super::extent_map::PIECE;
use std::ops::Range;

/// A range that is longer is taken for one without an end.
const LONGEST: u64 = 1 << 30;

/// See above. Places are offsets from the start of the range.
#[derive(Debug)]
pub(super) struct Unjudged {
    pieces: Vec<bool>,
    /// From this place on all of them.
    from: u64,
}

impl Unjudged {
    /// All pieces.
    pub(super) fn all() -> Unjudged {
        Unjudged {
            pieces: Vec::new(),
            from: 0,
        }
    }

    /// None, up to `end`.
    pub(super) fn none_before(end: u64) -> Unjudged {
        Unjudged {
            pieces: Vec::new(),
            from: end,
        }
    }

    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.end.saturating_sub(range.start) > LONGEST {
            self.from = self.from.min(range.start);
            return;
        }
        let end = range.end.min(self.from).div_ceil(PIECE as u64) as usize;
        let first = range.start as usize / PIECE;
        if first < end {
            self.pieces.resize(self.pieces.len().max(end), false);
            self.pieces[first..end].fill(true);
        }
    }

    /// Whether the piece from `at` on is among them.
    pub(super) fn has(&self, at: usize) -> bool {
        let is_past = (at + PIECE) as u64 > self.from;
        is_past || self.pieces.get(at / PIECE).is_some_and(|&is_in| is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_a_range_touches_are_in_and_no_others() {
        let piece = PIECE as u64;
        assert!(Unjudged::all().has(0) && Unjudged::all().has(7 * PIECE));
        let mut unjudged = Unjudged::none_before(8 * piece + 1);
        unjudged.add(piece - 1..piece + 1);
        unjudged.add(4 * piece..5 * piece);
        unjudged.add(3..3);
        let found = |unjudged: &Unjudged| -> Vec<usize> {
            (0..11).filter(|&at| unjudged.has(at * PIECE)).collect()
        };
        assert_eq!(found(&unjudged), [0, 1, 4, 8, 9, 10]);
        unjudged.add(6 * piece + 5..u64::MAX);
        assert_eq!(found(&unjudged), [0, 1, 4, 6, 7, 8, 9, 10]);
    }
}
