//! The parts of an export that were written since it was opened.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// The smallest part that has a bit of its own.
const LEAST_PART_SHIFT: u32 = 16;
/// The largest map: 1 MiB of bits.
const PARTS_LIMIT: u64 = 8 << 20;

/// One bit for each part, set before a write of the part begins and never cleared: a hole of the
/// medium may be dirty in memory.
///
/// invariant N2: a part whose bit is clear was not written since the export was opened, so the
/// medium's answer about it is true.
#[derive(Debug)]
pub(crate) struct WrittenMap {
    words: Box<[AtomicU64]>,
    part_shift: u32,
}

impl WrittenMap {
    pub(crate) fn new(length_bytes: u64) -> WrittenMap {
        let mut part_shift = LEAST_PART_SHIFT;
        while length_bytes >> part_shift >= PARTS_LIMIT {
            part_shift += 1;
        }
        let parts = (length_bytes >> part_shift) + 1;
        WrittenMap {
            words: (0..parts.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            part_shift,
        }
    }

    /// Records that the bytes of `range` are about to be written.
    pub(crate) fn mark(&self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        for part in range.start >> self.part_shift..=(range.end - 1) >> self.part_shift {
            let (word, bit) = (&self.words[(part / 64) as usize], 1 << (part % 64));
            if word.load(Ordering::Acquire) & bit == 0 {
                word.fetch_or(bit, Ordering::AcqRel);
            }
        }
    }

    /// Whether the byte `at` lies in a part that may have been written, and up to which byte (at
    /// most `end`) the same is true.
    pub(crate) fn run_at(&self, at: u64, end: u64) -> (bool, u64) {
        let is_written = self.is_written(at >> self.part_shift);
        let mut part = (at >> self.part_shift) + 1;
        while part << self.part_shift < end && self.is_written(part) == is_written {
            part += 1;
        }
        (is_written, end.min(part << self.part_shift))
    }

    fn is_written(&self, part: u64) -> bool {
        let word = self.words[(part / 64) as usize].load(Ordering::Acquire);
        word & (1 << (part % 64)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_export_has_larger_parts() {
        let map = WrittenMap::new(1 << 50);
        assert!(map.words.len() <= (PARTS_LIMIT / 64 + 1) as usize);
        map.mark(&((1 << 50) - 1..1 << 50));
        assert!(map.run_at((1 << 50) - 1, 1 << 50).0);
        assert!(!map.run_at(0, 1).0);
    }

    proptest! {
        #[test]
        fn invariant_n2_every_byte_written_is_marked(
            writes in prop::collection::vec((0_u64..4 << 20, 0_u64..200_000), 1..8),
        ) {
            let length: u64 = 4 << 20;
            let map = WrittenMap::new(length);
            for &(start, count) in &writes {
                map.mark(&(start..(start + count).min(length)));
            }
            let mut at = 0;
            while at < length {
                let (is_written, end) = map.run_at(at, length);
                prop_assert!(end > at && end <= length);
                let touches = |&(start, count): &(u64, u64)| {
                    count > 0 && start < end && (start + count).min(length) > at
                };
                prop_assert!(is_written || !writes.iter().any(touches), "{at}..{end}");
                at = end;
            }
        }
    }
}
