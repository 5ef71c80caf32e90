//! A simulated machine for the Forebay engine: devices, workloads, historic policies, the five
//! changes measured again.

pub mod device;
pub mod expect;
pub mod filesystem;
mod launch;
mod look;
pub mod machine;
pub mod outcome;
pub mod probe;
pub mod report;
pub mod reproduction;
pub mod run;
pub mod scenario;
pub mod swarm;
pub mod workload;
pub mod world;
