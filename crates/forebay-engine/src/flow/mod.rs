//! Flows wait. Each reads from top to bottom as the policy itself. Together with `engine.rs` they
//! are the only users of the runtime and of stores.
//!
//! | file | what it does |
//! |---|---|
//! | `doors` | where the flows of an older kernel take the place of today's |
//! | `daemons` | starts the keepers of nodes and stores |
//! | `read` | a hit copies; a miss fills and comes back |
//! | `read_many` | many reads in one call, several under way at a time |
//! | `fill` | brings a range in: window, frames, requests |
//! | `alloc` | a frame, or a run of them: free ones, kswapd, direct reclaim, refusal |
//! | `reclaim`, `judge` | one pass over the lists; what becomes of each page |
//! | `reclaim/caches` | what it asks of caches beside the pages |
//! | `kswapd` | a node's keeper |
//! | `retune` | knobs that are turned while the cache runs |
//! | `elastic` | a budget that follows the memory of the machine |
//! | `balloon` | a budget that changes |
//! | `write` | finds or makes the page, copies, marks it dirty |
//! | `pause` | a writer that dirties too fast pauses |
//! | `flusher`, `turn_commits` | a store's writer; the commits that its turns owe |
//! | `writeout` | tagged pages into few large requests: the only writer of file pages |
//! | `finish` | a request has ended |
//! | `sync`, `commit` | writes a file and makes it durable |
//! | `resize` | truncate and discard: `line` gives each its turn, `dropping` takes the pages out |
//! | `opening` | makes an object known, within the budget |
//! | `anonymous` | anonymous memory from its making to its last handle |
//! | `swap`, `swapahead` | which of its pages go to swap; what is read back together |
//! | `wait`, `ticket` | bounded waits |
//!
//! They call each other in one direction. Nothing that reclaims writes a file page, and nothing
//! that writes one allocates. Code that need not wait is not here: see `memory`, `accounting` and
//! `stores`.

pub mod alloc;
mod anonymous;
mod balloon;
mod commit;
mod daemons;
mod doors;
mod elastic;
mod fill;
mod finish;
mod flusher;
pub mod judge;
pub mod kswapd;
mod opening;
pub mod pause;
mod read;
pub(crate) mod read_many;
pub mod reclaim;
mod resize;
mod retune;
mod side_by_side;
mod submit;
mod swap;
mod swapahead;
pub(crate) mod sync;
mod sync_all;
mod ticket;
mod turn_commits;
pub mod wait;
mod watched;
mod write;
mod writeout;

pub(crate) use read::Missing;

#[cfg(all(test, shuttle))]
mod gate_schedules;
