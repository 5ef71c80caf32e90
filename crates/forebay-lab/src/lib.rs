//! A simulated machine for the Forebay engine: devices, workloads, historic policies, the five
//! changes measured again.

pub mod device;
pub mod outcome;
pub mod report;
pub mod seeds;
