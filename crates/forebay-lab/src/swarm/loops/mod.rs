//! Oracles of the control loops. They judge while a load runs.
//!
//! Some seeds have side worlds in which loops have something to do: writers that want more than
//! their stores take, rates that change, a store that stops. No oracle calls code of the engine.
//! Each reports the numbers by which it judged, so that a wrong oracle can be told from a wrong
//! engine (docs/decisions/testing.md).

mod age;
mod aged;
mod backoff;
mod drain;
mod elastic;
mod estimate;
mod limit;
mod load;
mod promised;
mod soak;
mod strict;
mod watch;
mod work;

pub(super) use aged::judge_ages;
pub(super) use elastic::judge_elastic;
pub(super) use promised::judge_promises;
pub use soak::{Comparison, Figure, FigureKind, LoadRun, run_load};
pub(super) use strict::judge_strict;

use super::scene::judge;
use super::verdict::Violation;
use forebay_base::Prng;
use watch::Watch;

/// What the oracles of the loops find.
pub(super) fn judge_loops(seed: u64) -> Option<Violation> {
    let scene = load::draw(&mut Prng::from_seed(seed).child("loops"));
    judge(seed, &scene, Watch::new(&scene))
}

/// What they find in a longer scene with faster stores.
pub(super) fn judge_work(seed: u64) -> Option<Violation> {
    let scene = load::draw_long(&mut Prng::from_seed(seed).child("work"));
    judge(seed, &scene, Watch::new(&scene))
}
