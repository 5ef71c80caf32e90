//! Which frame holds which page: one hash table for all objects, its links in the frames.
//!
//! Sixteen neighbouring pages share one line of buckets, so that a sequential access meets one
//! cache miss where a scattered one meets sixteen. Lookups take no lock; a lookup that loses its
//! way because a frame moved to another bucket meanwhile finds nothing. A caller that is about to
//! act on "nothing" asks again under the bucket's lock (`insert` does).
//!
//! invariant X1: a mapped frame that nobody holds exclusively is in exactly one bucket, that of
//! its owner.
//! invariant X2: a page is in at most one frame: an insert looks and links under one lock.
//! invariant X3: the count of a stretch is at least the number of its pages that are in a bucket:
//! it is raised before a page is linked and lowered after the page is out.

use crate::state::arena::prefetch_line;
use crate::state::frame::{ExclusiveHold, FrameTable, flag};
use forebay_base::PAGE_BYTES;
use forebay_base::hash::mix;
use forebay_base::sync::atomic::{AtomicU32, Ordering};

/// Bits of a key that hold the page index: files up to 4 PiB.
pub(crate) const INDEX_BITS: u32 = 40;
/// Longest object that a cache can address: 4 PiB.
pub const LONGEST_BYTES: u64 = (1 << INDEX_BITS) * PAGE_BYTES as u64;
/// Objects that a cache may know: their numbers fill the rest of the key, and number 0 stands for
/// none.
pub(crate) const OBJECTS_LIMIT: u32 = 1 << (64 - INDEX_BITS);

/// Object number and page index in one number; never 0.
#[inline]
pub(crate) fn key(object: u32, page_index: u64) -> u64 {
    debug_assert!(object > 0 && object < OBJECTS_LIMIT && page_index < 1 << INDEX_BITS);
    u64::from(object) << INDEX_BITS | page_index
}

/// The object number of a key.
pub(crate) fn object_of(key: u64) -> u32 {
    (key >> INDEX_BITS) as u32
}

/// The page index of a key.
pub fn page_of(key: u64) -> u64 {
    key & ((1 << INDEX_BITS) - 1)
}

/// A bucket is locked: the top bit of its head.
const LOCKED: u32 = 1 << 31;
/// The end of a chain, and an unlocked empty bucket; frames are numbered below it.
const EMPTY: u32 = LOCKED - 1;
/// Pages that share a line of buckets.
pub(crate) const NEIGHBOURS: u64 = 16;
/// Pages of an object that are counted together: where none of them is resident, a walk skips them
/// all at once.
pub(crate) const STRETCH: u64 = 256;
/// Frames for each count of stretches, and the frames of a cache that get no count: walking a small
/// cache takes no longer than walking its counts would, and it has no room for them.
const FRAMES_PER_COUNT: u32 = 32;
const FRAMES_UNCOUNTED: u32 = 1024;
/// A lookup that walked this far may have lost its way, and asks under the bucket's lock.
const HOPS_LIMIT: u32 = 256;

/// Most frames that the index can tell apart.
pub(crate) const FRAMES_LIMIT: u32 = EMPTY;

#[derive(Debug)]
pub(crate) struct Index {
    heads: Box<[AtomicU32]>,
    groups: u64,
    /// Pages in the buckets, by stretch. Stretches that share a count make a walk slower, not
    /// wrong.
    stretches: Box<[AtomicU32]>,
}

/// Bytes of index for each frame, links in the frame not counted.
pub(crate) const BYTES_PER_FRAME: usize = size_of::<AtomicU32>();

/// Counts of stretches for a cache of this many frames.
fn stretch_counts(frames: u32) -> u32 {
    (frames.saturating_sub(FRAMES_UNCOUNTED) / FRAMES_PER_COUNT).max(1)
}

/// Their bytes.
pub(crate) fn stretch_bytes(frames: u32) -> usize {
    stretch_counts(frames) as usize * size_of::<AtomicU32>()
}

impl Index {
    pub(crate) fn new(frames: u32) -> Index {
        let groups = u64::from(frames).div_ceil(NEIGHBOURS).max(1);
        let heads = (0..groups * NEIGHBOURS)
            .map(|_| AtomicU32::new(EMPTY))
            .collect();
        let stretches = (0..stretch_counts(frames))
            .map(|_| AtomicU32::new(0))
            .collect();
        Index {
            heads,
            groups,
            stretches,
        }
    }

