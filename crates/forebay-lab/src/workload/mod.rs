//! The workloads of spec/workloads.md 3, as async code over a [`World`].
//!
//! Each file holds one workload: its knobs, its processes, its own figures. A new one only has to
//! be named in [`ALL`].

mod endless;
mod fs_mark;
mod jbod;
mod knobs;
mod laptop;
mod many_dd;
mod mmap_strm;
mod nfs;
mod ntfs_copy;
mod simoop;
mod simple_wb;
mod stutterp;

pub use knobs::{Knob, KnobError, Knobs, machine_knobs};
pub(crate) use knobs::{MOST_BLOCK, MOST_PROCESSES};

use crate::machine::Machine;
use crate::world::{World, WorldError};
use std::future::Future;
use std::pin::Pin;

/// A workload at work: ready when its last foreground process has ended.
pub type Work = Pin<Box<dyn Future<Output = Result<(), WorldError>> + Send>>;

/// Checks knobs against each other and against the machine.
pub type Expects = fn(&Knobs, &Machine) -> Result<(), KnobError>;

/// Work for a machine.
#[derive(Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// One line that says what it does.
    pub summary: &'static str,
    /// Its settings.
    pub knobs: &'static [Knob],
    /// Refuses knobs with which nothing would be measured although each value is allowed: in
    /// combination, or on this machine. None if there are no such knobs.
    pub expects: Option<Expects>,
    /// Starts it.
    pub run: fn(World, Knobs) -> Work,
}

/// Every workload.
pub const ALL: [&Workload; 10] = [
    &fs_mark::FS_MARK,
    &simple_wb::SIMPLE_WB,
    &mmap_strm::MMAP_STRM,
    &ntfs_copy::NTFS_COPY,
    &many_dd::MANY_DD,
    &stutterp::STUTTERP,
    &simoop::SIMOOP,
    &laptop::LAPTOP,
    &jbod::JBOD,
    &nfs::NFS,
];

/// The workload called `name`.
pub fn named(name: &str) -> Option<&'static Workload> {
    ALL.into_iter().find(|workload| workload.name == name)
}

#[cfg(test)]
mod tests;
