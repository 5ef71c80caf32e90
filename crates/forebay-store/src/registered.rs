//! Which memory the kernel has pinned for the ring, so that it need not pin pages per request.

use crate::transfer::IoVector;

/// Ranges that can be registered at most. Memory takes a place for each started GiB of whole huge
/// pages, and one for each end that is a part of one.
pub(crate) const PLACES: usize = 64;

/// The kernel's bound on one registered range.
const PLACE_BYTES: usize = 1 << 30;

/// What a huge page has here. Elsewhere ranges are cut where they need not be, which costs nothing.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What is known of a place of the kernel's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TableEntry {
    #[default]
    Free,
    /// Memory from the first address to the second, and its number in requests.
    Used(usize, usize, u64),
    /// Memory that no new entry of the ring names. Entries that the kernel has not seen may, so it
    /// is still in the kernel's table.
    Forgotten,
}

/// The table of registered ranges. The kernel has each of them, and those that are forgotten until
/// they are freed.
#[derive(Debug)]
pub(crate) struct Registered {
    places: [TableEntry; PLACES],
    used: usize,
}

impl Registered {
    pub(crate) fn new() -> Registered {
        Registered {
            places: [TableEntry::Free; PLACES],
            used: 0,
        }
    }

    /// The place whose range holds all of `vector`, of a request from the memory `number`.
    pub(crate) fn place_of(&self, vector: IoVector, number: u64) -> Option<u16> {
        let start = vector.base as usize;
        let end = start + vector.length_bytes;
        let holds = |place: &TableEntry| match *place {
            TableEntry::Used(from, to, of) => of == number && from <= start && end <= to,
            TableEntry::Free | TableEntry::Forgotten => false,
        };
        self.places[..self.used]
            .iter()
            .position(holds)
            .map(|index| index as u16)
    }

    /// A free place.
    pub(crate) fn free_place(&self) -> Option<usize> {
        self.places
            .iter()
            .position(|&place| place == TableEntry::Free)
    }

    /// Notes that the kernel has `range` at `place`.
    pub(crate) fn set(&mut self, place: usize, range: IoVector, number: u64) {
        let start = range.base as usize;
        self.places[place] = TableEntry::Used(start, start + range.length_bytes, number);
        self.used = self.used.max(place + 1);
    }

    /// Forgets all ranges that overlap `range`. Their places are not free yet.
    pub(crate) fn forget(&mut self, range: IoVector) {
        let start = range.base as usize;
        let end = start + range.length_bytes;
        for place in &mut self.places[..self.used] {
            if matches!(*place, TableEntry::Used(from, to, _) if from < end && start < to) {
                *place = TableEntry::Forgotten;
            }
        }
    }

    /// A place whose range is forgotten.
    pub(crate) fn forgotten_place(&self) -> Option<usize> {
        let places = &self.places[..self.used];
        places
            .iter()
            .position(|&place| place == TableEntry::Forgotten)
    }

    /// Notes that the kernel has nothing at `place` that an entry could name.
    pub(crate) fn free(&mut self, place: usize) {
        self.places[place] = TableEntry::Free;
    }
}

/// `length_bytes` bytes at `base` in ranges that the kernel takes. What is made of whole huge pages
/// has ranges of its own: the kernel keeps a range as huge pages only if all of it is. As small
/// pages, each would be a segment of its own in a request to the disk.
pub(crate) fn pieces(base: *mut u8, length_bytes: usize) -> impl Iterator<Item = IoVector> {
    let to_whole = base.addr().next_multiple_of(HUGE_PAGE_BYTES) - base.addr();
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = length_bytes - start;
        let is_whole = start >= to_whole && left >= HUGE_PAGE_BYTES;
        let length_bytes = if start < to_whole {
            left.min(to_whole - start)
        } else if is_whole {
            PLACE_BYTES.min(left - left % HUGE_PAGE_BYTES)
        } else {
            left
        };
        let base = base.wrapping_add(start);
        start += length_bytes;
        (length_bytes > 0).then_some(IoVector { base, length_bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize, length_bytes: usize) -> IoVector {
        IoVector {
            base: std::ptr::without_provenance_mut(start),
            length_bytes,
        }
    }

    #[test]
    fn only_memory_wholly_inside_a_place_is_registered() {
        let mut table = Registered::new();
        table.set(0, range(4096, 8192), 1);
        assert_eq!(table.place_of(range(4096, 8192), 1), Some(0));
        assert_eq!(table.place_of(range(8192, 4096), 1), Some(0));
        assert_eq!(table.place_of(range(0, 8192), 1), None);
        assert_eq!(table.place_of(range(8192, 8192), 1), None);
        assert_eq!(table.place_of(range(4096, 8192), 2), None, "other memory");
    }

    #[test]
    fn forgotten_memory_is_not_registered() {
        let mut table = Registered::new();
        table.set(0, range(4096, 8192), 1);
        table.set(1, range(1 << 20, 4096), 1);
        table.forget(range(8192, 1 << 30));
        assert_eq!(table.place_of(range(4096, 4096), 1), None);
        assert_eq!(table.place_of(range(1 << 20, 4096), 1), None);
    }

    #[test]
    fn a_place_is_not_free_as_soon_as_its_memory_is_forgotten() {
        let mut table = Registered::new();
        table.set(0, range(4096, 8192), 1);
        table.set(1, range(1 << 20, 4096), 1);
        table.forget(range(8192, 4096));
        assert_eq!(table.free_place(), Some(2));
        assert_eq!(table.forgotten_place(), Some(0));
        table.free(0);
        assert_eq!(table.free_place(), Some(0));
        assert_eq!(table.forgotten_place(), None);
        assert_eq!(table.place_of(range(1 << 20, 4096), 1), Some(1));
    }

    fn lengths(base: usize, length_bytes: usize) -> Vec<usize> {
        let base = std::ptr::without_provenance_mut(base);
        let ranges: Vec<IoVector> = pieces(base, length_bytes).collect();
        let ends = ranges
            .iter()
            .map(|range| range.base.addr() + range.length_bytes);
        let starts = ranges.iter().map(|range| range.base.addr());
        assert!(starts.skip(1).eq(ends.take(ranges.len().saturating_sub(1))));
        ranges.iter().map(|range| range.length_bytes).collect()
    }

    #[test]
    fn long_memory_is_cut() {
        assert_eq!(lengths(0, (2 << 30) + 4096), [1 << 30, 1 << 30, 4096]);
    }

    #[test]
    fn whole_huge_pages_are_apart() {
        const MIB: usize = 1 << 20;
        assert_eq!(lengths(4 * MIB, 192 * MIB), [192 * MIB]);
        assert_eq!(lengths(4 * MIB, 193 * MIB), [192 * MIB, MIB]);
        assert_eq!(lengths(3 * MIB, 6 * MIB), [MIB, 4 * MIB, MIB]);
        assert_eq!(lengths(MIB, 1536 * MIB), [MIB, 1024 * MIB, 510 * MIB, MIB]);
        assert_eq!(lengths(4096, 8192), [8192]);
        assert_eq!(lengths(4096, 0), [0; 0]);
    }
}
