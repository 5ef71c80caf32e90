//! What the kernel has open, by the numbers of the handles.

use crate::contents::ContentUse;
use crate::directory::Directory;
use crate::passed::PassedFile;
use forebay::blocking::File;
use forebay_base::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) used: ContentUse,
    /// A handle of its own: its own readahead, throttling and view of errors.
    pub(crate) file: File,
    /// It was opened for writing: closing a handle that only reads reports no failed write.
    pub(crate) is_writable: bool,
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

    /// Takes a handle out.
    pub(crate) fn remove(&self, number: u64) -> Option<Handle> {
        lock(&self.table).open.remove(&number)
    }
}
