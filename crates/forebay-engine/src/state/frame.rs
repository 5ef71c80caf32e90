//! The frame table: one word per frame, for access to its page and for what is true of the page.
//!
//! ```text
//!            take_free                      unlock
//!   free ---------------> exclusive ---------------------> resident
//!    ^      (allocation)   ^  |  ^   exclusive (holds = 0)    |  ^
//!    |                     |  |  +----------------------------+  |
//!    |  release (evict,    |  |                               |  |
//!    +---- truncate) ------+--+      hold / drop of a hold    v  |
//!                                                       shared holds
//! ```
//!
//! invariant F1: while a shared hold exists, no byte of the page changes in this program, except by
//! a writer that found the count of holds at zero before the hold was taken.
//! invariant F2: an exclusive hold excludes every other hold. It is taken only by exchanging a word
//! without holds for one with the exclusive bit, or on a frame that was free.
//! invariant F3: the owner of a frame (object and page index) changes only under an exclusive
//! hold, so a hold that read its owner afterwards has the page it asked for.
//! invariant F4: a frame is released only when it is neither dirty, unstable nor under writeback.
//! invariant F5: a waiter for a word sets `WAITERS` before it looks again, and every change of a
//! word with `WAITERS` set wakes the waiters, so no wake-up is lost.
//!
//! A lookup that races with an eviction may add one hold for an instant to any frame, even a free
//! one; it backs off without touching the page. So a word must never be overwritten: every change
//! is a read-modify-write that keeps the other bits.

use crate::state::arena::{Arena, prefetch_line};
use forebay_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_rt::wait::{Listener, WaitQueue};
use forebay_store::PagePointer;

/// Bits of the frame word above the holds.
pub mod flag {
    /// Held exclusively: by a writer, a fill or an eviction.
    pub(crate) const EXCLUSIVE: u64 = 1 << 16;
    /// The page has its content.
    pub(crate) const UPTODATE: u64 = 1 << 17;
    /// Newer than the store.
    pub const DIRTY: u64 = 1 << 18;
    /// A write of this page is in flight.
    pub const WRITEBACK: u64 = 1 << 19;
    /// Written, but the store may forget it until a commit.
    pub const UNSTABLE: u64 = 1 << 20;
    /// To be reclaimed as soon as its write ends (the kernel's PageReclaim).
    pub const RECLAIM: u64 = 1 << 21;
    /// Touched once since reclaim last judged it.
    pub const REFERENCED: u64 = 1 << 22;
    /// Touched twice: activated when reclaim next finds it inactive.
    pub const PROMOTE: u64 = 1 << 23;
    /// On the active list, or about to be put there.
    pub const ACTIVE: u64 = 1 << 24;
    /// Was active once: a refault of it means that the working set does not fit.
    pub const WORKINGSET: u64 = 1 << 25;
    /// Anonymous: written to swap, by reclaim.
    pub const ANON: u64 = 1 << 26;
    /// On an LRU list (changed under the zone's list lock alone).
    pub(crate) const LISTED: u64 = 1 << 27;
    /// In the index: its owner is valid.
    pub(crate) const MAPPED: u64 = 1 << 28;
    /// First page of the part of a readahead window that no read has asked for yet.
    pub(crate) const READAHEAD: u64 = 1 << 29;
    /// Its last write failed; it stays dirty and resident.
    pub(crate) const FAILED: u64 = 1 << 30;
    /// A caller waits for this word to change.
    pub(crate) const WAITERS: u64 = 1 << 31;
    /// Part of the commit that is under way.
    pub(crate) const COMMITTING: u64 = 1 << 32;
    /// An anonymous page whose swap slot holds, or will hold, its content.
    pub(crate) const SWAPCACHE: u64 = 1 << 33;
    /// Touched three times.
    pub const FREQUENT: u64 = 1 << 34;
    /// Touched four times or more.
    pub const CONSTANT: u64 = 1 << 35;
    /// For a page whose last write failed: its next write takes at most `1 << (value - 1)` pages;
    /// 0: no such bound.
    pub(crate) const PIECE: u64 = 0xf << PIECE_SHIFT;
    pub(super) const PIECE_SHIFT: u32 = 36;
    /// Touches after the first one; every page that is read in has the first.
    pub const TOUCHED_AGAIN: u64 = PROMOTE | FREQUENT | CONSTANT;
    /// All flags that describe a page and go when its frame is released.
    pub(crate) const OF_PAGE: u64 = UPTODATE
        | DIRTY
        | WRITEBACK
        | UNSTABLE
        | RECLAIM
        | REFERENCED
        | PROMOTE
        | FREQUENT
        | CONSTANT
        | ACTIVE
        | WORKINGSET
        | ANON
        | MAPPED
        | READAHEAD
        | FAILED
        | COMMITTING
        | SWAPCACHE
        | PIECE;
}

