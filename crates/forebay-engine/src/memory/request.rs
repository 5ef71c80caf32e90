//! What a caller looks for in memory.

use crate::memory::NodePolicy;
use forebay_base::{Instant, Span};

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRequest {
    /// The node to take it from, if possible or always.
    pub(crate) node_policy: NodePolicy,
    /// The frame will be dirtied at once: zones over their dirty limit are passed over.
    pub(crate) to_write: bool,
    /// The store to which the caller is writing.
    pub(crate) own_store: Option<usize>,
}

impl FrameRequest {
    /// A frame for a page to read.
    pub(crate) fn to_read(node_policy: NodePolicy) -> FrameRequest {
        FrameRequest {
            node_policy,
            to_write: false,
            own_store: None,
        }
    }

    /// A frame for a page of `store` to write.
    pub(crate) fn to_write(node_policy: NodePolicy, store: usize) -> FrameRequest {
        FrameRequest {
            node_policy,
            to_write: true,
            own_store: Some(store),
        }
    }
}

/// A caller's search for a frame, after a run of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Where the frame should come from.
    pub node_policy: NodePolicy,
    /// When it began.
    pub began: Instant,
    /// How long its runs of reclaim have freed nothing.
    pub fruitless: Span,
    /// Pages that the last run freed.
    pub reclaimed: u64,
}
