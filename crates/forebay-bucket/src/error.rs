//! What may go wrong with a volume in a bucket.

use crate::bucket::CallError;
use forebay_volume::{SnapshotName, VolumeFault};
use std::io;
use thiserror::Error;

/// Why a volume in a bucket cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The volume is not there, is damaged, or belongs to somebody else.
    #[error(transparent)]
    Volume(#[from] VolumeFault),
    /// The bucket does not answer, or refuses.
    #[error(transparent)]
    Bucket(#[from] CallError),
    /// The volume's map or its chunks are too large for the memory.
    #[error(
        "its map and uploads of chunks of {chunk_bytes} bytes need {needed_bytes} bytes of memory, \
         {map_bytes} of them for the map, and there are {memory_bytes}; give more memory"
    )]
    Memory {
        /// Bytes that the map of a full volume takes.
        map_bytes: u64,
        /// Bytes of a chunk.
        chunk_bytes: u32,
        /// The least that is enough.
        needed_bytes: u64,
        /// What there is.
        memory_bytes: u64,
    },
    /// A copy would lie upon something else.
    #[error("there is a volume already, or objects of one; copy to another place")]
    Occupied,
    /// A volume has no parent.
    #[error("it is no clone, or has all of its data already")]
    NoClone,
    /// A clone needs what was to be removed.
    #[error(
        "a clone needs its snapshot {snapshot}; remove or flatten the clone first, or give --force \
         if the clone is gone"
    )]
    HasClone {
        /// What holds it.
        snapshot: SnapshotName,
    },
    /// A new length is less than what the volume has.
    #[error(
        "it has {found_bytes} bytes, and what lies past {asked_bytes} bytes would be lost; allow \
         that with --shrink"
    )]
    Shrinks {
        /// Its length.
        found_bytes: u64,
        /// The length that was asked for.
        asked_bytes: u64,
    },
    /// Two changes of a volume's length met.
    #[error("another change of its length was faster; look at it, and decide again")]
    Resized,
    /// Two changes of a volume's key met.
    #[error("another change of its key was faster; the key of that one opens it")]
    KeyChanged,
    /// The system refused threads.
    #[error("a thread cannot be started: {0}")]
    System(#[from] io::Error),
}
