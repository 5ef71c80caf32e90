//! How old a byte may become before it is durable.
//!
//! # Question
//!
//! An operator says how old the bytes may be that a crash would lose. When does a flusher begin to
//! write, how much of a store may be dirty, and which of it is written first?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `at_risk_ms` | ms | 1 and up | an operator |
//! | `age_ms` | ms | 0 and up | the time since the first byte that is not durable was written |
//! | `floor_pages` | pages | 1 and up | the drain law |
//! | `average_pages_per_s` | pages/s | 0 and up | the bandwidth law |
//! | `drain_ms` | ms | 0 and up | output: the promise of the drain law that this one needs |
//! | whether a pass is due, or a byte too old | | | output |
//!
//! A *pass* writes and commits every byte that was dirty when it began, and none that became so
//! later. The flusher begins one when it is due or when too much is dirty, and never two at once.
//!
//! # Formula
//!
//! ```text
//! drain = at_risk / 4
//! due   : age >= at_risk / 2
//! late  : age > at_risk
//! least = 4 * the least promise of the drain law
//! ```
//!
//! # Conditions
//!
//! 1. The drain grows with the limit on the age and is at most a quarter of it.
//! 2. If no pass takes longer than half of the limit, no byte is older than the limit when it is
//!    durable, however the passes begin that are not due.
//! 3. A byte that is late was due.
//! 4. The drain that follows from the least limit is one that the store can keep.
//! 5. If passes follow each other without a rest, and each writes at most 5/4 of the drain at the
//!    rate of the store, two neighbours may together take 3/8 of the limit longer than that, for
//!    commits and for a slow phase of the store, and no byte is too old.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/at_risk.svg")]
//!
//! The age of the oldest byte with a limit of 2 s: of a store to which a tenth of what it takes is
//! written, of one whose writers want more than it takes, and of one that takes half as much from
//! 6 s on, before the drain law has seen it.
//!
//! # Example
//!
//! With 2 s, what is dirty can be written in 500 ms, and a pass begins when a byte is 1 s old.
//!
//! ```
//! use forebay_law::at_risk::{drain_ms, due_ms, is_late};
//!
//! assert_eq!(drain_ms(2_000), 500);
//! assert_eq!(due_ms(2_000), 1_000);
//! assert!(is_late(2_001, 2_000) && !is_late(2_000, 2_000));
//! ```
//!
//! # Why not the simpler one
//!
//! A flusher that writes what is older than some age (Linux) promises nothing: its writers may have
//! made more dirty than the store takes in the rest of the time. With a promise to drain in half of
//! the limit, a byte that became dirty just after a pass began waits for that pass and for the next
//! one, and both together take the whole limit; nothing is left for commits, and for the quarter
//! by which the drain law looks upwards. A third leaves time for these, but not for a stick that
//! stands still for 0.8 s while its file system writes inodes. Writing strictly in the order in
//! which bytes became dirty would need one pass and half of the limit, but tears the neighbours of
//! a file apart.
//!
//! # Edges
//!
//! A store that does not answer, or that refuses a write, makes bytes late: that is counted, and
//! writers are held by the drain law and not by this one. A rate that falls by more than three
//! eighths makes bytes late until the drain law has followed. A limit of less than 4 ms gives no
//! drain at all; a caller that takes the number from a user refuses far more than that. A store
//! that needs half of the limit for the least pass, as a stick that goes from file to file, makes
//! bytes late whatever is dirty.
//!
//! # Lineage
//!
//! Forebay's own. Linux has an age from which pages are written (`dirty_expire_centisecs`, 2.6) and
//! btrfs an interval of commits, both without a bound on what is dirty; that a pass has a fixed set
//! is the tagging of Linux's `sync` (2.6.36).

use crate::drain::least_promise_ms;

/// The drain takes this part of the limit.
const DRAIN_PART: u64 = 4;
/// A pass begins at this part of it.
const DUE_PART: u64 = 2;

/// In how much time what is dirty has to be written, milliseconds.
pub fn drain_ms(at_risk_ms: u64) -> u64 {
    at_risk_ms / DRAIN_PART
}

/// The age of a byte from which a pass is due, milliseconds.
pub fn due_ms(at_risk_ms: u64) -> u64 {
    at_risk_ms / DUE_PART
}

/// Whether a byte of that age breaks the promise.
pub fn is_late(age_ms: u64, at_risk_ms: u64) -> bool {
    age_ms > at_risk_ms
}