/// The longest piece of a failed write is two to the power of this many pages.
const LONGEST_PIECE: u32 = 14;

/// A write of any size that has failed this often was tried page by page.
pub(crate) const HALVINGS: u32 = LONGEST_PIECE + 2;

/// The flags of the pages of a failed write of `pages` pages: the next write has half as many.
pub(crate) fn halved(pages: usize) -> u64 {
    let half = pages.div_ceil(2).next_power_of_two();
    u64::from(half.trailing_zeros().min(LONGEST_PIECE) + 1) << flag::PIECE_SHIFT
}

/// The most pages that a write of the page of `word` may have.
pub(crate) fn piece_of(word: u64) -> usize {
    match (word & flag::PIECE) >> flag::PIECE_SHIFT {
        0 => usize::MAX,
        power => 1 << (power - 1),
    }
}

/// The shared holds of a word.
pub(crate) const HOLDS: u64 = 0xffff;
/// More holds than this on one page are refused, which leaves room for lookups that back off.
const HOLDS_LIMIT: u64 = 0xff00;

/// No frame, in a link.
pub(crate) const NO_FRAME: u32 = u32::MAX;

/// What a frame needs beside its page: 32 bytes, which the engine's budget relies on.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Holds and flags.
    word: AtomicU64,
    /// Object number and page index, as packed by `index::key`.
    owner: AtomicU64,
    /// The next frame of its bucket (changed under the bucket's lock, read without it).
    pub(crate) chain: AtomicU32,
    /// The neighbour towards the head of its list (under the zone's lock).
    pub(crate) newer: AtomicU32,
    /// The neighbour towards the tail of its list (under the zone's lock).
    pub(crate) older: AtomicU32,
}

/// Bytes of one [`Frame`], a part of the price of a page.
pub(crate) const FRAME_BYTES: usize = size_of::<Frame>();
/// Waiters for which one queue has room before it grows.
const ROOM_OF_QUEUE: usize = 1;
/// Bytes of one queue of waiters for pages.
pub(crate) const QUEUE_BYTES: usize =
    size_of::<WaitQueue>() + ROOM_OF_QUEUE * WaitQueue::ROOM_BYTES;
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(FRAME_BYTES == 32);

/// Why a page could not be held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The frame no longer holds this page.
    Gone,
    /// Held in a way that excludes this hold: the caller waits for the word to change.
    Busy,
}

/// All frames of a cache and their pages.
#[derive(Debug)]
pub struct FrameTable {
    frames: Box<[Frame]>,
    arena: Arena,
    waiting: Box<[WaitQueue]>,
}

#[expect(
    clippy::len_without_is_empty,
    reason = "a cache has at least one frame"
)]
impl FrameTable {
    pub(crate) fn new(arena: Arena, queues: usize) -> FrameTable {
        let empty = || Frame {
            word: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            chain: AtomicU32::new(0),
            newer: AtomicU32::new(NO_FRAME),
            older: AtomicU32::new(NO_FRAME),
        };
        FrameTable {
            frames: (0..arena.frames()).map(|_| empty()).collect(),
            arena,
            waiting: (0..queues)
                .map(|_| WaitQueue::with_room(ROOM_OF_QUEUE))
                .collect(),
        }
    }

    pub fn len(&self) -> u32 {
        self.frames.len() as u32
    }

    #[inline]
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    pub(crate) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    /// Prefetches a frame without its page.
    #[inline]
    pub(crate) fn prefetch_frame(&self, frame: u32) {
        prefetch_line(self.frames.as_ptr().wrapping_add(frame as usize));
    }

    /// Prefetches a frame and the head of its page side by side.
    #[inline]
    pub(crate) fn prefetch(&self, frame: u32) {
        const LINES: usize = 8;
        prefetch_line(self.frames.as_ptr().wrapping_add(frame as usize));
        self.arena.prefetch(frame, LINES);
    }

    pub(crate) fn frame_at(&self, page: &PagePointer) -> u32 {
        self.arena.frame_at(page)
    }

