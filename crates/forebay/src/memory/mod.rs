//! Memory: the frames, what lies in them, and where each page is.
//!
//! It owns the frames and their index, the shadows of pages that were evicted, the zones with their
//! lists and free frames, the nodes, and the slots of swap. It never knows the clock, a policy of
//! throttling, the queue of a store, or what waits: that is a flow.
//!
//! | file | what it answers |
//! |---|---|
//! | `zones` | which zones a request may use, what they have to give, what may be dirtied |
//! | `frames` | a frame from a free list, and back |
//! | `pages` | the pages of an object; a page that leaves the cache |
//! | `swap` | which anonymous page has a slot, and whether one can be had |

mod frames;
mod pages;
mod swap;
mod zones;

pub(crate) use self::frames::FreshFrame;
pub(crate) use self::swap::Swap;

use crate::counters::Counters;
use crate::state::frame::FrameTable;
use crate::state::index::Index;
use crate::state::node::Node;
use crate::state::shadow::Shadows;
use crate::state::zone::Zone;
use forebay_base::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// All that the cache holds of pages.
pub(crate) struct Memory {
    pub(crate) frames: FrameTable,
    pub(crate) index: Index,
    pub(crate) shadows: Shadows,
    pub(crate) zones: Vec<Zone>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) swap: OnceLock<Swap>,
    /// Pages that are never counted as dirtyable: reserves and high marks.
    total_reserve: AtomicU64,
    /// Callers wait at a gate while a node's reserve is half gone.
    has_gates: bool,
    /// Where allocations and frees are counted.
    counters: Arc<Counters>,
}

impl Memory {
    /// Memory with nothing in it.
    pub(crate) fn new(
        frames: FrameTable,
        (zones, nodes): (Vec<Zone>, Vec<Node>),
        shadows: Shadows,
        has_gates: bool,
        counters: Arc<Counters>,
    ) -> Memory {
        let memory = Memory {
            index: Index::new(frames.len()),
            frames,
            shadows,
            zones,
            nodes,
            swap: OnceLock::new(),
            total_reserve: AtomicU64::new(0),
            has_gates,
            counters,
        };
        memory.note_reserves();
        memory
    }
}
