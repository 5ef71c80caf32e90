//! The writes that a store has begun and not finished.
//!
//! A sync that finds no tagged page asks here whether a write of its object is still on its way.
//! Writes are numbered in the order in which they begin; one number stands for all requests of a
//! run.
//!
//! invariant Q1: the numbers rise from the front to the back, and each has at least one write.

use crate::state::stamp::{Stamp, earliest};
use std::collections::VecDeque;
use std::ops::Range;

/// Bits of a request's token that hold its sequence number; the rest hold the object's. There are
/// never more writes outstanding than these bits can tell apart.
pub(crate) const SEQUENCE_BITS: u32 = 40;

/// The token of a request of `object`.
pub(crate) fn token(object: u32, sequence: u64) -> u64 {
    u64::from(object) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// The object and sequence of a token.
pub(crate) fn of_token(token: u64) -> (u32, u64) {
    (
        (token >> SEQUENCE_BITS) as u32,
        token & ((1 << SEQUENCE_BITS) - 1),
    )
}

/// Writes of one number.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    sequence: u64,
    object: u32,
    writes: u32,
    /// Since when the oldest page of the run is dirty, once the run was taken.
    since: Option<Stamp>,
}

#[derive(Debug)]
pub(crate) struct Outstanding {
    next: u64,
    numbered: VecDeque<Numbered>,
}

impl Outstanding {
    /// None, with room for `room` numbers: a flusher needs no memory for them.
    pub(crate) fn with_room(room: usize) -> Outstanding {
        Outstanding {
            next: 0,
            numbered: VecDeque::with_capacity(room),
        }
    }

    /// The number that the next write will have.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A write of `object` under a number of its own.
    pub(crate) fn begin(&mut self, object: u32) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.numbered.push_back(Numbered {
            sequence,
            object,
            writes: 1,
            since: None,
        });
        sequence
    }

    /// Another write under a number that is outstanding, of pages that are dirty since `since`.
    pub(crate) fn join(&mut self, sequence: u64, since: Stamp) {
        let at = self.position(sequence);
        self.numbered[at].writes += 1;
        self.numbered[at].since = earliest(self.numbered[at].since, Some(since));
    }

    /// Since when the oldest page is dirty of the writes with this number, of which the lowest
    /// [`SEQUENCE_BITS`] bits are enough.
    pub(crate) fn since(&self, sequence: u64) -> Option<Stamp> {
        self.numbered[self.position(self.whole(sequence))].since
    }

    /// Since when the oldest page of all writes is dirty.
    pub(crate) fn oldest_since(&self) -> Option<Stamp> {
        let each = self.numbered.iter().map(|write| write.since);
        each.fold(None, earliest)
    }

    /// A write has ended; the lowest [`SEQUENCE_BITS`] bits of its number are those of `sequence`.
    pub(crate) fn end(&mut self, sequence: u64) {
        let at = self.position(self.whole(sequence));
        self.numbered[at].writes -= 1;
        if self.numbered[at].writes == 0 {
            self.numbered.remove(at);
        }
    }

    /// Whether a write of `object` whose number is one of `sequences` has not ended.
    pub(crate) fn has_one_of(&self, object: u32, sequences: Range<u64>) -> bool {
        self.numbered
            .iter()
            .skip_while(|write| write.sequence < sequences.start)
            .take_while(|write| write.sequence < sequences.end)
            .any(|write| write.object == object)
    }

    /// The oldest write of `object` that has not ended.
    pub(crate) fn oldest(&self, object: u32) -> Option<u64> {
        let oldest = self.numbered.iter().find(|write| write.object == object);
        oldest.map(|write| write.sequence)
    }

    /// The whole number of an outstanding write with these lowest bits.
    fn whole(&self, sequence: u64) -> u64 {
        let behind = self.next.wrapping_sub(sequence) & ((1 << SEQUENCE_BITS) - 1);
        self.next - behind
    }

    fn position(&self, sequence: u64) -> usize {
        self.numbered
            .binary_search_by_key(&sequence, |write| write.sequence)
            .expect("a write is outstanding until it has ended as often as it began (Q1)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a number that a token carries: its lowest bits.
    fn lowest(sequence: u64) -> u64 {
        sequence & ((1 << SEQUENCE_BITS) - 1)
    }

    #[test]
    fn a_number_is_outstanding_until_all_of_its_writes_have_ended() {
        let mut outstanding = Outstanding::with_room(4);
        let first = outstanding.begin(7);
        outstanding.join(first, Stamp::at(1_600));
        assert_eq!(outstanding.since(lowest(first)), Some(Stamp::at(1_600)));
        assert_eq!(outstanding.oldest_since(), Some(Stamp::at(1_600)));
        outstanding.end(first);
        assert!(outstanding.has_one_of(7, 0..outstanding.next()));
        assert_eq!(
            (outstanding.oldest(7), outstanding.oldest(8)),
            (Some(first), None)
        );
        outstanding.end(first);
        assert!(!outstanding.has_one_of(7, 0..outstanding.next()));
    }

    #[test]
    fn only_writes_of_the_object_with_these_numbers_count() {
        let mut outstanding = Outstanding::with_room(4);
        let older = outstanding.begin(1);
        let newer = outstanding.begin(2);
        assert!(outstanding.has_one_of(1, 0..newer));
        assert!(!outstanding.has_one_of(1, newer..newer + 1));
        assert!(!outstanding.has_one_of(2, 0..newer));
        assert!(outstanding.has_one_of(2, newer..newer + 1));
        outstanding.end(older);
        assert!(!outstanding.has_one_of(1, 0..newer + 1));
        assert!(outstanding.has_one_of(2, 0..newer + 1));
    }

    /// What is left stays in order (invariant Q1).
    #[test]
    fn writes_that_end_out_of_order_are_found_by_their_lowest_bits() {
        let mut outstanding = Outstanding::with_room(4);
        // Start where the number no longer fits into a token's bits and they begin again at 0.
        outstanding.next = (3 << SEQUENCE_BITS) - 2;
        let numbers: Vec<u64> = (0..5).map(|object| outstanding.begin(object)).collect();
        for at in [2, 0, 4, 1, 3] {
            assert!(outstanding.has_one_of(at as u32, 0..outstanding.next()));
            outstanding.end(lowest(numbers[at]));
            assert!(!outstanding.has_one_of(at as u32, 0..outstanding.next()));
        }
    }

    #[test]
    #[should_panic(expected = "outstanding until it has ended")]
    fn a_write_does_not_end_twice() {
        let mut outstanding = Outstanding::with_room(1);
        let sequence = outstanding.begin(0);
        outstanding.begin(1);
        outstanding.end(sequence);
        outstanding.end(sequence);
    }
}
