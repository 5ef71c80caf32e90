//! Reading a folder, from any place where the kernel wants to go on.

use crate::fd_cache::InodeFd;
use forebay_base::sync::{Mutex, lock};
use rustix::fd::OwnedFd;
use rustix::fs::{RawDir, RawDirEntry, SeekFrom};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Entries that are asked for at a time, bytes.
const BATCH_BYTES: usize = 16 << 10;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Directory {
    /// So that its names are found even after it was moved in the source.
    pub(crate) held: InodeFd,
    stream: Mutex<Stream>,
}

/// The folder as it is read.
#[derive(Debug)]
struct Stream {
    fd: OwnedFd,
    /// Entries that were read one after the other from the beginning, and where the next one is.
    /// None if a reader left that way.
    counted: Option<(u32, u64)>,
}

/// Whether a reply has room for more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    Full,
}

impl Directory {
    /// `fd` is the folder `held`, opened for reading.
    pub(crate) fn new(held: InodeFd, fd: OwnedFd) -> Directory {
        Directory {
            held,
            stream: Mutex::new(Stream { fd, counted: None }),
        }
    }

    /// Passes the entries after `offset` to `visit`, until that is full or there are no more.
    pub(crate) fn walk(
        &self,
        offset: u64,
        mut visit: impl FnMut(&RawDirEntry<'_>) -> Room,
    ) -> Result<(), Errno> {
        let mut stream = lock(&self.stream);
        let (mut counted, mut next) = match stream.counted.take() {
            _ if offset == 0 => (0, 0),
            Some((counted, next)) if next == offset => (counted, next),
            _ => (u32::MAX, offset),
        };
        rustix::fs::seek(&stream.fd, SeekFrom::Start(offset))?;
        let mut buffer = [MaybeUninit::uninit(); BATCH_BYTES];
        let mut entries = RawDir::new(&stream.fd, &mut buffer);
        let mut is_whole = true;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if visit(&entry) == Room::Full {
                is_whole = false;
                break;
            }
            (counted, next) = (counted.saturating_add(1), entry.next_entry_cookie());
        }
        if counted < u32::MAX {
            stream.counted = Some((counted, next));
            if is_whole {
                self.held.listing.was_read(counted);
            }
        }
        Ok(())
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        rustix::fs::fsync(&lock(&self.stream).fd)
    }
}
