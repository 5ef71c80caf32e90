//! Memory: the frames, what lies in them, and where each page is.
//!
//! It owns the frames and their index, the lists on which pages are, the zones with their free
//! frames, the nodes, and the slots of swap. It never knows the clock, a policy of throttling, the
//! queue of a store, or a waiter, which is a flow.
//!
//! | file | what it answers |
//! |---|---|
//! | `zones` | which zones a request may use, what can be freed there, what may be dirtied |
//! | `frames` | taking a frame from a zone, or a run of them, and giving it back |
//! | `isolated` | taking frames off their list and putting them back |
//! | `pages` | the pages of an object; a page that leaves the cache |
//! | `request` | what a caller looks for |
//! | `swap` | which anonymous pages have a slot, and whether one is available |

mod frames;
mod isolated;
mod pages;
mod request;
mod swap;
mod zones;

pub(crate) use self::frames::{FreshFrame, FreshRun};
pub(crate) use self::isolated::Isolated;
pub use self::request::{FrameRequest, Search};
pub(crate) use self::swap::Swap;
pub use self::zones::NodePolicy;

use crate::counters::Counters;
use crate::kernel::{Dirtyable, KernelValues};
use crate::lists::Lists;
use crate::state::frame::FrameTable;
use crate::state::index::Index;
use crate::state::node::Node;
use crate::state::zone::Zone;
use forebay_base::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// All page memory of a cache.
pub struct Memory {
    pub frames: FrameTable,
    pub(crate) index: Index,
    pub lists: Lists,
    pub zones: Vec<Zone>,
    pub nodes: Vec<Node>,
    pub(crate) swap: OnceLock<Swap>,
    /// Pages that are never counted as dirtyable: reserves and high marks.
    total_reserve: AtomicU64,
    /// Whether callers wait at a gate while a node's reserve is half gone.
    has_gates: bool,
    /// Whether each zone has a lock of its lists, and not each node (before 4.8).
    locks_zones: bool,
    /// Of which memory a part may be dirty.
    dirtyable: Dirtyable,
    /// Where allocations and frees are counted.
    counters: Arc<Counters>,
}

impl Memory {
    /// Memory without any pages in it.
    pub(crate) fn new(
        frames: FrameTable,
        zones: Vec<Zone>,
        nodes: Vec<Node>,
        kernel: &KernelValues,
        counters: Arc<Counters>,
    ) -> Memory {
        let memory = Memory {
            index: Index::new(frames.len()),
            has_gates: kernel.has_gates,
            locks_zones: kernel.balances_zones,
            dirtyable: kernel.dirtyable,
            lists: Lists::new(kernel.rule.clone(), zones.len(), frames.len()),
            frames,
            zones,
            nodes,
            swap: OnceLock::new(),
            total_reserve: AtomicU64::new(0),
            counters,
        };
        memory.note_reserves();
        memory
    }
}
