//! The soak: loads of the loops on real threads, with the oracles that hold in any timing, and
//! scenes that are compared in real and in virtual time.
//!
//! Both worlds run the same code over the same store: a medium of a given rate that keeps nothing.
//! In virtual time a writer is a task and its work takes no time; in real time it is a thread of
//! its own. Figures that differ too much are reported but are no failure, because a busy machine
//! can cause this. A broken oracle is a failure (docs/decisions/testing.md).

mod comparison;
mod guard;
mod measured;
mod meter;
mod play;
mod round;
mod scenes;
mod writer;

pub use comparison::{Comparison, Figure, FigureKind};
pub use round::{LoadRun, run_load};
