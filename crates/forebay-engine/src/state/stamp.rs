//! When bytes became newer than their store, in so few bits that a block of dirty pages has room
//! for it.
//!
//! A stamp is a count of 16 ms that begins anew after 199 days: two stamps are compared by the
//! shorter way round, so ages of up to 99 days are right.

use std::num::NonZeroU32;

/// One step, milliseconds. A stamp is rounded down, so that no age is too small.
const STEP_MS: u64 = 16;
/// Bits of a stamp.
pub(crate) const STAMP_BITS: u32 = 30;
const MASK: u64 = (1 << STAMP_BITS) - 1;

/// A moment. The number is one more than its bits, so that a moment that may be missing takes no
/// more room: each file has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(NonZeroU32);

impl Stamp {
    pub(crate) fn at(now_ms: u64) -> Stamp {
        Stamp::of_bits(now_ms / STEP_MS)
    }

    /// From its bits.
    pub(crate) fn of_bits(bits: u64) -> Stamp {
        Stamp(NonZeroU32::MIN.saturating_add((bits & MASK) as u32))
    }

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0.get() - 1)
    }

    /// Whether it is a later moment than `other`.
    pub(crate) fn is_after(self, other: Stamp) -> bool {
        let ahead = self.bits().wrapping_sub(other.bits()) & MASK;
        ahead != 0 && ahead <= MASK / 2
    }

    /// The earlier of the two.
    pub(crate) fn earlier(self, other: Stamp) -> Stamp {
        if self.is_after(other) { other } else { self }
    }

    /// The time since then, milliseconds.
    pub(crate) fn age_ms(self, now_ms: u64) -> u64 {
        let now = Stamp::at(now_ms);
        if self.is_after(now) {
            return 0;
        }
        (now.bits().wrapping_sub(self.bits()) & MASK) * STEP_MS + now_ms % STEP_MS
    }
}

/// The earlier of two moments of which each may be missing.
pub(crate) fn earliest(left: Option<Stamp>, right: Option<Stamp>) -> Option<Stamp> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.earlier(right)),
        (one, other) => one.or(other),
    }
}

/// Since when bytes are written to a store, but not durable.
///
/// invariant UC1: what a commit under way may not cover is never in `under_commit`, and what it
/// covers stays there until it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uncommitted {
    since: Option<Stamp>,
    under_commit: Option<Stamp>,
}

impl Uncommitted {
    /// Bytes as old as `since` were written.
    pub(crate) fn add(&mut self, since: Stamp) {
        self.since = earliest(self.since, Some(since));
    }

    /// A commit begins that covers all of them.
    pub(crate) fn commit_begins(&mut self) {
        self.under_commit = earliest(self.under_commit, self.since.take());
    }

    /// It has ended well. Returns since when the oldest bytes were not durable that it covered.
    pub(crate) fn commit_ends(&mut self) -> Option<Stamp> {
        self.under_commit.take()
    }

    /// It has not. Returns since when the bytes are not durable that it was to cover.
    pub(crate) fn commit_failed(&mut self) -> Option<Stamp> {
        self.since = earliest(self.since, self.under_commit.take());
        self.since
    }

    /// Nothing is left to commit.
    pub(crate) fn forget(&mut self) {
        *self = Uncommitted::default();
    }

    pub(crate) fn oldest(self) -> Option<Stamp> {
        earliest(self.since, self.under_commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_right_where_the_count_begins_anew() {
        let round_ms = STEP_MS << STAMP_BITS;
        for now_ms in [0, 5_000, round_ms - 1, round_ms + 100] {
            let since = Stamp::at(now_ms);
            let age_ms = since.age_ms(now_ms + 2_000);
            assert!((2_000..2_016).contains(&age_ms), "{age_ms} from {now_ms}");
            let later = Stamp::at(now_ms + 16);
            assert!(later.is_after(since) && !since.is_after(later) && !since.is_after(since));
            assert_eq!(since.earlier(later), since);
            assert_eq!(later.age_ms(now_ms), 0);
        }
    }

    #[test]
    fn invariant_uc1_a_commit_covers_what_was_written_before_it_began() {
        let at = |ms| Stamp::at(ms);
        let mut bytes = Uncommitted::default();
        bytes.add(at(160));
        bytes.add(at(32));
        bytes.commit_begins();
        bytes.add(at(320));
        assert_eq!(bytes.oldest(), Some(at(32)));
        let mut failed = bytes;
        assert_eq!(bytes.commit_ends(), Some(at(32)));
        assert_eq!(bytes.oldest(), Some(at(320)));
        assert_eq!(failed.commit_failed(), Some(at(32)));
        failed.commit_begins();
        failed.commit_ends();
        assert_eq!(failed.oldest(), None);
    }
}
