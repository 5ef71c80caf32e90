//! Where the bytes of one file lie on the device.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from ranges of a file to ranges of a device. Everything else is a hole.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// By the first byte in the file: the first byte on the device, and how many.
    by_offset: BTreeMap<u64, (u64, u64)>,
}

/// A range of a file and where it lies: nowhere, if it is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) start: Option<u64>,
}

impl Extents {
    /// The segments of the file from `from` to `to`, in order and without gaps.
    pub(crate) fn segments(&self, from: u64, to: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut offset = from;
        let before = self.by_offset.range(..from).next_back();
        let inside = self.by_offset.range(from..to);
        for (&first, &(start, length)) in before.into_iter().chain(inside) {
            let end = first + length;
            if end <= offset {
                continue;
            }
            if first > offset {
                segments.push(Segment {
                    offset,
                    length: first - offset,
                    start: None,
                });
                offset = first;
            }
            let piece = end.min(to) - offset;
            segments.push(Segment {
                offset,
                length: piece,
                start: Some(start + (offset - first)),
            });
            offset += piece;
        }
        if offset < to {
            segments.push(Segment {
                offset,
                length: to - offset,
                start: None,
            });
        }
        segments
    }

    /// Puts a hole of the file, or a part of one, on the device.
    pub(crate) fn add(&mut self, offset: u64, start: u64, length: u64) {
        let before = self.by_offset.range_mut(..offset).next_back();
        if let Some((&first, extent)) = before
            && first + extent.1 == offset
            && extent.0 + extent.1 == start
        {
            extent.1 += length;
            return;
        }
        self.by_offset.insert(offset, (start, length));
    }

    /// Takes the range away from the file. Returns the ranges of the device that it had.
    pub(crate) fn remove(&mut self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mapped: Vec<Segment> = self
            .segments(from, to)
            .into_iter()
            .filter(|segment| segment.start.is_some())
            .collect();
        mapped
            .into_iter()
            .filter_map(|segment| {
                let start = segment.start?;
                self.cut(segment);
                Some((start, segment.length))
            })
            .collect()
    }

    /// Cuts a segment, which lies in one extent, out of it.
    fn cut(&mut self, segment: Segment) {
        let found = self.by_offset.range(..=segment.offset).next_back();
        let (&first, &(start, length)) = found.expect("the segment is mapped");
        self.by_offset.remove(&first);
        if first < segment.offset {
            let kept = segment.offset - first;
            self.by_offset.insert(first, (start, kept));
        }
        let (end, behind) = (first + length, segment.offset + segment.length);
        if behind < end {
            self.by_offset
                .insert(behind, (start + (behind - first), end - behind));
        }
    }

    /// Where the byte after `offset`'s predecessor would lie: the goal for growing there.
    pub(crate) fn goal(&self, offset: u64) -> Option<u64> {
        let (_, &(start, length)) = self.by_offset.range(..offset).next_back()?;
        Some(start + length)
    }

    /// The part of the file around `offset` that is not on the device, up to the next bytes that
    /// are.
    pub(crate) fn hole_around(&self, offset: u64) -> Range<u64> {
        let before = self.by_offset.range(..=offset).next_back();
        let start = before.map_or(0, |(&first, &(_, length))| first + length);
        let behind = self.by_offset.range(offset..).next();
        let end = behind.map_or(u64::MAX, |(&first, _)| first);
        start..end
    }

    /// How many extents there are.
    pub(crate) fn count(&self) -> usize {
        self.by_offset.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;

    #[test]
    fn neighbours_in_file_and_device_are_one_extent() {
        let mut extents = Extents::default();
        extents.add(0, 100, 10);
        extents.add(10, 110, 10);
        extents.add(20, 500, 10);
        assert_eq!(extents.count(), 2);
        assert_eq!(extents.goal(30), Some(510));
        let hole = Segment {
            offset: 30,
            length: 5,
            start: None,
        };
        let end = Segment {
            offset: 25,
            length: 5,
            start: Some(505),
        };
        assert_eq!(extents.segments(25, 35), [end, hole]);
    }

    #[test]
    fn the_map_is_what_a_table_of_every_byte_would_be() {
        let mut chance = Prng::from_seed(9);
        let mut extents = Extents::default();
        let mut table: Vec<Option<u64>> = vec![None; 64];
        let mut next_start = 1_000;
        for _ in 0..5_000 {
            let from = chance.below(64);
            let to = from + 1 + chance.below(64 - from);
            if chance.chance(1, 2) {
                for segment in extents.segments(from, to) {
                    if segment.start.is_none() {
                        extents.add(segment.offset, next_start, segment.length);
                        for byte in 0..segment.length {
                            table[(segment.offset + byte) as usize] = Some(next_start + byte);
                        }
                        // Sometimes the next extent follows on the device, sometimes not.
                        next_start += segment.length + chance.below(2) * 7;
                    }
                }
            } else {
                let mut removed: Vec<u64> = extents
                    .remove(from, to)
                    .into_iter()
                    .flat_map(|(start, length)| start..start + length)
                    .collect();
                removed.sort_unstable();
                let mut expected: Vec<u64> = (from..to)
                    .filter_map(|byte| table[byte as usize].take())
                    .collect();
                expected.sort_unstable();
                assert_eq!(removed, expected);
            }
            let seen: Vec<Option<u64>> = extents
                .segments(0, 64)
                .into_iter()
                .flat_map(|it| (0..it.length).map(move |byte| it.start.map(|at| at + byte)))
                .collect();
            assert_eq!(seen, table);
        }
    }
}
