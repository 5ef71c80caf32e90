//! Buffers for replies, kept for the next one.

use forebay_base::sync::{Mutex, lock};

/// Buffers that are kept; more exist only while more reads than that wait at once.
const KEPT: usize = 16;

/// Buffers of one size. They are zeros when new, so that the system gives memory to those parts
/// alone that are used.
#[derive(Debug)]
pub(crate) struct Buffers {
    size_bytes: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(crate) fn new(size_bytes: usize) -> Buffers {
        Buffers {
            size_bytes,
            free: Mutex::new(Vec::with_capacity(KEPT)),
        }
    }

    /// A buffer of at least `wanted_bytes`.
    pub(crate) fn take(&self, wanted_bytes: usize) -> Vec<u8> {
        let kept = lock(&self.free).pop();
        match kept {
            Some(buffer) if buffer.len() >= wanted_bytes => buffer,
            _ => vec![0; self.size_bytes.max(wanted_bytes)],
        }
    }

    /// Gives a buffer back.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut free = lock(&self.free);
        if free.len() < KEPT {
            free.push(buffer);
        }
    }
}
