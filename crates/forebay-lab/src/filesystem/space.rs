//! The free space of a file system, in groups.

use super::borders::page_ceiling;
use forebay_base::PAGE_BYTES;
use std::collections::BTreeMap;

/// Free ranges, each in one group.
#[derive(Debug)]
pub(crate) struct Space {
    groups: Vec<Group>,
    /// First byte of the first group.
    start_bytes: u64,
    /// Bytes of a group; the last may be shorter.
    group_bytes: u64,
    free_bytes: u64,
}

#[derive(Debug, Default)]
struct Group {
    /// Length of each free range by its start; neighbours are one range.
    free: BTreeMap<u64, u64>,
    /// The first byte past what was taken last.
    cursor: u64,
}

impl Space {
    /// `length_bytes` of free space from `start_bytes` on. All sizes are multiples of a page.
    pub(crate) fn new(start_bytes: u64, length_bytes: u64, groups: u32) -> Space {
        let groups = u64::from(groups);
        let group_bytes = page_ceiling(length_bytes / groups).max(PAGE_BYTES as u64);
        let group = |index: u64| {
            let from = (index * group_bytes).min(length_bytes);
            let to = ((index + 1) * group_bytes).min(length_bytes);
            let start = start_bytes + from;
            Group {
                free: (from < to)
                    .then_some((start, to - from))
                    .into_iter()
                    .collect(),
                cursor: start,
            }
        };
        Space {
            groups: (0..groups).map(group).collect(),
            start_bytes,
            group_bytes,
            free_bytes: length_bytes,
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Takes up to `wanted` bytes in one range: at `goal` if that is free, otherwise in the group,
    /// otherwise in the next group that has any. None if nothing is free.
    pub(crate) fn take(
        &mut self,
        group: usize,
        goal: Option<u64>,
        wanted: u64,
    ) -> Option<(u64, u64)> {
        if let Some(goal) = goal
            && let Some(taken) = self.take_at(goal, wanted)
        {
            return Some(taken);
        }
        let count = self.groups.len();
        for index in (group..group + count).map(|index| index % count) {
            if let Some(start) = self.groups[index].find(wanted) {
                return self.take_at(start, wanted);
            }
        }
        None
    }

    /// Takes up to `wanted` bytes from `start` on, if that is free.
    pub(crate) fn take_at(&mut self, start: u64, wanted: u64) -> Option<(u64, u64)> {
        let index = self.group_of(start)?;
        let group = &mut self.groups[index];
        let (&first, &length) = group.free.range(..=start).next_back()?;
        let end = first + length;
        if end <= start {
            return None;
        }
        let taken = wanted.min(end - start);
        group.free.remove(&first);
        if first < start {
            group.free.insert(first, start - first);
        }
        if start + taken < end {
            group.free.insert(start + taken, end - start - taken);
        }
        group.cursor = start + taken;
        self.free_bytes -= taken;
        Some((start, taken))
    }

    /// Gives a range back that was taken. It may have been taken in pieces, from groups that follow
    /// each other: an extent of a file goes on where the next group begins.
    pub(crate) fn give_back(&mut self, start: u64, length: u64) {
        self.free_bytes += length;
        let (mut start, end) = (start, start + length);
        while start < end {
            let index = self.group_of(start).expect("it was taken from a group");
            let border = self.start_bytes + (index as u64 + 1) * self.group_bytes;
            let piece = end.min(border) - start;
            self.groups[index].give_back(start, piece);
            start += piece;
        }
    }

    fn group_of(&self, start: u64) -> Option<usize> {
        let index = start.checked_sub(self.start_bytes)? / self.group_bytes;
        (index < self.groups.len() as u64).then_some(index as usize)
    }
}

impl Group {
    /// Takes a range of the group back.
    fn give_back(&mut self, mut start: u64, mut length: u64) {
        let free = &mut self.free;
        if let Some((&before, &long)) = free.range(..start).next_back()
            && before + long == start
        {
            free.remove(&before);
            start = before;
            length += long;
        }
        if let Some(long) = free.remove(&(start + length)) {
            length += long;
        }
        free.insert(start, length);
    }

    /// Where `wanted` bytes are free in one range, from the cursor on and then from the start;
    /// otherwise where the longest free range is.
    fn find(&self, wanted: u64) -> Option<u64> {
        let around = self.free.range(..=self.cursor).next_back();
        let inside = around.and_then(|(&start, &length)| {
            let end = start + length;
            (end >= self.cursor + wanted).then_some(self.cursor)
        });
        let fits = |(&start, &length): (&u64, &u64)| (length >= wanted).then_some(start);
        inside
            .or_else(|| self.free.range(self.cursor..).find_map(fits))
            .or_else(|| self.free.iter().find_map(fits))
            .or_else(|| {
                let longest = self.free.iter().max_by_key(|(_, length)| **length);
                longest.map(|(&start, _)| start)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;

    #[test]
    fn files_of_a_group_follow_one_another_and_groups_are_apart() {
        let mut space = Space::new(0, 4 << 20, 4);
        assert_eq!(space.take(0, None, 8192), Some((0, 8192)));
        assert_eq!(space.take(1, None, 4096), Some((1 << 20, 4096)));
        assert_eq!(space.take(0, None, 4096), Some((8192, 4096)));
        // At the goal if it is free, elsewhere if it is not.
        let goal = Some(12_288);
        assert_eq!(space.take(2, goal, 4096), Some((12_288, 4096)));
        assert_eq!(space.take(2, goal, 4096), Some((2 << 20, 4096)));
    }

    #[test]
    fn a_full_group_goes_on_in_the_next() {
        let mut space = Space::new(0, 2 << 20, 2);
        assert_eq!(space.take(0, None, 2 << 20), Some((0, 1 << 20)));
        assert_eq!(space.take(0, None, 4096), Some((1 << 20, 4096)));
        space.take(1, None, 2 << 20);
        assert_eq!(space.take(0, None, 4096), None);
        space.give_back(4096, 4096);
        assert_eq!(space.take(1, None, 1 << 20), Some((4096, 4096)));
    }

    #[test]
    fn what_comes_back_from_two_groups_at_once_is_free_in_both() {
        let mut space = Space::new(0, 2 << 20, 2);
        assert_eq!(space.take(0, None, 1 << 20), Some((0, 1 << 20)));
        assert_eq!(
            space.take(0, Some(1 << 20), 1 << 20),
            Some((1 << 20, 1 << 20))
        );
        space.give_back(0, 2 << 20);
        assert_eq!(space.take(1, None, 1 << 20), Some((1 << 20, 1 << 20)));
        assert_eq!(space.take(1, None, 2 << 20), Some((0, 1 << 20)));
        assert_eq!(space.free_bytes(), 0);
    }

    #[test]
    fn what_is_taken_is_taken_once_and_what_comes_back_grows_together() {
        let mut space = Space::new(1 << 20, 8 << 20, 3);
        let mut chance = Prng::from_seed(5);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for _ in 0..4_000 {
            if chance.chance(1, 2) {
                let wanted = (1 + chance.below(64)) << 12;
                let group = chance.below(3) as usize;
                taken.extend(space.take(group, None, wanted));
            } else if !taken.is_empty() {
                let index = chance.below(taken.len() as u64) as usize;
                let (start, length) = taken.swap_remove(index);
                space.give_back(start, length);
            }
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            for pair in sorted.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
            }
            let sum: u64 = taken.iter().map(|(_, length)| length).sum();
            assert_eq!(space.free_bytes() + sum, 8 << 20);
        }
        for (start, length) in taken {
            space.give_back(start, length);
        }
        let ranges: usize = space.groups.iter().map(|group| group.free.len()).sum();
        assert_eq!(ranges, 3, "each group is one free range again");
    }
}