    fn stretch_number(&self, key: u64) -> usize {
        let counts = self.stretches.len() as u64;
        (((mix(key / STRETCH) >> 32) * counts) >> 32) as usize
    }

    fn stretch(&self, key: u64) -> &AtomicU32 {
        &self.stretches[self.stretch_number(key)]
    }

    /// Whether no page of the stretch of `key` is resident: the pages that share its number divided
    /// by [`STRETCH`].
    pub(crate) fn is_stretch_empty(&self, key: u64) -> bool {
        self.stretch(key).load(Ordering::SeqCst) == 0
    }

    /// How many counts of stretches are wrong when exactly the pages `keys` are in the buckets, for
    /// the consistency walk.
    pub(crate) fn stretches_off(&self, keys: impl Iterator<Item = u64>) -> usize {
        let mut expected = vec![0; self.stretches.len()];
        for key in keys {
            expected[self.stretch_number(key)] += 1;
        }
        let counted = self.stretches.iter().zip(expected);
        counted
            .filter(|(count, expected)| count.load(Ordering::SeqCst) != *expected)
            .count()
    }

    #[inline]
    fn head(&self, key: u64) -> &AtomicU32 {
        let hash = mix(key / NEIGHBOURS);
        let group = ((hash >> 32) * self.groups) >> 32;
        // Each group begins at another place of its line. Otherwise the first pages of all objects,
        // which are the only ones of small files, would share a sixteenth of the buckets.
        let place = (key ^ hash) % NEIGHBOURS;
        &self.heads[(group * NEIGHBOURS + place) as usize]
    }

    /// The frame that holds `key`, if the lookup met it. "No" may be wrong for an instant.
    #[inline]
    pub(crate) fn find(&self, frames: &FrameTable, key: u64) -> Option<u32> {
        let first = self.head(key).load(Ordering::Acquire) & !LOCKED;
        walk(frames, first, key, HOPS_LIMIT).unwrap_or_else(|Far| self.find_locked(frames, key))
    }

    /// The frame that holds `key`, for sure: asked under the bucket's lock if need be.
    pub(crate) fn find_surely(&self, frames: &FrameTable, key: u64) -> Option<u32> {
        self.find(frames, key)
            .or_else(|| self.find_locked(frames, key))
    }

    #[cold]
    fn find_locked(&self, frames: &FrameTable, key: u64) -> Option<u32> {
        let bucket = self.lock(key);
        walk_locked(frames, &bucket, key)
    }

