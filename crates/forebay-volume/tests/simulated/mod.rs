//! Bodies of the simulation.

pub(crate) mod bucket;
pub(crate) mod collector;
pub(crate) mod history;
pub(crate) mod reader;
pub(crate) mod snapshots;
pub(crate) mod world;
pub(crate) mod writer;
