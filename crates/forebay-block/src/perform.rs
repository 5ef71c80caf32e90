//! Does a piece of work with the cache.

use crate::disk::Disk;
use crate::error::BlockError;
use crate::extents::{EXTENT_BYTES, encode_extent};
use crate::job::{Finished, Job};
use crate::pool::{Buffer, PIECE_BYTES};
use forebay::{Advice, File, SyncError};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use std::ops::Range;

/// Source of the zeros for ranges that must not become a hole.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
/// In most caches, pages beyond this would be evicted before anybody asks for them.
const PREFETCH_LIMIT_BYTES: u64 = 32 << 20;

/// Does `job` on `disk` through `file`, the client's own handle, and gives the buffer back. Once
/// `ending` is set, it stops writing zeros that are written piece by piece.
pub async fn perform(
    disk: &Disk,
    file: &File,
    job: Job,
    mut buffer: Buffer,
    ending: &AtomicBool,
) -> Finished {
    let outcome = attempt(disk, file, job, &mut buffer, ending).await;
    Finished { buffer, outcome }
}

async fn attempt(
    disk: &Disk,
    file: &File,
    job: Job,
    buffer: &mut [u8],
    ending: &AtomicBool,
) -> Result<usize, BlockError> {
    disk.check(&job)?;
    match job {
        Job::Read(range) => return read(file, range, buffer).await,
        Job::Write(range) => {
            disk.mark_written(&range);
            let length = (range.end - range.start) as usize;
            file.write_at(&buffer[..length], range.start).await?;
        }
        Job::Flush(range) => flush(file, range).await?,
        Job::Zero {
            range,
            no_hole: true,
        } => {
            disk.mark_written(&range);
            write_zeros(file, range, ending).await?;
        }
        Job::Trim(range) | Job::Zero { range, .. } => file.discard(range).await?,
        Job::Prefetch(range) => {
            let end = range.end.min(range.start + PREFETCH_LIMIT_BYTES);
            file.advise(Advice::WillNeed, range.start..end).await?;
        }
        Job::Extents { range, most } => return Ok(describe(disk, &range, most, buffer)),
    }
    Ok(0)
}

async fn read(file: &File, range: Range<u64>, buffer: &mut [u8]) -> Result<usize, BlockError> {
    let length = (range.end - range.start) as usize;
    let done = file.read_at(&mut buffer[..length], range.start).await?;
    // The disk has the length that the object had when it was opened. If the object was made
    // shorter since, the missing bytes read as zeros.
    buffer[done..length].fill(0);
    Ok(length)
}

/// Syncs, and waits as long as the store makes progress: the sync has failed only if the store
/// stands still.
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

/// Writes zeros piece by piece. A request may ask for gigabytes of them, too many to wait for when
/// the server ends. So it checks between two pieces whether to give up.
async fn write_zeros(
    file: &File,
    range: Range<u64>,
    ending: &AtomicBool,
) -> Result<(), BlockError> {
    let mut at = range.start;
    while at < range.end {
        if at > range.start && ending.load(Ordering::Relaxed) {
            return Err(BlockError::Ending);
        }
        let length = (range.end - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..length as usize], at).await?;
        at += length;
    }
    Ok(())
}

/// Writes the extents of `range`, at most `most` of them.
fn describe(disk: &Disk, range: &Range<u64>, most: usize, buffer: &mut [u8]) -> usize {
    let (entries, _) = buffer.as_chunks_mut::<EXTENT_BYTES>();
    let mut at = range.start;
    let mut count = 0;
    for entry in entries.iter_mut().take(most) {
        if at >= range.end {
            break;
        }
        let extent = disk.extent_at(at, range.end);
        *entry = encode_extent(extent);
        (count, at) = (count + 1, extent.end_bytes);
    }
    count * EXTENT_BYTES
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
        let disk = Disk::new(cache.open(&store, ObjectId(1), 1 << 20).unwrap());
        let (file, ending) = (disk.handle(), AtomicBool::new(false));
        let zero = |pieces: usize| {
            let job = Job::Zero {
                range: 0..(pieces * PIECE_BYTES) as u64,
                no_hole: true,
            };
            let buffer = Buffer::default();
            forebay_rt::block_on(perform(&disk, &file, job, buffer, &ending)).outcome
        };
        assert_eq!(zero(4), Ok(0));
        ending.store(true, Ordering::Relaxed);
        assert_eq!(zero(1), Ok(0));
        assert_eq!(zero(2), Err(BlockError::Ending));
    }
}
