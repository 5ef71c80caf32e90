//! Bytes on their way from or to a socket, in memory of a fixed size.

/// A queue of bytes of a fixed size: written at the back, taken from the front.
#[derive(Debug)]
pub(crate) struct ByteQueue {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ByteQueue {
    pub(crate) fn new(capacity_bytes: usize) -> ByteQueue {
        ByteQueue {
            // Not zeroed memory: the system would provide its pages only when they are first
            // written.
            bytes: vec![u8::MAX; capacity_bytes].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    /// The bytes in it.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that still fit.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.len()
    }

    /// Takes `count` bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len());
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Appends `part`, which must fit.
    pub(crate) fn push(&mut self, part: &[u8]) {
        if self.bytes.len() - self.end < part.len() {
            self.make_straight();
        }
        self.bytes[self.end..self.end + part.len()].copy_from_slice(part);
        self.end += part.len();
    }

    /// All the free room, to be written to; then call [`ByteQueue::commit`] with the bytes written.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        // A short remainder is moved to the front when there is little room at the back.
        if self.start > 0 && self.end > self.bytes.len() / 2 {
            self.make_straight();
        }
        &mut self.bytes[self.end..]
    }

    /// Records that `count` bytes of [`ByteQueue::spare`] were written.
    pub(crate) fn commit(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    fn make_straight(&mut self) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_is_the_same_as_a_plain_queue(
            steps in prop::collection::vec((0_u8..3, 0_usize..40), 1..200),
        ) {
            let mut queue = ByteQueue::new(64);
            let mut twin: VecDeque<u8> = VecDeque::new();
            let mut next = 0_u8;
            for (kind, count) in steps {
                let mut fresh = |count: usize| -> Vec<u8> {
                    (0..count).map(|_| { next = next.wrapping_add(1); next }).collect()
                };
                match kind {
                    0 => {
                        let part = fresh(count.min(queue.room()));
                        queue.push(&part);
                        twin.extend(part);
                    }
                    1 => {
                        let spare = queue.spare();
                        let part = fresh(count.min(spare.len()));
                        spare[..part.len()].copy_from_slice(&part);
                        queue.commit(part.len());
                        twin.extend(part);
                    }
                    _ => {
                        let count = count.min(queue.len());
                        queue.consume(count);
                        twin.drain(..count);
                    }
                }
                prop_assert_eq!(queue.filled(), twin.make_contiguous());
                prop_assert_eq!(queue.room(), 64 - twin.len());
                prop_assert_eq!(queue.is_empty(), twin.is_empty());
            }
        }
    }
}