/// The least limit that a store can keep, milliseconds.
///
/// ```
/// // A stick of 3.8 MB/s.
/// assert_eq!(forebay_law::at_risk::least_at_risk_ms(256, 928), 1_104);
/// ```
pub fn least_at_risk_ms(floor_pages: u64, average_pages_per_s: u64) -> u64 {
    least_promise_ms(floor_pages, average_pages_per_s).saturating_mul(DRAIN_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The greatest age at which a byte becomes durable, if `passes` follow each other, each with
    /// the time it takes and that for which the flusher would rest before it, milliseconds. Bytes
    /// become dirty at every instant.
    fn oldest_ms(at_risk_ms: u64, passes: &[(u64, u64)]) -> u64 {
        let (mut began_ms, mut ended_ms, mut oldest) = (0, 0, 0);
        for &(takes_ms, rests_ms) in passes {
            // The first byte that the last pass left became dirty when that began.
            let due_at_ms = began_ms + due_ms(at_risk_ms);
            let begins_ms = (ended_ms + rests_ms).min(due_at_ms).max(ended_ms);
            oldest = oldest.max(begins_ms + takes_ms - began_ms);
            (began_ms, ended_ms) = (begins_ms, begins_ms + takes_ms);
        }
        oldest
    }

    proptest! {
        #[test]
        fn condition_1_the_drain_is_a_part_that_grows(
            at_risk_ms in 0..1_u64 << 40, more_ms in 0..1_u64 << 40,
        ) {
            prop_assert!(drain_ms(at_risk_ms) * 4 <= at_risk_ms);
            prop_assert!(drain_ms(at_risk_ms + more_ms) >= drain_ms(at_risk_ms));
        }

        #[test]
        fn condition_2_no_byte_is_too_old_if_passes_take_half_the_limit(
            at_risk_ms in 300..20_000_u64,
            passes in proptest::collection::vec((0..=1_000_u64, 0..30_000_u64), 1..50),
        ) {
            let scaled = |&(part, rests_ms): &(u64, u64)| (at_risk_ms / 2 * part / 1_000, rests_ms);
            let passes: Vec<(u64, u64)> = passes.iter().map(scaled).collect();
            prop_assert!(!is_late(oldest_ms(at_risk_ms, &passes), at_risk_ms));
        }

        #[test]
        fn condition_3_what_is_late_was_due(
            at_risk_ms in 1..1_u64 << 40, age_ms in 0..1_u64 << 41,
        ) {
            prop_assert!(!is_late(age_ms, at_risk_ms) || age_ms >= due_ms(at_risk_ms));
        }

        #[test]
        fn condition_4_the_least_limit_leaves_a_drain_that_can_be_kept(
            floor_pages in 1..1_u64 << 20, rate in 0..1_u64 << 24,
        ) {
            let drain = drain_ms(least_at_risk_ms(floor_pages, rate));
            prop_assert!(drain >= least_promise_ms(floor_pages, rate));
        }

        #[test]
        fn condition_5_two_passes_may_share_three_eighths_of_the_limit(
            at_risk_ms in 300..20_000_u64,
            passes in proptest::collection::vec((0..=1_000_u64, 0..=1_000_u64), 2..50),
        ) {
            let (full_ms, spare_ms) = (drain_ms(at_risk_ms) * 5 / 4, at_risk_ms * 3 / 8);
            // Of the time that two neighbours share, each pass leaves the rest to the next.
            let mut taken_ms = 0;
            let mut timed = Vec::new();
            for (part, of_spare) in passes {
                let slow_ms = (spare_ms - taken_ms) * of_spare / 1_000;
                taken_ms = slow_ms;
                timed.push((full_ms * part / 1_000 + slow_ms, 0));
            }
            prop_assert!(!is_late(oldest_ms(at_risk_ms, &timed), at_risk_ms));
        }
    }

    #[test]
    fn passes_that_take_longer_make_bytes_late() {
        let back_to_back = [(1_001, 0), (1_001, 0)];
        assert!(is_late(oldest_ms(2_000, &back_to_back), 2_000));
    }

    #[test]
    fn a_pass_is_due_at_half_of_the_limit_and_a_byte_of_that_age_keeps_it() {
        assert_eq!([2_000, 301].map(due_ms), [1_000, 150]);
        assert!(!is_late(2_000, 2_000) && is_late(2_001, 2_000));
    }
}