    /// Prefetches the bucket of `key`.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        prefetch_line(self.head(key));
    }

    /// The frame that a lookup of `key` looks at first: mostly the right one.
    #[inline]
    pub(crate) fn candidate(&self, key: u64) -> Option<u32> {
        let first = self.head(key).load(Ordering::Acquire) & !LOCKED;
        (first != EMPTY).then_some(first)
    }

    /// As [`Index::find`], for a caller about to use the page: the page is fetched together with
    /// the frame, before it is known to be the right one.
    #[inline]
    pub(crate) fn find_to_use(&self, frames: &FrameTable, key: u64) -> Option<u32> {
        let first = self.candidate(key)?;
        frames.prefetch(first);
        walk(frames, first, key, HOPS_LIMIT).unwrap_or_else(|Far| self.find_locked(frames, key))
    }

    /// Puts the held frame in as `key`, or says which frame has it already.
    pub(crate) fn insert(
        &self,
        frames: &FrameTable,
        key: u64,
        hold: &mut ExclusiveHold<'_>,
    ) -> Result<(), u32> {
        let bucket = self.lock(key);
        if let Some(other) = walk_locked(frames, &bucket, key) {
            return Err(other);
        }
        self.stretch(key).fetch_add(1, Ordering::SeqCst);
        link(frames, bucket, key, flag::MAPPED, hold);
        Ok(())
    }

    /// Puts held frames in as the pages from `first` on, with `flags`. Returns a bit for each page,
    /// from the lowest on: it is set if the page is in, and not if it was there already.
    pub(crate) fn insert_run(
        &self,
        frames: &FrameTable,
        first: u64,
        run: &[u32],
        flags: u64,
    ) -> u32 {
        let mut placed = 0_u32;
        let mut at = 0;
        while at < run.len() {
            let key = first + at as u64;
            let end = run.len().min(at + (STRETCH - key % STRETCH) as usize);
            // All of them before the first is linked (invariant X3).
            let stretch = self.stretch(key);
            stretch.fetch_add((end - at) as u32, Ordering::SeqCst);
            let before = placed;
            for (place, &frame) in run.iter().enumerate().take(end).skip(at) {
                let key = first + place as u64;
                let bucket = self.lock(key);
                if walk_locked(frames, &bucket, key).is_none() {
                    let mut hold = frames.adopt(frame);
                    link(frames, bucket, key, flag::MAPPED | flags, &mut hold);
                    hold.leave();
                    placed |= 1 << place;
                }
            }
            let refused = (end - at) as u32 - (placed ^ before).count_ones();
            if refused > 0 {
                stretch.fetch_sub(refused, Ordering::SeqCst);
            }
            at = end;
        }
        placed
    }

    /// Takes the held frame out of its bucket. It stays marked as mapped until it is blanked.
    pub(crate) fn remove(&self, frames: &FrameTable, hold: &ExclusiveHold<'_>) {
        let bucket = self.lock(hold.owner());
        let wanted = hold.frame();
        let after = frames.frame(wanted).chain.load(Ordering::Relaxed);
        let mut first = bucket.first;
        if first == wanted {
            first = after;
        } else {
            let mut at = first;
            loop {
                assert_ne!(
                    at, EMPTY,
                    "a mapped frame is in the bucket of its owner (X1)"
                );
                let next = frames.frame(at).chain.load(Ordering::Relaxed);
                if next == wanted {
                    frames.frame(at).chain.store(after, Ordering::Release);
                    break;
                }
                at = next;
            }
        }
        bucket.unlock(first);
        self.stretch(hold.owner()).fetch_sub(1, Ordering::SeqCst);
    }

    /// The frames of each bucket, for the consistency walk.
    pub(crate) fn buckets(&self, frames: &FrameTable) -> impl Iterator<Item = Vec<u32>> {
        self.heads.iter().map(|head| {
            let bucket = lock(head);
            let mut members = Vec::new();
            let mut at = bucket.first;
            while at != EMPTY && members.len() <= frames.len() as usize {
                members.push(at);
                at = frames.frame(at).chain.load(Ordering::Acquire);
            }
            members
        })
    }

    fn lock(&self, key: u64) -> Bucket<'_> {
        lock(self.head(key))
    }
}

fn lock(head: &AtomicU32) -> Bucket<'_> {
    let mut spins = 0_u32;
    loop {
        // Only read while another thread has the lock: the cache line stays with that thread.
        let seen = head.load(Ordering::Relaxed);
        if seen & LOCKED == 0 {
            let locked = seen | LOCKED;
            let taken =
                head.compare_exchange_weak(seen, locked, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Bucket { head, first: seen };
            }
        }
        spins += 1;
        relax(spins);
    }
}

/// A locked bucket. Dropping it unlocks it unchanged.
struct Bucket<'a> {
    head: &'a AtomicU32,
    first: u32,
}

impl Bucket<'_> {
    fn unlock(mut self, first: u32) {
        self.first = first;
    }
}

impl Drop for Bucket<'_> {
    fn drop(&mut self) {
        self.head.store(self.first, Ordering::Release);
    }
}

/// Puts a held frame into its bucket, which has no frame of that page.
fn link(
    frames: &FrameTable,
    bucket: Bucket<'_>,
    key: u64,
    flags: u64,
    hold: &mut ExclusiveHold<'_>,
) {
    hold.set_owner(key);
    hold.set(flags);
    frames
        .frame(hold.frame())
        .chain
        .store(bucket.first, Ordering::Release);
    bucket.unlock(hold.frame());
}

/// A bucket is locked for some tens of nanoseconds; a holder that lost its processor is let run.
fn relax(spins: u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    if spins.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// A walk that has not come to an end.
struct Far;

#[inline]
fn walk(frames: &FrameTable, first: u32, key: u64, hops: u32) -> Result<Option<u32>, Far> {
    let mut at = first;
    for _ in 0..hops {
        if at == EMPTY {
            return Ok(None);
        }
        if frames.owner(at) == key {
            return Ok(Some(at));
        }
        at = frames.frame(at).chain.load(Ordering::Acquire);
    }
    Err(Far)
}

/// As [`walk`], where no frame moves, so that the walk always ends.
fn walk_locked(frames: &FrameTable, bucket: &Bucket<'_>, key: u64) -> Option<u32> {
    walk(frames, bucket.first, key, u32::MAX).unwrap_or(None)
}

#[cfg(all(test, not(loom)))]
#[path = "index_tests.rs"]
mod tests;
