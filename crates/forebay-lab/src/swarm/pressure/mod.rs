//! Pressure: a world in which memory is short all the time, for the oracle of reclaim.
//!
//! Some seeds have it after their run. Readers, writers and anonymous memory want more frames than
//! there are, while stores take what they can. Then what kswapd does, which flags and marks are
//! left, and for how long callers are held up is judged at each event and every 10 ms
//! (docs/decisions/0049). The sums of the engine about its own waits are not used.

mod callers;
mod keeper;
mod load;
mod stage;
mod watch;
mod writeback;

pub(super) use stage::judge_pressure;
