//! The memory of all clients: their queues of bytes, and their shares of the buffers.
//!
//! The memory of a client that left is used for the next one.

use crate::busy_poll::Presence;
use crate::queue::ByteQueue;
use forebay_base::sync::{Mutex, atomic::AtomicU64, lock};
use forebay_block::{Pool, Share};
use std::sync::Arc;

/// The memory that a connection has for itself while it lasts.
#[derive(Debug)]
pub(crate) struct ConnectionBuffers {
    /// Bytes that came from the client.
    pub(crate) input: ByteQueue,
    /// Bytes to be sent.
    pub(crate) output: ByteQueue,
    pub(crate) share: Share,
}

/// Shared by the connections of one server.
#[derive(Debug)]
pub(crate) struct BufferPool {
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

impl BufferPool {
    /// BufferPool with queues of these lengths; together they share `shared_bytes` of buffers.
    pub(crate) fn new(shared_bytes: usize, input_bytes: usize, output_bytes: usize) -> BufferPool {
        BufferPool {
            pool: Arc::new(Pool::new(shared_bytes)),
            idle: Mutex::default(),
            input_bytes,
            output_bytes,
            presence: Presence::default(),
            errors: Arc::default(),
        }
    }

    /// A newcomer's buffers.
    pub(crate) fn enter(&self) -> ConnectionBuffers {
        let found = lock(&self.idle).pop();
        let new = || {
            (
                ByteQueue::new(self.input_bytes),
                ByteQueue::new(self.output_bytes),
            )
        };
        let (input, output) = found.unwrap_or_else(new);
        ConnectionBuffers {
            input,
            output,
            share: self.pool.enter(),
        }
    }

    /// Takes back what [`BufferPool::enter`] gave.
    pub(crate) fn leave(&self, buffers: ConnectionBuffers) {
        let ConnectionBuffers {
            mut input,
            mut output,
            share,
        } = buffers;
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
        let pool = BufferPool::new(0, 64, 32);
        for _ in 0..3 {
            let mut buffers = pool.enter();
            assert!(buffers.input.is_empty() && buffers.output.is_empty());
            assert_eq!((buffers.input.room(), buffers.output.room()), (64, 32));
            buffers.input.push(&[1; 64]);
            buffers.output.push(&[2; 3]);
            pool.leave(buffers);
        }
        assert_eq!(lock(&pool.idle).len(), 1);
    }
}
