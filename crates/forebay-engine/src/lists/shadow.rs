//! What is remembered of evicted pages: 8 bytes for each, and as many pages as there are frames.
//!
//! A shadow says in which zone a page was evicted and at which age of that zone. So its refault
//! shows how much more memory would have kept it (spec/reclaim.md 2.8). The table is a set of
//! buckets of four; a full bucket forgets its oldest entry, so the memory is bounded, however large
//! the files are. Entries carry a part of the key's hash: about one lookup in a hundred thousand
//! finds the shadow of another page, which puts a page on the wrong list and never returns a wrong
//! byte.

use crate::state::arena::prefetch_line;
use forebay_base::hash::mix;
use forebay_base::sync::atomic::{AtomicU64, Ordering};

/// Bits of the age that a shadow keeps; distances are taken modulo this.
pub(crate) const AGE_BITS: u32 = 39;
const AGE_MASK: u64 = (1 << AGE_BITS) - 1;
const WORKINGSET: u64 = 1 << AGE_BITS;
const ZONE_SHIFT: u32 = AGE_BITS + 1;
const ZONE_MASK: u64 = 0xf;
const TAG_SHIFT: u32 = ZONE_SHIFT + 4;
const WAYS: u64 = 4;

/// Zones that a shadow can name.
pub(crate) const ZONES_LIMIT: usize = 16;

/// Bytes of shadow table for each frame.
pub(crate) const BYTES_PER_FRAME: usize = size_of::<AtomicU64>();

/// What is known about an evicted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shadow {
    /// The zone from which it was evicted.
    pub(crate) zone: usize,
    /// The age of that zone at the eviction, modulo 2^[`AGE_BITS`].
    pub(crate) age: u64,
    /// Whether it was active.
    pub(crate) workingset: bool,
}

/// How many buckets are looked at, at most, to count shadows.
const BUCKETS_COUNTED: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Shadows {
    entries: Box<[AtomicU64]>,
    buckets: u64,
}

impl Shadows {
    /// A table for the evictions of this many frames; a table for 0 frames remembers nothing.
    pub(crate) fn new(frames: u32) -> Shadows {
        let buckets = u64::from(frames).div_ceil(WAYS);
        Shadows {
            entries: (0..buckets * WAYS).map(|_| AtomicU64::new(0)).collect(),
            buckets,
        }
    }

    /// Remembers the eviction of `key`; `age_now` is the age of its zone.
    pub(crate) fn remember(&self, key: u64, shadow: Shadow) {
        let Some((bucket, tag)) = self.place(key) else {
            return;
        };
        let entry = tag << TAG_SHIFT
            | (shadow.zone as u64 & ZONE_MASK) << ZONE_SHIFT
            | if shadow.workingset { WORKINGSET } else { 0 }
            | shadow.age & AGE_MASK;
        let mut oldest = (0, 0);
        for (way, slot) in bucket.iter().enumerate() {
            let seen = slot.load(Ordering::Relaxed);
            if seen == 0 || seen >> TAG_SHIFT == tag {
                slot.store(entry, Ordering::Relaxed);
                return;
            }
            let distance = shadow.age.wrapping_sub(seen) & AGE_MASK;
            if distance >= oldest.1 {
                oldest = (way, distance);
            }
        }
        bucket[oldest.0].store(entry, Ordering::Relaxed);
    }

    /// Takes the shadow of `key` out, if there is one.
    pub(crate) fn take(&self, key: u64) -> Option<Shadow> {
        let (bucket, tag) = self.place(key)?;
        for slot in bucket {
            let seen = slot.load(Ordering::Relaxed);
            if seen != 0 && seen >> TAG_SHIFT == tag {
                slot.store(0, Ordering::Relaxed);
                return Some(Shadow {
                    zone: (seen >> ZONE_SHIFT & ZONE_MASK) as usize,
                    age: seen & AGE_MASK,
                    workingset: seen & WORKINGSET != 0,
                });
            }
        }
        None
    }

    /// Prefetches the bucket of the shadow of `key`.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        if let Some((bucket, _)) = self.place(key) {
            prefetch_line(bucket.as_ptr());
        }
    }

    /// The number of shadows kept now; for a large table an estimate from evenly spread buckets, so
    /// that the call stays cheap.
    pub(crate) fn len(&self) -> usize {
        let (buckets, _) = self.entries.as_chunks::<{ WAYS as usize }>();
        if buckets.is_empty() {
            return 0;
        }
        let step = buckets.len().div_ceil(BUCKETS_COUNTED);
        let looked_at = buckets.len().div_ceil(step);
        let is_kept = |slot: &&AtomicU64| slot.load(Ordering::Relaxed) != 0;
        let counted = buckets.iter().step_by(step);
        let kept: usize = counted
            .map(|bucket| bucket.iter().filter(is_kept).count())
            .sum();
        kept * buckets.len() / looked_at
    }

    /// The bucket of a key, if there are any, and its tag, which is never 0.
    fn place(&self, key: u64) -> Option<(&[AtomicU64], u64)> {
        let hash = mix(key);
        let bucket = (((hash >> 32) * self.buckets) >> 32) * WAYS;
        let tag = hash & ((1 << (64 - TAG_SHIFT)) - 1);
        let bucket = bucket as usize..(bucket + WAYS) as usize;
        Some((self.entries.get(bucket)?, tag.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::index::key;

    #[test]
    fn a_shadow_comes_back_once_and_as_it_was() {
        let shadows = Shadows::new(64);
        let shadow = Shadow {
            zone: 3,
            age: 12_345,
            workingset: true,
        };
        shadows.remember(key(1, 7), shadow);
        assert_eq!(shadows.take(key(2, 7)), None);
        assert_eq!(shadows.take(key(1, 7)), Some(shadow));
        assert_eq!(shadows.take(key(1, 7)), None);
    }

    #[test]
    fn a_table_for_no_frames_remembers_nothing() {
        let shadows = Shadows::new(0);
        let shadow = Shadow {
            zone: 0,
            age: 1,
            workingset: true,
        };
        shadows.prefetch(key(1, 7));
        shadows.remember(key(1, 7), shadow);
        assert_eq!((shadows.take(key(1, 7)), shadows.len()), (None, 0));
    }

    #[test]
    fn a_large_table_is_counted_by_a_sample() {
        let shadows = Shadows::new(400_000);
        for age in 0..100_000 {
            let shadow = Shadow {
                zone: 0,
                age,
                workingset: false,
            };
            shadows.remember(key(1, age), shadow);
        }
        assert!(shadows.len().abs_diff(100_000) < 5_000, "{}", shadows.len());
    }

    #[test]
    fn a_full_table_forgets_the_oldest() {
        let shadows = Shadows::new(4);
        for age in 0..20 {
            shadows.remember(
                key(1, age),
                Shadow {
                    zone: 0,
                    age,
                    workingset: false,
                },
            );
        }
        assert_eq!(shadows.len(), 4);
        let kept: Vec<u64> = (0..20)
            .filter(|&page| shadows.take(key(1, page)).is_some())
            .collect();
        assert_eq!(kept, (16..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_second_eviction_of_a_page_replaces_the_first() {
        let shadows = Shadows::new(8);
        shadows.remember(
            key(1, 1),
            Shadow {
                zone: 0,
                age: 5,
                workingset: false,
            },
        );
        shadows.remember(
            key(1, 1),
            Shadow {
                zone: 0,
                age: 9,
                workingset: false,
            },
        );
        assert_eq!(shadows.len(), 1);
        assert_eq!(shadows.take(key(1, 1)).map(|shadow| shadow.age), Some(9));
    }
}
