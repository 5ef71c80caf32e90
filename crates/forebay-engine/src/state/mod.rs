//! State remembers: frames, zones, objects and accounts. Lists of pages have a room of their own.
//!
//! The rules of this room: Nothing here waits. A caller that has to wait gets a listener and waits
//! in a flow. Every lock is taken and released inside one function, and what leaves that function
//! is a plain value or a pin.
//!
//! Lock order, first to last; no two locks of one line are held together:
//!
//! 0. the change of knobs; then the table of objects, the budget (`Balloon::memory_bytes`)
//! 1. `ObjectState::queueing`
//! 2. `Backing::lists`
//! 3. `ObjectState::dirty`
//! 4. the block slab
//! 5. a bucket of the index
//! 6. a zone's balloon, `ZoneLists::chains`, `Zone::free`
//! 7. `Backing::rates`, the meter of its reads, the cache's limits, a store's activity, counters,
//!    the error sequence of an object, the lines of its cuts and of its commits, the ledger, the
//!    top dirtiers, what callers have dirtied, the last pause of a call
//!
//! Frame words are not locks but holds (frame.rs): they are taken before any of these, and no
//! caller waits for a hold under a lock.

pub(crate) mod activity;
pub(crate) mod arena;
pub(crate) mod attachment;
pub mod backing;
pub(crate) mod balloon;
pub mod batch;
pub(crate) mod commit_line;
pub(crate) mod congestion;
pub(crate) mod content;
pub(crate) mod cut_line;
pub(crate) mod dirtied;
pub mod dirtier;
pub(crate) mod dirty_index;
pub(crate) mod elastic;
pub(crate) mod errseq;
pub(crate) mod flusher_lists;
pub mod flusher_requests;
pub mod frame;
pub(crate) mod gauge;
pub(crate) mod global;
pub(crate) mod incidents;
pub mod index;
pub(crate) mod knobs;
pub(crate) mod ledger;
pub(crate) mod minutes;
pub mod node;
pub mod object;
pub mod objects;
pub(crate) mod open_calls;
pub(crate) mod outstanding;
pub(crate) mod pause_turn;
pub mod payer;
pub(crate) mod read_meter;
pub(crate) mod refusals;
pub(crate) mod retry;
pub mod scan_control;
pub(crate) mod shrinkers;
pub(crate) mod stamp;
pub(crate) mod stream;
pub(crate) mod swap;
pub(crate) mod swap_ahead;
pub(crate) mod sync_line;
pub mod tally;
pub(crate) mod times;
pub(crate) mod top_dirtiers;
pub(crate) mod unused_files;
pub(crate) mod vectors;
pub mod waits;
pub(crate) mod write_cut;
pub mod zone;

#[cfg(all(test, loom))]
mod loom_commit_tests;
#[cfg(all(test, loom))]
mod loom_explorer;
#[cfg(all(test, loom))]
mod loom_flusher_tests;
#[cfg(all(test, loom))]
mod loom_sync_tests;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, shuttle))]
mod node_schedules;
#[cfg(all(test, not(loom)))]
mod twin_reclaim_tests;
#[cfg(all(test, not(loom)))]
mod twin_tests;
#[cfg(all(test, not(loom)))]
mod twin_walk_tests;
