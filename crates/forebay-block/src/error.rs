//! Why a job failed, before any protocol translates it.

use forebay::{AccessError, SyncError};
use thiserror::Error;

/// Why a job failed. The disk stays usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The cache could not read, write or drop the bytes.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// Bytes may not be durable.
    #[error("{0}")]
    Sync(#[from] SyncError),
    /// A long job was given up because the server is ending.
    #[error("the server is ending")]
    Ending,
    /// The disk may only be read.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The range ends past the end of the disk.
    #[error("the range ends at byte {end_bytes}, past the end of a disk of {length_bytes} bytes")]
    OutOfRange {
        /// First byte past the range.
        end_bytes: u64,
        /// Length of the disk.
        length_bytes: u64,
    },
}

impl BlockError {
    /// The Linux `errno` value that says the same.
    ///
    /// ```
    /// use forebay_block::BlockError;
    /// assert_eq!(BlockError::ReadOnly.errno(), 30);
    /// ```
    pub fn errno(&self) -> i32 {
        match self {
            BlockError::Access(AccessError::Closed) | BlockError::Ending => 108,
            BlockError::Access(error) => error.errno(),
            BlockError::Sync(error) => error.errno(),
            BlockError::ReadOnly => 30,
            BlockError::OutOfRange { .. } => 22,
        }
    }
}
