//! The swarm: many runs of the shipped engine in virtual time. A seed decides each run. The stores
//! fail in every way that a cache survives, and every promise is judged.
//!
//! A seed draws machine, stores, policy, knobs, workload and faults (`plan`). While stores
//! misbehave, no call may return anything false (`client`, `ledger`, `reader_model`). When the
//! stores behave again, everything has to come to rest (`settle`). A run may instead end with a
//! loss of power. Then a fresh cache has to show what returned syncs promised (`crash`,
//! `crash_disk`, `reopen`). The judges call no code of the engine, with one exception: bytes
//! follow from a version and a place (`pattern`), and sums follow from the stores' own counts
//! (`books`). But whether a recorded pause follows from its inputs is judged by the engine's own
//! law (`observer`), which finds a record that is wrong and not a law that is.
//!
//! Some seeds have side worlds in addition to their run, for shares, control loops, reclaim and
//! volumes in a bucket. One table (`side_world`) says which; most of them play a scene (`scene`).

mod abandon;
mod books;
mod budgets;
mod campaign;
mod client;
mod crash;
mod crash_disk;
mod crowd;
mod durable;
mod error_reports;
mod explained;
mod extent_map;
mod fault;
mod io_rules;
mod judging;
mod kept;
mod ledger;
mod loops;
mod machine;
mod null_store;
mod observer;
mod part;
mod pattern;
mod plan;
mod pressure;
mod reader_model;
mod reopen;
mod roles;
mod run;
mod scatter;
mod scene;
mod searches;
mod settle;
mod shares;
mod shrink;
mod side_world;
mod squeeze;
mod store;
mod table;
mod turns;
mod uncertain;
mod unjudged;
mod verdict;
mod volumes;
mod world;

pub use campaign::{Campaign, Failed, Reached, Report};
pub use kept::{KeptSeed, kept_seeds};
pub use loops::{Comparison, Figure, FigureKind, LoadRun, run_load};
pub use part::Part;
pub use plan::Reduction;
pub use run::{Outcome, run_seed, run_side_worlds, run_twin};
pub use scene::Scene;
pub use shrink::shrink;
pub use side_world::SideWorld;
pub use verdict::{Oracle, Violation};

/// The instant `ms` milliseconds after the start, for tests.
#[cfg(test)]
fn at(ms: u64) -> forebay_base::Instant {
    forebay_base::Instant::ZERO + forebay_base::Span::from_millis(ms)
}
