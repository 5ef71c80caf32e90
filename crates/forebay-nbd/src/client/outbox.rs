//! Bytes on their way to a server, in memory of a fixed size.

use crate::wire::REQUEST_BYTES;

/// No request is added while this many bytes wait to be sent.
const UNSENT_LIMIT_BYTES: usize = 256 << 10;

/// See above.
///
/// It never grows: what was sent is dropped before a request could have no room.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    longest_request_bytes: usize,
}

impl Outbox {
    /// Memory of an outbox for requests of at most `longest_request_bytes` with their payload.
    pub(crate) const fn size_bytes(longest_request_bytes: usize) -> usize {
        UNSENT_LIMIT_BYTES + longest_request_bytes
    }

    pub(crate) fn new(longest_request_bytes: usize) -> Outbox {
        Outbox {
            bytes: Vec::with_capacity(Outbox::size_bytes(longest_request_bytes)),
            sent: 0,
            longest_request_bytes,
        }
    }

    /// Whether one more request may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent().len() < UNSENT_LIMIT_BYTES
    }

    /// Adds a request. There is room.
    pub(crate) fn add(
        &mut self,
        head: [u8; REQUEST_BYTES],
        push_payload: impl FnOnce(&mut Vec<u8>),
    ) {
        // Less than the limit is unsent, so the longest request fits then.
        if self.bytes.len() > UNSENT_LIMIT_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        let start = self.bytes.len();
        self.bytes.extend(head);
        push_payload(&mut self.bytes);
        debug_assert!(self.bytes.len() - start <= self.longest_request_bytes);
    }

    /// What waits to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The first `count` bytes that waited were sent.
    pub(crate) fn was_sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that takes a little at a time, for ever, while there is always more to ask.
    #[test]
    fn a_lasting_backlog_takes_no_more_memory_and_arrives_in_order() {
        const LONGEST_BYTES: usize = REQUEST_BYTES + (64 << 10);
        let mut outbox = Outbox::new(LONGEST_BYTES);
        let memory = outbox.bytes.capacity();
        let mut next_added = 0_u8;
        let mut next_sent = 0_u8;
        for round in 0_usize..2_000 {
            while outbox.has_room() {
                let mut bytes = std::iter::repeat_with(|| {
                    next_added = next_added.wrapping_add(1);
                    next_added
                });
                let head = std::array::from_fn(|_| bytes.next().expect("there is no end"));
                let payload = (round * 997) % (LONGEST_BYTES - REQUEST_BYTES + 1);
                outbox.add(head, |output| output.extend(bytes.take(payload)));
            }
            let count = 1_000 + round % 7_000;
            for &byte in &outbox.unsent()[..count] {
                next_sent = next_sent.wrapping_add(1);
                assert_eq!(byte, next_sent, "round {round}");
            }
            outbox.was_sent(count);
            assert!(!outbox.unsent().is_empty(), "the backlog lasts");
            assert_eq!(outbox.bytes.capacity(), memory, "round {round}: it grew");
        }
    }

    #[test]
    fn an_outbox_that_was_sent_starts_at_the_front_again() {
        let mut outbox = Outbox::new(REQUEST_BYTES);
        outbox.add([7; REQUEST_BYTES], |_| {});
        outbox.was_sent(REQUEST_BYTES);
        assert!(outbox.unsent().is_empty() && outbox.bytes.is_empty() && outbox.sent == 0);
    }
}
