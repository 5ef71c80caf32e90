//! What a caller looks for in memory.

use crate::memory::Home;
use forebay_base::{Instant, Span};

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The node to take it from, if possible or always.
    pub(crate) home: Home,
    /// The frame will be dirtied at once: zones over their dirty limit are passed over.
    pub(crate) to_write: bool,
    /// The store to which the caller is writing.
    pub(crate) own_store: Option<usize>,
}

impl Want {
    /// A frame for a page to read.
    pub(crate) fn to_read(home: Home) -> Want {
        Want {
            home,
            to_write: false,
            own_store: None,
        }
    }

    /// A frame for a page of `store` to write.
    pub(crate) fn to_write(home: Home, store: usize) -> Want {
        Want {
            home,
            to_write: true,
            own_store: Some(store),
        }
    }
}

/// A caller's search for a frame, after a run of reclaim.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Where the frame should come from.
    pub home: Home,
    /// When it began.
    pub began: Instant,
    /// How long its runs of reclaim have freed nothing.
    pub fruitless: Span,
    /// Pages that the last run freed.
    pub reclaimed: u64,
}
