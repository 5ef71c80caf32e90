//! The work that the cache does for one piece of a request: what it is, and how it ended.

use crate::error::BlockError;
use crate::extents::EXTENT_BYTES;
use crate::pool::Buffer;
use std::ops::Range;

/// One piece of work for the cache. Ranges are bytes of the disk.
///
/// A write that must be durable before it is answered (FUA) is a `Write` and then a `Flush` of the
/// same range. So it does not wait for another client's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Read into the buffer, at most [`PIECE_BYTES`](crate::PIECE_BYTES).
    Read(Range<u64>),
    /// Write out of the buffer, at most [`PIECE_BYTES`](crate::PIECE_BYTES).
    Write(Range<u64>),
    /// Make durable the bytes of the range that are in the cache; the range may end past the disk.
    Flush(Range<u64>),
    /// Discard the range; after that it reads as zeros.
    Trim(Range<u64>),
    /// Turn the range into zeros.
    Zero {
        /// Which bytes.
        range: Range<u64>,
        /// The range must stay allocated.
        no_hole: bool,
    },
    /// Read the beginning of the range into the cache, as much of it as may be useful.
    Prefetch(Range<u64>),
    /// Find the holes of the range: [`Extent`](crate::Extent)s are put into the buffer, in order.
    /// Decode them with [`extents`](crate::extents).
    Extents {
        /// Which bytes.
        range: Range<u64>,
        /// Stop after this many extents; at most as many as fit into
        /// [`PIECE_BYTES`](crate::PIECE_BYTES).
        most: usize,
    },
}

impl Job {
    /// Whether it changes bytes of the disk. A flush does not: it only writes what the cache holds
    /// to the store. A trim does not count either: it takes its place in line when it begins,
    /// before any later write.
    pub fn changes_bytes(&self) -> bool {
        match self {
            Job::Write(_) | Job::Zero { no_hole: true, .. } => true,
            Job::Zero { no_hole: false, .. }
            | Job::Trim(_)
            | Job::Read(_)
            | Job::Flush(_)
            | Job::Prefetch(_)
            | Job::Extents { .. } => false,
        }
    }

    /// Bytes of buffer that it needs.
    pub fn buffer_bytes(&self) -> usize {
        match self {
            Job::Read(range) | Job::Write(range) => (range.end - range.start) as usize,
            Job::Extents { most, .. } => most * EXTENT_BYTES,
            Job::Flush(_) | Job::Trim(_) | Job::Zero { .. } | Job::Prefetch(_) => 0,
        }
    }
}

/// A finished job, with the buffer that it was given.
#[derive(Debug)]
pub struct Finished {
    /// The buffer.
    pub buffer: Buffer,
    /// The number of bytes for the client in the buffer, or the error.
    pub outcome: Result<usize, BlockError>,
}