    /// The word as it is at this instant.
    #[inline]
    pub(crate) fn word(&self, frame: u32) -> u64 {
        self.frame(frame).word.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn owner(&self, frame: u32) -> u64 {
        self.frame(frame).owner.load(Ordering::Acquire)
    }

    /// Sets `flags` and returns the word before.
    pub fn set(&self, frame: u32, flags: u64) -> u64 {
        self.frame(frame).word.fetch_or(flags, Ordering::AcqRel)
    }

    /// Clears `flags`, wakes the waiters for the word, and returns the word before.
    pub fn clear(&self, frame: u32, flags: u64) -> u64 {
        let before = self.frame(frame).word.fetch_and(!flags, Ordering::AcqRel);
        self.wake(frame, before);
        before
    }

    /// Holds the page `key` in `frame` against writers and eviction.
    #[inline]
    pub(crate) fn hold(&self, frame: u32, key: u64) -> Result<SharedHold<'_>, Refused> {
        let before = self.frame(frame).word.fetch_add(1, Ordering::Acquire);
        let hold = SharedHold {
            table: self,
            frame,
            word: before,
        };
        if !is_holdable(before) {
            return Err(Refused::Busy);
        }
        if before & flag::MAPPED == 0 || self.owner(frame) != key {
            return Err(Refused::Gone);
        }
        if before & flag::UPTODATE == 0 {
            return Err(Refused::Busy);
        }
        Ok(hold)
    }

    /// Holds the page `key` in `frame` exclusively. A page with any flag of `unwanted` counts as
    /// busy.
    #[inline]
    pub(crate) fn exclude(
        &self,
        frame: u32,
        key: u64,
        unwanted: u64,
    ) -> Result<ExclusiveHold<'_>, Refused> {
        let word = &self.frame(frame).word;
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            if seen & (HOLDS | flag::EXCLUSIVE | unwanted) != 0 {
                return Err(if self.owner(frame) == key {
                    Refused::Busy
                } else {
                    Refused::Gone
                });
            }
            let wanted = seen | flag::EXCLUSIVE;
            match word.compare_exchange_weak(seen, wanted, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let hold = ExclusiveHold { table: self, frame };
        if seen & flag::MAPPED == 0 || self.owner(frame) != key {
            return Err(Refused::Gone);
        }
        Ok(hold)
    }

    /// Exclusively holds a frame that was free until now: nothing else touches it, except lookups
    /// that back off.
    pub(crate) fn exclude_free(&self, frame: u32) -> ExclusiveHold<'_> {
        let before = self.set(frame, flag::EXCLUSIVE);
        assert_eq!(
            before & (flag::EXCLUSIVE | flag::OF_PAGE | flag::LISTED),
            0,
            "frame {frame} was free"
        );
        ExclusiveHold { table: self, frame }
    }

    /// Takes over the exclusive hold of a finished fill.
    pub(crate) fn adopt(&self, frame: u32) -> ExclusiveHold<'_> {
        debug_assert_ne!(
            self.word(frame) & flag::EXCLUSIVE,
            0,
            "a fill holds its frames"
        );
        ExclusiveHold { table: self, frame }
    }

    /// Ends the fill of a page: it has its content, and its exclusive hold is over. It is one step
    /// of the word, because most pages come in this way.
    pub(crate) fn end_fill(&self, frame: u32) {
        const _: () = assert!(flag::UPTODATE == flag::EXCLUSIVE << 1, "the carry sets it");
        // Adding the lower bit to itself clears it and sets the next one.
        let word = &self.frame(frame).word;
        let before = word.fetch_add(flag::EXCLUSIVE, Ordering::Release);
        assert_eq!(
            before & (flag::EXCLUSIVE | flag::UPTODATE),
            flag::EXCLUSIVE,
            "a fill holds its page, which has no content before"
        );
        self.wake(frame, before);
    }

    /// Claims a dirty page for writing: dirty and untouched becomes under writeback.
    /// Returns the word found; the claim succeeded if that is [`claimable`].
    pub(crate) fn claim_for_writing(&self, frame: u32) -> u64 {
        let word = &self.frame(frame).word;
        let mut seen = word.load(Ordering::Acquire);
        loop {
            if !claimable(seen) {
                return seen;
            }
            let wanted = (seen & !(flag::DIRTY | flag::FAILED | flag::PIECE)) | flag::WRITEBACK;
            match word.compare_exchange_weak(seen, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// Listens for changes of the word of `frame` and returns the word as it was after that: every
    /// later change wakes the listener (invariant F5).
    #[track_caller]
    pub(crate) fn listen(&self, frame: u32) -> (Listener<'_>, u64) {
        let listener = self.queue(frame).listen();
        let word = self.set(frame, flag::WAITERS);
        (listener, word)
    }

    #[inline]
    fn wake(&self, frame: u32, word: u64) {
        if word & flag::WAITERS != 0 {
            self.wake_waiters(frame);
        }
    }

    #[cold]
    fn wake_waiters(&self, frame: u32) {
        self.frame(frame)
            .word
            .fetch_and(!flag::WAITERS, Ordering::AcqRel);
        self.queue(frame).wake_all();
    }

    fn queue(&self, frame: u32) -> &WaitQueue {
        &self.waiting[frame as usize % self.waiting.len()]
    }
}

/// Whether a word says that its page has as many holds as it may have.
#[inline]
pub(crate) fn is_crowded(word: u64) -> bool {
    word & HOLDS >= HOLDS_LIMIT
}

/// Whether a word says that its page may be held once more.
#[inline]
pub(crate) fn is_holdable(word: u64) -> bool {
    word & flag::EXCLUSIVE == 0 && !is_crowded(word)
}

/// Whether a word says that its page may be claimed for writing.
pub(crate) fn claimable(word: u64) -> bool {
    const BUSY: u64 = flag::EXCLUSIVE | flag::WRITEBACK | flag::UNSTABLE;
    word & (flag::DIRTY | BUSY) == flag::DIRTY
}

/// A page that is not changed or evicted while this value lives.
#[derive(Debug)]
pub(crate) struct SharedHold<'a> {
    table: &'a FrameTable,
    frame: u32,
    word: u64,
}

impl SharedHold<'_> {
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// The word as it was when the hold was taken.
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    #[inline]
    pub(crate) fn set(&self, flags: u64) {
        self.table.set(self.frame, flags);
    }
}

