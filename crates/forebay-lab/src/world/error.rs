//! Why a workload could not go on.

use forebay_base::units::show_bytes;
use forebay_engine::{AccessError, BuildError, SyncError};

/// Why a process could not do its work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The engine refused a read, a write or a resize.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The engine refused a sync.
    #[error("{0}")]
    Sync(#[from] SyncError),
    /// The engine refused to open a file or to give memory.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// The machine has no such file system.
    #[error("machine '{machine}' has no file system '{name}'; it has: {known}")]
    NoFileSystem {
        /// The machine.
        machine: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The workload needs more room than there is.
    #[error(
        "{what} needs {} on file system '{file_system}', which has {}; scale it down or take a \
         larger device",
        show_bytes(*needed_bytes),
        show_bytes(*room_bytes)
    )]
    NoRoom {
        /// What was to be written.
        what: String,
        /// How much.
        needed_bytes: u64,
        /// Where.
        file_system: String,
        /// What is left there.
        room_bytes: u64,
    },
    /// The workload needs more anonymous memory than swap and memory hold.
    #[error(
        "{what} needs {} of anonymous memory; machine '{machine}' has {} of swap and {} of memory \
         for it; scale it down or take a machine with more swap",
        show_bytes(*needed_bytes),
        show_bytes(*swap_bytes),
        show_bytes(*memory_bytes)
    )]
    NoSwap {
        /// What was to be mapped.
        what: String,
        /// How much.
        needed_bytes: u64,
        /// Where.
        machine: String,
        /// Its swap; without any there is no anonymous memory.
        swap_bytes: u64,
        /// Its memory.
        memory_bytes: u64,
    },
    /// A file of the real folder could not be made or removed.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A process of a scenario could not go on.
    #[error("process '{name}': {error}")]
    Process {
        /// Which.
        name: String,
        /// Why not.
        error: Box<WorldError>,
    },
    /// A number of the workload is impossible.
    #[error("{0}")]
    Impossible(String),
}

impl WorldError {
    /// The same error, for the process called `name`.
    pub(crate) fn of_process(self, name: &str) -> WorldError {
        match self {
            WorldError::NoRoom {
                what,
                needed_bytes,
                file_system,
                room_bytes,
            } => WorldError::NoRoom {
                what: format!("{what} of process '{name}'"),
                needed_bytes,
                file_system,
                room_bytes,
            },
            WorldError::Impossible(problem) => {
                WorldError::Impossible(format!("process '{name}': {problem}"))
            }
            other => WorldError::Process {
                name: name.into(),
                error: Box::new(other),
            },
        }
    }
}
