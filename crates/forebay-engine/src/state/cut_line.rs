//! The line of an object's cuts: truncates, discards, and whatever else needs the object to itself.
//!
//! invariant O2: cuts are carried out in the order in which they took their places. If a write is
//! called after a cut of its pages took its place, it begins after that cut.
//!
//! A cut goes on when its caller drops it. It takes its place while the caller polls it, so a
//! caller that drops it knows what comes after it.

use forebay_base::sync::atomic::{AtomicUsize, Ordering};
use forebay_base::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::ops::Range;

/// How many cuts of one object may be in line at a time.
const LONGEST_LINE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct CutLine {
    places: Mutex<Places>,
    /// Length of the line, written under its lock and read without it by writers: a cut that a
    /// writer does not see yet was not called before the write.
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct Places {
    /// Number of each cut, and the pages that it gives up; the numbers grow.
    line: VecDeque<(u64, Range<u64>)>,
    last_number: u64,
    ended: u64,
}

impl CutLine {
    /// Takes the last place in line. None while the line is as long as it may be.
    pub(crate) fn join(&self, pages: Range<u64>) -> Option<u64> {
        let mut places = lock(&self.places);
        if places.line.len() == LONGEST_LINE {
            return None;
        }
        places.last_number += 1;
        let number = places.last_number;
        places.line.push_back((number, pages));
        self.length.store(places.line.len(), Ordering::Relaxed);
        Some(number)
    }

    /// A cut has ended or is given up.
    pub(crate) fn leave(&self, number: u64) {
        let mut places = lock(&self.places);
        places.line.retain(|(other, _)| *other != number);
        places.ended += 1;
        if places.line.is_empty() {
            // Hardly any object is cut again and again, so an empty line keeps no memory.
            places.line = VecDeque::new();
        }
        self.length.store(places.line.len(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// Whether it is the turn of `number`.
    pub(crate) fn is_first(&self, number: u64) -> bool {
        let places = lock(&self.places);
        places
            .line
            .front()
            .is_some_and(|(first, _)| *first == number)
    }

    /// The last cut in line that gives up one of `pages`.
    pub(crate) fn last_of(&self, pages: &Range<u64>) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let places = lock(&self.places);
        let mut last_first = places.line.iter().rev();
        let found = last_first.find(|(_, given_up)| overlap(given_up, pages));
        found.map(|(number, _)| *number)
    }

    /// Whether a cut up to `number` that gives up one of `pages` is still in line.
    pub(crate) fn has_up_to(&self, number: u64, pages: &Range<u64>) -> bool {
        let places = lock(&self.places);
        let mut up_to = places.line.iter().take_while(|(at, _)| *at <= number);
        up_to.any(|(_, given_up)| overlap(given_up, pages))
    }

    /// Cuts that have left the line so far.
    pub(crate) fn ended(&self) -> u64 {
        lock(&self.places).ended
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn invariant_o2_cuts_have_their_turns_in_the_order_of_their_places() {
        let line = CutLine::default();
        let first = line.join(0..5).expect("there is room");
        let second = line.join(3..9).expect("there is room");
        assert!(line.is_first(first) && !line.is_first(second));
        assert_eq!(line.last_of(&(0..2)), Some(first));
        assert_eq!(line.last_of(&(4..5)), Some(second));
        assert_eq!(line.last_of(&(9..12)), None);
        assert_eq!(line.last_of(&(4..4)), None, "nothing meets no page");
        assert!(line.has_up_to(second, &(0..2)));
        line.leave(first);
        assert!(line.is_first(second) && !line.has_up_to(second, &(0..2)));
        assert!(line.has_up_to(second, &(4..5)) && !line.has_up_to(first, &(4..5)));
        line.leave(second);
        assert!(line.is_empty());
        assert_eq!(line.ended(), 2);
    }

    #[test]
    fn the_line_has_a_bound() {
        let line = CutLine::default();
        let places: Vec<_> = std::iter::from_fn(|| line.join(0..1)).collect();
        assert_eq!(places.len(), LONGEST_LINE);
        line.leave(places[7]);
        assert!(line.join(0..1).is_some() && line.join(0..1).is_none());
    }
}
