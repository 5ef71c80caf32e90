//! Touches: four bits of a frame's word, which reads and writes set one after the other.
//!
//! The first says that the page was touched at all, and every page that is read in has it soon. A
//! rule decides by the others. A hit sets a bit and moves nothing: the move is left to reclaim, so
//! that a hit takes no lock.

use crate::state::frame::{ExclusiveHold, FrameTable, SharedHold, flag};

/// The touches, in the order in which they are set.
const TOUCHES: [u64; 4] = [
    flag::REFERENCED,
    flag::PROMOTE,
    flag::FREQUENT,
    flag::CONSTANT,
];

impl SharedHold<'_> {
    /// Notes an access, up to four.
    #[inline]
    pub(crate) fn mark_accessed(&self) {
        let touch = next_touch(self.word());
        if touch != 0 {
            self.set(touch);
        }
    }
}

impl ExclusiveHold<'_> {
    /// Notes an access, as [`SharedHold::mark_accessed`].
    pub(crate) fn mark_accessed(&mut self) {
        let touch = next_touch(self.word());
        if touch != 0 {
            self.set(touch);
        }
    }

    /// Notes an access and sets `flags` in one step; returns the word before.
    pub(crate) fn set_accessed(&mut self, flags: u64) -> u64 {
        let touch = next_touch(self.word());
        self.fetch_set(flags | touch)
    }
}

impl FrameTable {
    /// Forgets the first touch of an isolated page. True if there was one.
    pub fn forget_first_touch(&self, frame: u32) -> bool {
        self.clear(frame, flag::REFERENCED) & flag::REFERENCED != 0
    }
}

/// The flag that records another access to the page of `word`; none after four.
#[inline]
fn next_touch(word: u64) -> u64 {
    if word & flag::CONSTANT != 0 {
        return 0;
    }
    TOUCHES
        .into_iter()
        .find(|touch| word & touch == 0)
        .unwrap_or(0)
}

/// The last touch of `word` after the first, if there is one.
pub fn last_touch(word: u64) -> Option<u64> {
    let again = TOUCHES[1..].iter().rev();
    again.copied().find(|touch| word & touch != 0)
}

/// Touches of `word` after the first, at most three.
pub fn touches_again(word: u64) -> u64 {
    let last = last_touch(word).and_then(|last| TOUCHES.iter().position(|&touch| touch == last));
    last.unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_are_set_in_their_order_and_counted_up_to_four() {
        let mut word = 0;
        for touches in 0..=6_u64 {
            assert_eq!(touches_again(word), touches.saturating_sub(1).min(3));
            word |= next_touch(word);
        }
        assert_eq!(word, flag::REFERENCED | flag::TOUCHED_AGAIN);
        assert_eq!(last_touch(word), Some(flag::CONSTANT));
        assert_eq!(last_touch(flag::REFERENCED), None);
    }
}