impl Drop for SharedHold<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self
            .table
            .frame(self.frame)
            .word
            .fetch_sub(1, Ordering::Release);
        debug_assert_ne!(before & HOLDS, 0, "a hold is dropped once");
        self.table.wake(self.frame, before);
    }
}

/// A page that only this holder may touch.
#[derive(Debug)]
pub struct ExclusiveHold<'a> {
    table: &'a FrameTable,
    frame: u32,
}

impl ExclusiveHold<'_> {
    pub fn frame(&self) -> u32 {
        self.frame
    }

    pub fn word(&self) -> u64 {
        self.table.word(self.frame)
    }

    pub fn owner(&self) -> u64 {
        self.table.owner(self.frame)
    }

    pub(crate) fn set(&mut self, flags: u64) {
        self.table.set(self.frame, flags);
    }

    /// Sets `flags` and returns the word before.
    pub(crate) fn fetch_set(&mut self, flags: u64) -> u64 {
        self.table.set(self.frame, flags)
    }

    pub(crate) fn unset(&mut self, flags: u64) {
        self.table
            .frame(self.frame)
            .word
            .fetch_and(!flags, Ordering::AcqRel);
    }

    pub(crate) fn set_owner(&mut self, key: u64) {
        self.table
            .frame(self.frame)
            .owner
            .store(key, Ordering::Release);
    }

    /// Turns it into a blank frame without holds. The caller gives the frame back to its zone.
    pub(crate) fn blank(mut self) -> u32 {
        const KEPT: u64 = flag::DIRTY | flag::WRITEBACK | flag::UNSTABLE | flag::LISTED;
        self.set_owner(0);
        let gone = flag::OF_PAGE | flag::EXCLUSIVE;
        let word = &self.table.frame(self.frame).word;
        let before = word.fetch_and(!gone, Ordering::AcqRel);
        assert_eq!(
            before & KEPT,
            0,
            "only a clean, unlisted page is released (F4)"
        );
        self.table.wake(self.frame, before);
        self.leave()
    }

    /// Leaves the page exclusively held after the value is gone, for a fill in flight. The finished
    /// request takes the hold over again with [`FrameTable::adopt`].
    pub(crate) fn leave(self) -> u32 {
        let frame = self.frame;
        std::mem::forget(self);
        frame
    }
}

impl Drop for ExclusiveHold<'_> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.table.frame(self.frame).word;
        let before = word.fetch_and(!flag::EXCLUSIVE, Ordering::Release);
        debug_assert_ne!(
            before & flag::EXCLUSIVE,
            0,
            "an exclusive hold is dropped once"
        );
        self.table.wake(self.frame, before);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_again_and_again_comes_down_to_single_pages() {
        for longest in [1, 2, 3, 255, 256, 1 << 15, 1 << 20, usize::MAX >> 1] {
            let mut pages = longest;
            for _ in 1..HALVINGS {
                pages = piece_of(halved(pages));
            }
            assert_eq!(pages, 1, "{longest}");
        }
    }
}
