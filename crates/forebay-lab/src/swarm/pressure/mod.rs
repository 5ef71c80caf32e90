//! Pressure: a world in which memory is short all the time, for the oracle of reclaim.
//!
//! Readers, writers and anonymous memory want more frames than there are, and stores take pages at
//! their own rates. At each event and every 10 ms the oracle judges what kswapd does, which flags
//! and marks are left, and how long callers are held up (docs/decisions/testing.md). It does not
//! use the engine's own sums of its waits.

mod callers;
mod keeper;
mod load;
mod stage;
mod watch;
mod writeback;

pub(super) use stage::judge_pressure;
