//! When the failed writes of an object are tried again.
//!
//! A try begins with the first turn of the object after its back-off is over. The back-off grows
//! once for each try, however many of its requests fail, because they all failed for one reason.
//! What a sync tries meanwhile changes nothing.

use crate::state::outstanding::SEQUENCE_BITS;

/// First wait before a failed write is tried again, and the longest, ms.
const RETRY_MS: (u64, u64) = (1_000, 60_000);
/// However often callers ask for it, no try begins sooner than this after the last one, ms.
const LEAST_MS: u64 = 200;
/// How many failed requests of a try are split and submitted again at once. A store that refuses
/// everything is not asked more often; a store that takes a half is asked again.
const SPLITS: u32 = 512;

/// What an object's failed writes wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    at_ms: u64,
    after_ms: u64,
    /// When the last try failed.
    failed_ms: u64,
    /// Whether the whole object waits, and not only the pages that were refused.
    is_whole: bool,
    /// Whether a try has begun since the back-off did.
    is_tried: bool,
    /// Writes with lower sequence numbers belong to the try that has failed already.
    next_try: u64,
    /// How many pardons the store had received when the back-off began.
    pardons: u64,
    splits_left: u32,
}

impl Retry {
    pub(crate) const fn none() -> Retry {
        Retry {
            at_ms: 0,
            after_ms: 0,
            failed_ms: 0,
            is_whole: false,
            is_tried: false,
            next_try: 0,
            pardons: 0,
            splits_left: SPLITS,
        }
    }

    /// Whether a write has failed and nothing has succeeded since.
    pub(crate) fn is_on(&self) -> bool {
        self.after_ms > 0
    }

    /// When the next try may begin, if the store has received `pardons` pardons by now.
    pub(crate) fn due_ms(&self, pardons: u64) -> u64 {
        if self.pardons == pardons {
            return self.at_ms;
        }
        self.at_ms.min(self.failed_ms + LEAST_MS)
    }

    /// Whether the object has to wait for its next try. `has_untried` says whether it has pages to
    /// write that were not refused.
    pub(crate) fn waits(&self, now_ms: u64, pardons: u64, has_untried: bool) -> bool {
        self.is_on() && (self.is_whole || !has_untried) && self.due_ms(pardons) > now_ms
    }

    /// A write of the latest try failed: the next try waits twice as long as that one did.
    /// `sequence` is the number of the write, and `next` the number that the next write will have.
    /// True if it is the first failure of its try.
    pub(crate) fn write_refused(
        &mut self,
        now_ms: u64,
        sequence: u64,
        next: u64,
        pardons: u64,
    ) -> bool {
        let is_first = !self.is_on() || self.is_tried && is_from(sequence, self.next_try);
        if is_first {
            self.begin(now_ms, next, pardons, false);
        }
        is_first
    }

    /// The object as a whole has to wait, because its store could not commit it.
    pub(crate) fn put_off(&mut self, now_ms: u64, next: u64, pardons: u64) {
        self.begin(now_ms, next, pardons, true);
    }

    fn begin(&mut self, now_ms: u64, next: u64, pardons: u64, is_whole: bool) {
        if self.pardons != pardons {
            self.after_ms = 0;
        }
        self.after_ms = (self.after_ms * 2).clamp(RETRY_MS.0, RETRY_MS.1);
        self.at_ms = now_ms + self.after_ms;
        self.failed_ms = now_ms;
        self.is_whole |= is_whole;
        self.is_tried = false;
        self.next_try = next;
        self.pardons = pardons;
    }

    /// A new try begins.
    pub(crate) fn begin_try(&mut self) {
        self.is_whole = false;
        self.is_tried = true;
        self.splits_left = SPLITS;
    }

    /// Whether the halves of a request that failed are tried at once.
    pub(crate) fn takes_split(&mut self) -> bool {
        let may = self.splits_left > 0;
        self.splits_left = self.splits_left.saturating_sub(1);
        may
    }

    /// A write has ended well, so halves are worth trying.
    pub(crate) fn write_taken(&mut self) {
        self.splits_left = SPLITS;
    }

    /// No write of the object counts as failed any more.
    pub(crate) fn forget(&mut self) {
        *self = Retry::none();
    }
}

/// Whether the number with the lowest bits of `sequence` is `first` or later.
fn is_from(sequence: u64, first: u64) -> bool {
    let mask = (1 << SEQUENCE_BITS) - 1;
    let ahead = sequence.wrapping_sub(first) & mask;
    ahead <= mask / 2
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_grows_once_for_each_try() {
        let mut retry = Retry::none();
        assert!(!retry.is_on());
        for sequence in 3..11 {
            retry.write_refused(100, sequence, 11, 0);
        }
        assert_eq!(retry.due_ms(0), 1_100);
        retry.write_refused(600, 12, 13, 0);
        assert_eq!(retry.due_ms(0), 1_100, "a sync tried it meanwhile");
        retry.begin_try();
        retry.write_refused(4_000, 9, 20, 0);
        assert_eq!(retry.due_ms(0), 1_100, "it is late, of an earlier try");
        for sequence in 11..19 {
            retry.write_refused(1_100, sequence, 19, 0);
        }
        assert_eq!(retry.due_ms(0), 3_100);
        for (sequence, wait_ms) in [(19, 4), (20, 8), (21, 16), (22, 32), (23, 60), (24, 60)] {
            retry.begin_try();
            retry.write_refused(5_000, sequence, sequence + 1, 0);
            assert_eq!(retry.due_ms(0), 5_000 + wait_ms * 1_000);
        }
    }

    #[test]
    fn a_pardon_ends_the_back_off_but_makes_no_busy_loop() {
        let mut retry = Retry::none();
        retry.write_refused(10_000, 5, 6, 3);
        assert_eq!(retry.due_ms(3), 11_000);
        assert_eq!(retry.due_ms(4), 10_000 + LEAST_MS);
        retry.begin_try();
        retry.write_refused(12_000, 6, 7, 4);
        assert_eq!(retry.due_ms(4), 13_000, "it begins anew");
    }

    #[test]
    fn halves_are_tried_at_once_up_to_a_bound_that_each_success_renews() {
        let mut retry = Retry::none();
        assert!((0..SPLITS).all(|_| retry.takes_split()));
        assert!(!retry.takes_split());
        retry.write_taken();
        assert!(retry.takes_split());
    }

    #[test]
    fn sequence_numbers_are_compared_by_their_lowest_bits() {
        let border = 7 << SEQUENCE_BITS;
        assert!(is_from(1, border - 1) && is_from(0, border));
        assert!(!is_from((1 << SEQUENCE_BITS) - 1, border));
    }
}
