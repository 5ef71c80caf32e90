//! The memory of all clients: their queues of bytes, and their shares of the buffers.
//!
//! The memory of a client that left is used for the next one.

use crate::queue::ByteQueue;
use crate::watch::Presence;
use forebay_base::sync::{Mutex, atomic::AtomicU64, lock};
use forebay_block::{Pool, Share};
use std::sync::Arc;

/// The memory that a connection has for itself while it lasts.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes that came from the client.
    pub(crate) input: ByteQueue,
    /// Bytes to be sent.
    pub(crate) output: ByteQueue,
    pub(crate) share: Share,
}

/// Shared by the connections of one server.
#[derive(Debug)]
pub(crate) struct Rooms {
    pool: Arc<Pool>,
    /// Queues of clients that are gone.
    idle: Mutex<Vec<(ByteQueue, ByteQueue)>>,
    input_bytes: usize,
    output_bytes: usize,
    /// Those who serve requests in them.
    pub(crate) presence: Presence,
    /// Answers to them that were errors.
    pub(crate) errors: Arc<AtomicU64>,
}

impl Rooms {
    /// Rooms with queues of these lengths; together they share `shared_bytes` of buffers.
    pub(crate) fn new(shared_bytes: usize, input_bytes: usize, output_bytes: usize) -> Rooms {
        Rooms {
            pool: Arc::new(Pool::new(shared_bytes)),
            idle: Mutex::default(),
            input_bytes,
            output_bytes,
            presence: Presence::default(),
            errors: Arc::default(),
        }
    }

    /// A newcomer's room.
    pub(crate) fn enter(&self) -> Room {
        let found = lock(&self.idle).pop();
        let new = || {
            (
                ByteQueue::new(self.input_bytes),
                ByteQueue::new(self.output_bytes),
            )
        };
        let (input, output) = found.unwrap_or_else(new);
        Room {
            input,
            output,
            share: self.pool.enter(),
        }
    }

    /// Takes back what [`Rooms::enter`] gave.
    pub(crate) fn leave(&self, room: Room) {
        let Room {
            mut input,
            mut output,
            share,
        } = room;
        input.clear();
        output.clear();
        drop(share);
        lock(&self.idle).push((input, output));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_used_again_and_come_empty() {
        let rooms = Rooms::new(0, 64, 32);
        for _ in 0..3 {
            let mut room = rooms.enter();
            assert!(room.input.is_empty() && room.output.is_empty());
            assert_eq!((room.input.room(), room.output.room()), (64, 32));
            room.input.push(&[1; 64]);
            room.output.push(&[2; 3]);
            rooms.leave(room);
        }
        assert_eq!(lock(&rooms.idle).len(), 1);
    }
}
