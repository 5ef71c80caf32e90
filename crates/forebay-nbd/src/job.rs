//! What the cache is asked for one piece of a request.

use crate::export::Export;
use crate::holes::Extent;
use crate::pool::Buffer;
use crate::session::PIECE_BYTES;
use crate::standing::Standing;
use crate::wire::{ALLOCATION_CONTEXT_ID, Errno, PAYLOAD_LIMIT_BYTES, extent_flag};
use forebay::{AccessError, Advice, File, SyncError};
use std::ops::Range;

/// Zeros that are written where they must not become a hole.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// One piece of work for the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Into the buffer.
    Read(Range<u64>),
    /// Out of the buffer.
    Write(Range<u64>),
    /// Make durable what of these bytes is in the cache.
    Flush(Range<u64>),
    Trim(Range<u64>),
    Zero {
        range: Range<u64>,
        no_hole: bool,
    },
    Prefetch(Range<u64>),
    /// The payload of a status chunk into the buffer.
    Status {
        range: Range<u64>,
        one_extent: bool,
    },
}

impl Job {
    /// Whether it writes, other than what the cache holds to the store. A trim does not count: it
    /// takes its place in line when it begins, before whatever is written after it.
    pub(crate) fn changes_bytes(&self) -> bool {
        match self {
            Job::Write(_) | Job::Zero { no_hole: true, .. } => true,
            Job::Zero { no_hole: false, .. }
            | Job::Trim(_)
            | Job::Read(_)
            | Job::Flush(_)
            | Job::Prefetch(_)
            | Job::Status { .. } => false,
        }
    }

    /// Bytes of the buffer that it needs.
    pub(crate) fn buffer_bytes(&self) -> usize {
        match self {
            Job::Read(range) | Job::Write(range) => (range.end - range.start) as usize,
            Job::Status { .. } => PIECE_BYTES,
            Job::Flush(_) | Job::Trim(_) | Job::Zero { .. } | Job::Prefetch(_) => 0,
        }
    }
}

/// A job that ended, with the buffer that it was given.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) buffer: Buffer,
    /// Bytes for the client in the buffer, or why there are none.
    pub(crate) outcome: Result<usize, Trouble>,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) errno: Errno,
    pub(crate) reason: String,
}

impl From<AccessError> for Trouble {
    fn from(error: AccessError) -> Trouble {
        let errno = match error {
            AccessError::Closed => Errno::Shutdown,
            _ => Errno::from_linux(error.errno()),
        };
        Trouble {
            errno,
            reason: error.to_string(),
        }
    }
}

impl From<SyncError> for Trouble {
    fn from(error: SyncError) -> Trouble {
        Trouble {
            errno: Errno::from_linux(error.errno()),
            reason: error.to_string(),
        }
    }
}

/// Does `job` on `export` through `file`, the connection's own handle.
pub(crate) async fn perform(
    export: &Export,
    file: &File,
    job: Job,
    mut buffer: Buffer,
    standing: &Standing,
) -> Finished {
    let outcome = attempt(export, file, job, &mut buffer, standing).await;
    Finished { buffer, outcome }
}

async fn attempt(
    export: &Export,
    file: &File,
    job: Job,
    buffer: &mut [u8],
    standing: &Standing,
) -> Result<usize, Trouble> {
    match job {
        Job::Read(range) => return read(file, range, buffer).await,
        Job::Write(range) => {
            export.written.mark(&range);
            let length = (range.end - range.start) as usize;
            file.write_at(&buffer[..length], range.start).await?;
        }
        Job::Flush(range) => flush(file, range).await?,
        Job::Zero {
            range,
            no_hole: true,
        } => {
            export.written.mark(&range);
            write_zeros(file, range, standing).await?;
        }
        Job::Trim(range) | Job::Zero { range, .. } => file.discard(range).await?,
        Job::Prefetch(range) => {
            // More than this is gone again before anybody asks for it, in most caches.
            let end = range.end.min(range.start + u64::from(PAYLOAD_LIMIT_BYTES));
            file.advise(Advice::WillNeed, range.start..end).await?;
        }
        Job::Status { range, one_extent } => {
            return Ok(describe(export, &range, one_extent, buffer));
        }
    }
    Ok(0)
}

async fn read(file: &File, range: Range<u64>, buffer: &mut [u8]) -> Result<usize, Trouble> {
    let length = (range.end - range.start) as usize;
    let done = file.read_at(&mut buffer[..length], range.start).await?;
    // The export has the length that the object had when it was opened; what somebody cut off
    // since reads as zeros.
    buffer[done..length].fill(0);
    Ok(length)
}

/// Syncs, however long it takes, while the store writes on: only one that stands still has failed.
async fn flush(file: &File, range: Range<u64>) -> Result<(), SyncError> {
    let mut left_before = u64::MAX;
    loop {
        match file.sync_range(range.clone()).await {
            Err(SyncError::NotAnswering { pages_left, .. }) if pages_left < left_before => {
                left_before = pages_left;
            }
            result => return result,
        }
    }
}

/// Writes zeros piece by piece. A request may ask for 4 GiB of them, more than a server that ends
/// waits for: between two pieces it then gives up.
async fn write_zeros(file: &File, range: Range<u64>, standing: &Standing) -> Result<(), Trouble> {
    let mut at = range.start;
    while at < range.end {
        if at > range.start && standing.is_draining() {
            return Err(Trouble {
                errno: Errno::Shutdown,
                reason: "the server is ending".into(),
            });
        }
        let length = (range.end - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..length as usize], at).await?;
        at += length;
    }
    Ok(())
}

/// Writes the payload of a status chunk: the context, then a length and flags for each extent, as
/// many as fit.
fn describe(export: &Export, range: &Range<u64>, one_extent: bool, buffer: &mut [u8]) -> usize {
    buffer[..4].copy_from_slice(&ALLOCATION_CONTEXT_ID.to_be_bytes());
    let mut length = 4;
    let mut at = range.start;
    while at < range.end && length + 8 <= buffer.len() && !(one_extent && length > 4) {
        let Extent { end_bytes, is_hole } = export.extent_at(at, range.end);
        let flags = if is_hole {
            extent_flag::HOLE | extent_flag::ZERO
        } else {
            0
        };
        buffer[length..length + 4].copy_from_slice(&((end_bytes - at) as u32).to_be_bytes());
        buffer[length + 4..length + 8].copy_from_slice(&flags.to_be_bytes());
        (length, at) = (length + 8, end_bytes);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    #[test]
    fn a_server_that_ends_gives_long_zeros_up_and_writes_short_ones() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 1 << 20).unwrap();
        let export = Export::new("", file.clone());
        let standing = Standing::new();
        let zero = |pieces: usize| {
            let job = Job::Zero {
                range: 0..(pieces * PIECE_BYTES) as u64,
                no_hole: true,
            };
            let buffer = Buffer::default();
            forebay_rt::block_on(perform(&export, &file, job, buffer, &standing)).outcome
        };
        assert_eq!(zero(4), Ok(0));
        standing.drain();
        assert_eq!(zero(1), Ok(0));
        assert_eq!(zero(2).unwrap_err().errno, Errno::Shutdown);
    }
}
