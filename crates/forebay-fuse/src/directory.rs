//! Reading a folder, from any place where the kernel wants to go on.

use crate::held::Held;
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
    pub(crate) held: Held,
    stream: Mutex<OwnedFd>,
}

/// Whether a reply has room for more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    Full,
}

impl Directory {
    /// `fd` is the folder `held`, opened for reading.
    pub(crate) fn new(held: Held, fd: OwnedFd) -> Directory {
        Directory {
            held,
            stream: Mutex::new(fd),
        }
    }

    /// Passes the entries after `offset` to `visit`, until that is full or there are no more.
    pub(crate) fn walk(
        &self,
        offset: u64,
        mut visit: impl FnMut(&RawDirEntry<'_>) -> Room,
    ) -> Result<(), Errno> {
        let stream = lock(&self.stream);
        rustix::fs::seek(&*stream, SeekFrom::Start(offset))?;
        let mut buffer = [MaybeUninit::uninit(); BATCH_BYTES];
        let mut entries = RawDir::new(&*stream, &mut buffer);
        while let Some(entry) = entries.next() {
            if visit(&entry?) == Room::Full {
                break;
            }
        }
        Ok(())
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        rustix::fs::fsync(&*lock(&self.stream))
    }
}
