//! What the kernel has open, by the numbers of the handles, and what that keeps from being closed.

use crate::content::Content;
use crate::directory::Directory;
use crate::inode::Inode;
use forebay::blocking::File;
use forebay_base::sync::{Arc, Mutex, lock};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What is done with a content that has no users any more.
pub(crate) trait Closing: Debug + Send + Sync {
    fn content_closed(self: Arc<Self>, inode: &Arc<Inode>, content: &Content);
}

/// A user of a content: the content is not closed before this is dropped.
#[derive(Debug)]
pub(crate) struct ContentUse {
    pub(crate) closing: Arc<dyn Closing>,
    pub(crate) inode: Arc<Inode>,
    pub(crate) content: Arc<Content>,
}

impl Drop for ContentUse {
    fn drop(&mut self) {
        let is_last = self.inode.content.with(|slot| {
            slot.users -= 1;
            if slot.users == 0 {
                // Under the lock, or it would forget pages that the kernel fetched for the next
                // user.
                self.content.kernel_pages.closed();
            }
            slot.users == 0
        });
        if is_last {
            // The kernel has seen each write and cut.
            self.inode.record_reported_length(self.content.file.len());
            self.closing
                .clone()
                .content_closed(&self.inode, &self.content);
        }
    }
}

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) used: ContentUse,
    /// A handle of its own: its own readahead, throttling and view of errors.
    pub(crate) file: File,
    /// It was opened for writing: closing a handle that only reads reports no failed write.
    pub(crate) is_writable: bool,
}

/// A file that is open in the source alone.
#[derive(Debug)]
pub(crate) struct PassedFile {
    pub(crate) fd: OwnedFd,
    pub(crate) appends: bool,
}

impl PassedFile {
    /// Reads into `buffer` and returns how much of it was filled.
    pub(crate) fn read(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize, Errno> {
        rustix::io::pread(&self.fd, buffer, offset_bytes)
    }

    /// Writes all of `bytes`, at the end if that is how it was opened.
    pub(crate) fn write(&self, bytes: &[u8], offset_bytes: u64) -> Result<usize, Errno> {
        if self.appends {
            rustix::io::write(&self.fd, bytes)
        } else {
            rustix::io::pwrite(&self.fd, bytes, offset_bytes)
        }
    }

    /// Makes what was written durable: the bytes and the length alone if `data_only`.
    pub(crate) fn sync(&self, data_only: bool) -> Result<(), Errno> {
        if data_only {
            rustix::fs::fdatasync(&self.fd)
        } else {
            rustix::fs::fsync(&self.fd)
        }
    }

    /// Gives a range room, takes it away, or makes it zeros.
    pub(crate) fn allocate(&self, mode: i32, range: std::ops::Range<u64>) -> Result<(), Errno> {
        let flags = FallocateFlags::from_bits(mode as u32).ok_or(Errno::OPNOTSUPP)?;
        let length_bytes = range.end.saturating_sub(range.start);
        rustix::fs::fallocate(&self.fd, flags, range.start, length_bytes)
    }

    /// The next data or hole.
    pub(crate) fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        rustix::fs::seek(&self.fd, to)
    }
}

/// Something open.
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    File(Arc<OpenFile>),
    Passed(Arc<PassedFile>),
    Directory(Arc<Directory>),
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct HandleTable {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: BTreeMap<u64, Handle>,
    last: u64,
}

impl HandleTable {
    /// Puts a handle in and returns its number, which is not used again.
    pub(crate) fn insert(&self, handle: Handle) -> u64 {
        let mut table = lock(&self.table);
        table.last += 1;
        let number = table.last;
        table.open.insert(number, handle);
        number
    }

    /// The open file with the number `number`.
    pub(crate) fn file(&self, number: u64) -> Option<Arc<OpenFile>> {
        match lock(&self.table).open.get(&number) {
            Some(Handle::File(file)) => Some(file.clone()),
            _ => None,
        }
    }

    /// The open file with the number `number` that passes by the cache.
    pub(crate) fn passed(&self, number: u64) -> Option<Arc<PassedFile>> {
        match lock(&self.table).open.get(&number) {
            Some(Handle::Passed(file)) => Some(file.clone()),
            _ => None,
        }
    }

    /// The open folder with the number `number`.
    pub(crate) fn directory(&self, number: u64) -> Option<Arc<Directory>> {
        match lock(&self.table).open.get(&number) {
            Some(Handle::Directory(directory)) => Some(directory.clone()),
            _ => None,
        }
    }

    /// Takes out all handles.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = Handle> + use<> {
        std::mem::take(&mut lock(&self.table).open).into_values()
    }

    /// Takes a handle out.
    pub(crate) fn remove(&self, number: u64) -> Option<Handle> {
        lock(&self.table).open.remove(&number)
    }
}
