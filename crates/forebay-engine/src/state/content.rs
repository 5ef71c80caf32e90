//! The bytes of pages, and the only place that touches them.
//!
//! The frame word (`frame.rs`) decides who may access a page: its bytes are read under a shared
//! hold or by a store that writes them out, and written under an exclusive hold or by a store that
//! fills them. The accessors here ask for the hold as an argument, so that the compiler checks the
//! rule.

#![allow(unsafe_code)]

use crate::state::arena::Arena;
use crate::state::frame::{ExclusiveHold, SharedHold};
use forebay_base::PAGE_BYTES;
use rustix::mm::Advice;
use std::ptr::NonNull;

impl Arena {
    /// Copies out of a held page, from its byte `start`, into `bytes`. A phantom page has nothing
    /// to copy, and `bytes` stay as they are.
    pub(crate) fn copy_out(&self, hold: &SharedHold<'_>, start: usize, bytes: &mut [u8]) {
        assert!(
            start + bytes.len() <= PAGE_BYTES,
            "the copy stays in its page"
        );
        if self.is_phantom() {
            return;
        }
        // SAFETY: a shared hold keeps every writer of this page off (invariant F1), the page and
        // the caller's buffer are distinct memory, and the bound was checked.
        unsafe {
            self.address(hold.frame())
                .add(start)
                .copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len());
        }
    }

    /// Copies `bytes` into an exclusively held page, from its byte `start`.
    #[inline]
    pub(crate) fn copy_in(&self, hold: &mut ExclusiveHold<'_>, start: usize, bytes: &[u8]) {
        assert!(
            start + bytes.len() <= PAGE_BYTES,
            "the copy stays in its page"
        );
        if self.is_phantom() {
            return;
        }
        // SAFETY: an exclusive hold keeps every reader and writer of this program off (invariant
        // F2), the page and the caller's buffer are distinct memory, and the bound was checked.
        unsafe {
            self.address(hold.frame())
                .add(start)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Zeros `length` bytes of an exclusively held page, from its byte `start`.
    pub(crate) fn zero(&self, hold: &mut ExclusiveHold<'_>, start: usize, length: usize) {
        assert!(start + length <= PAGE_BYTES, "the zeros stay in their page");
        if self.is_phantom() {
            return;
        }
        // SAFETY: as in `copy_in`.
        unsafe { self.address(hold.frame()).add(start).write_bytes(0, length) };
    }

    /// Gives the memory of exclusively held pages back to the system, neighbours in one call: their
    /// bytes are zeros when they are next touched. No store may have the arena registered, because
    /// it would go on using the old memory.
    pub(crate) fn give_up(&self, holds: &mut [ExclusiveHold<'_>]) {
        if self.is_phantom() {
            return;
        }
        holds.sort_unstable_by_key(ExclusiveHold::frame);
        for run in holds.chunk_by(|one, next| one.frame() + 1 == next.frame()) {
            for hold in run {
                self.break_up(hold.frame());
            }
            let first = self.address(run[0].frame());
            let bytes = run.len() * PAGE_BYTES;
            // SAFETY: the pages belong to the mapping, and exclusive holds keep every reader and
            // writer of this program off (invariant F2). The kernel does not use them either,
            // because the page of a request is held or under writeback.
            let advise =
                |advice| unsafe { rustix::mm::madvise(first.as_ptr().cast(), bytes, advice) };
            // Servers lock their memory, and locked memory stays with the usual advice. Before
            // Linux 5.18 there is no other. If the system refuses both, the memory just stays.
            let _ = advise(Advice::LinuxDontneedLocked).or_else(|_| advise(Advice::LinuxDontNeed));
        }
    }

    /// The bytes of a held page, for as long as the hold.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, hold: &'a SharedHold<'_>) -> &'a [u8] {
        // SAFETY: a shared hold keeps every writer of this page off (invariant F1) for its whole
        // life, which the returned lifetime does not outlast.
        unsafe { std::slice::from_raw_parts(self.address(hold.frame()).as_ptr(), PAGE_BYTES) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::settings::PageMemory;
    use crate::state::frame::{FrameTable, flag};

    const KEY: u64 = 1 << 40;

    #[test]
    fn a_page_that_was_given_up_is_zeros_and_its_neighbours_are_as_they_were() {
        let arena = Arena::new(3, PageMemory::Real, true).expect("three pages can be mapped");
        let frames = FrameTable::new(arena, 1);
        let filled = [7; PAGE_BYTES];
        let mut holds: Vec<_> = (0..3).map(|frame| frames.exclude_free(frame)).collect();
        for hold in &mut holds {
            frames.arena().copy_in(hold, 0, &filled);
            hold.set_owner(KEY);
            hold.set(flag::MAPPED | flag::UPTODATE);
        }
        frames.arena().give_up(&mut holds[1..2]);
        holds.into_iter().for_each(drop);
        for frame in 0..3 {
            let hold = frames.hold(frame, KEY).expect("nobody has it alone");
            let expected = if frame == 1 { 0 } else { 7 };
            assert_eq!(
                frames.arena().bytes(&hold),
                [expected; PAGE_BYTES],
                "{frame}"
            );
        }
    }
}
