//! Oracles of the control loops, judged while a load runs and not at rest.
//!
//! Some seeds have a world of their own after their run, in which loops have something to do:
//! writers that want more than their stores take, rates that change, a store that stops. A probe
//! before each store reports when its writes begin and end, and the writers report when they are in
//! a call. No oracle calls code of the engine. Each reports the numbers by which it judged, so that
//! a wrong oracle can be told from a wrong engine (docs/decisions/0043).

mod age;
mod aged;
mod backoff;
mod drain;
mod elastic;
mod estimate;
mod limit;
mod load;
mod probe;
mod promised;
mod refusal;
mod soak;
mod stage;
mod strict;
mod watch;
mod work;

pub(super) use aged::judge_ages;
pub(super) use elastic::judge_elastic;
pub(super) use promised::judge_promises;
pub use soak::{Comparison, Figure, FigureKind, LoadRun, Scene, run_load};
pub(super) use stage::judge_loops;
pub(super) use strict::judge_strict;
