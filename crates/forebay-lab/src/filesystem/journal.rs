//! The log and the inodes of a file system: the cost of metadata for the device.

use super::borders::page_ceiling;
use super::settings::FileSystemSettings;
use std::collections::BTreeSet;

/// A range of the device.
pub(crate) type Range = (u64, u64);

/// The log's ring and the inodes that were changed.
#[derive(Debug)]
pub(crate) struct Journal {
    start_bytes: u64,
    length_bytes: u64,
    buffer_bytes: u64,
    /// Where in the ring the next log write goes.
    head_bytes: u64,
    /// Bytes that wait for a log write.
    pending_bytes: u64,
    /// Inode clusters that differ from the device, by address.
    changed: BTreeSet<u64>,
    cluster_bytes: u64,
}

impl Journal {
    /// An empty log in `length_bytes` of the device from `start_bytes` on.
    pub(crate) fn new(start_bytes: u64, length_bytes: u64, settings: &FileSystemSettings) -> Self {
        Journal {
            start_bytes,
            length_bytes,
            buffer_bytes: page_ceiling(settings.log_buffer_bytes),
            head_bytes: 0,
            pending_bytes: 0,
            changed: BTreeSet::new(),
            cluster_bytes: settings.inode_cluster_bytes,
        }
    }

    /// Adds `bytes` to the log; the full buffers that have to be written now go to `writes`.
    pub(crate) fn note(&mut self, bytes: u64, writes: &mut Vec<Range>) {
        if self.length_bytes == 0 {
            return;
        }
        self.pending_bytes += bytes;
        while self.pending_bytes >= self.buffer_bytes {
            self.pending_bytes -= self.buffer_bytes;
            writes.push(self.next_write(self.buffer_bytes));
        }
    }

    /// Everything that waits has to be written now.
    pub(crate) fn force(&mut self) -> Option<Range> {
        if self.pending_bytes == 0 {
            return None;
        }
        let bytes = page_ceiling(self.pending_bytes);
        self.pending_bytes = 0;
        Some(self.next_write(bytes))
    }

    fn next_write(&mut self, bytes: u64) -> Range {
        let bytes = bytes.min(self.length_bytes);
        if self.head_bytes + bytes > self.length_bytes {
            self.head_bytes = 0;
        }
        let start = self.start_bytes + self.head_bytes;
        self.head_bytes += bytes;
        (start, bytes)
    }

    /// The inode cluster at `cluster` was changed. Returns whether it is the first.
    pub(crate) fn change(&mut self, cluster: u64) -> bool {
        let is_first = self.changed.is_empty();
        self.changed.insert(cluster);
        is_first
    }

    /// The changed clusters, in order of address, which have to be written now.
    pub(crate) fn take_changed(&mut self) -> Vec<Range> {
        let changed = std::mem::take(&mut self.changed);
        let bytes = self.cluster_bytes;
        changed.into_iter().map(|start| (start, bytes)).collect()
    }
}
