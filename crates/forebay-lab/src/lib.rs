//! A simulated machine for the Forebay engine: devices, workloads, historic policies, the five
//! changes measured again.
//!
//! A run switches a simulated machine on, lets one workload run on it and reports what is left.
//! Only `run.rs` knows all of it; each room knows what it is given.
//!
//! - `machine`, `machines/*.toml`: a machine as data: processors, costs, zones, devices, file
//!   systems; what is impossible, and in which line. To add one: a TOML text, and its name in
//!   `machine/ships.rs`.
//! - `device`, `filesystem`: how long a transfer takes and where a file lies; stores of the
//!   engine. To add one: a file with its model, and a device in `catalogue.toml`.
//! - `world`: what a workload sees: processes, files, mappings, time; the same on a real folder.
//!   It is meant to stay small.
//! - `workload`: one file for each: knobs, loops, own figures. To add one: a file, and its entry
//!   in `workload::ALL`.
//! - `probe`: counts of the engine's events, levels once a second, figures by their published
//!   formulas. To add one: a line in `figures.rs` or `series.rs`.
//! - `scenario`, `expect`: read a TOML file of a machine, its processes, its events, and what must
//!   hold in control terms. To add one: a file in `scenarios/`.
//! - `swarm/loops/soak`: scenes of writers and stores with a rate, played on a given runtime, real
//!   or virtual; oracles that hold in any timing. To add one: a scene in `scenes.rs`.
//! - `swarm/scene`: a scene (stores, crews) on a stage in virtual time, and what an oracle sees of
//!   it. To add one: a side world in `side_world.rs`, which draws a scene and judges it by an
//!   `Observer`.
//! - `swarm`: draws stores, faults and workloads from a seed, and judges them by a byte model,
//!   crash images and books. To add one: a role in `roles.rs`, a fault in `fault.rs`.
//! - `outcome`, `report`, `reproduction`: plain values, and their tables, pictures and judgements.
//!
//! ```text
//! run::Plan             names and knobs
//!   Plan::check            looked up: workload, machine, policy; unknown ones listed
//!   world::simulate        Virtual + Cache + devices, stores, swap (world/boot.rs)
//!   Workload::run          async code over World; ready with its last foreground process
//!   World::open_window     measuring begins; again after the preparations of a workload
//!   World::outcome         counters after less before, figures, series, stalls, devices, hash
//! ```
//!
//! A workload's whole vocabulary: `World::spawn` starts a process, whose handle kills and waits;
//! `Process` sleeps, computes, creates files, maps anonymous memory; `WorldFile` appends, writes,
//! reads, touches, cuts, removes; `Measures` takes figures, samples and latencies by the names of
//! the published tables. Each call of a process pays for itself (`forebay_rt::Work` says who
//! charges for what) and is one call of the engine; pages have no bytes unless a run asks for
//! them. A process can be killed at any wait, except where the policy writes back in the writer's
//! own time: there the kill waits until its call returns.

pub mod device;
pub mod expect;
pub mod filesystem;
mod launch;
mod look;
pub mod machine;
pub mod outcome;
mod plan;
pub mod probe;
pub mod report;
pub mod reproduction;
pub mod run;
pub mod scenario;
pub mod swarm;
pub mod workload;
pub mod world;
