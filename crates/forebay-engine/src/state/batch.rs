//! Frames that are handled together.

use crate::state::frame::NO_FRAME;

/// Frames that a reclaimer took off a list, or other frames that are handled together: at most
/// [`Batch::LIMIT`].
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    frames: [u32; Batch::LIMIT],
    len: usize,
}

impl Batch {
    /// SWAP_CLUSTER_MAX of spec/reclaim.md 0.2.
    pub const LIMIT: usize = 32;

    pub(crate) const fn new() -> Batch {
        Batch {
            frames: [NO_FRAME; Batch::LIMIT],
            len: 0,
        }
    }

    pub(crate) fn push(&mut self, frame: u32) {
        self.frames[self.len] = frame;
        self.len += 1;
    }

    /// The first `count` frames, and the others.
    pub(crate) fn split_at(&self, count: usize) -> (Batch, Batch) {
        let (mut first, mut others) = (Batch::new(), Batch::new());
        for (at, &frame) in self.as_slice().iter().enumerate() {
            if at < count {
                first.push(frame);
            } else {
                others.push(frame);
            }
        }
        (first, others)
    }

    pub fn as_slice(&self) -> &[u32] {
        &self.frames[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
