//! The log and the inodes of a file system: the cost of metadata for the device.

use super::borders::page_ceiling;
use super::settings::FileSystemSettings;
use forebay_base::sync::Arc;
use forebay_rt::wait::Gate;
use forebay_store::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Inode clusters that differ from the device, by address, and whose inodes do.
    changed: BTreeMap<u64, BTreeSet<ObjectId>>,
    /// Clusters that are being written.
    writing: BTreeMap<u64, Writing>,
    /// Whether somebody writes what is changed some time later.
    is_armed: bool,
    cluster_bytes: u64,
}

/// A cluster that is being written.
#[derive(Debug)]
struct Writing {
    /// It opens when the last write has ended.
    gate: Arc<Gate>,
    /// The files whose inodes that changes on the device.
    files: BTreeSet<ObjectId>,
}

/// Which changed clusters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All of them.
    All,
    /// Those that are not being written already.
    Idle,
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
            changed: BTreeMap::new(),
            writing: BTreeMap::new(),
            is_armed: false,
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

    /// The inode of `file` in the cluster at `cluster` was changed.
    pub(crate) fn change(&mut self, cluster: u64, file: ObjectId) {
        self.changed.entry(cluster).or_default().insert(file);
    }

    /// The inode of `file` is as it has always been.
    pub(crate) fn forget_change(&mut self, cluster: u64, file: ObjectId) {
        if let Some(files) = self.changed.get_mut(&cluster) {
            files.remove(&file);
            if files.is_empty() {
                self.changed.remove(&cluster);
            }
        }
    }

    /// Whether inodes are changed and nobody writes them later. From now on somebody does.
    pub(crate) fn arms(&mut self) -> bool {
        let arms = !self.is_armed && !self.changed.is_empty();
        self.is_armed |= arms;
        arms
    }

    /// The time has come to write what is changed.
    pub(crate) fn disarm(&mut self) {
        self.is_armed = false;
    }

    /// The changed clusters, in order of address, which have to be written now, each with the gate
    /// that opens when it is.
    pub(crate) fn take_changed(&mut self, which: Which) -> Vec<(Range, Arc<Gate>)> {
        let mut begun = Vec::new();
        for (cluster, mut files) in std::mem::take(&mut self.changed) {
            let before = self.writing.remove(&cluster);
            if let Some(before) = before {
                if which == Which::Idle {
                    self.writing.insert(cluster, before);
                    self.changed.insert(cluster, files);
                    continue;
                }
                files.extend(before.files);
            }
            let gate = Arc::new(Gate::new(false));
            begun.push(((cluster, self.cluster_bytes), Arc::clone(&gate)));
            self.writing.insert(cluster, Writing { gate, files });
        }
        begun
    }

    /// The write of a cluster has ended. A later one of the same cluster may be under way.
    pub(crate) fn written(&mut self, cluster: u64, gate: &Arc<Gate>) {
        if let Some(last) = self.writing.get(&cluster)
            && Arc::ptr_eq(&last.gate, gate)
        {
            self.writing.remove(&cluster);
        }
    }

    /// What has to be waited for before the inode of `file` is on the device, or can be written.
    pub(crate) fn unwritten(&self, cluster: u64, file: ObjectId) -> Option<Arc<Gate>> {
        let writing = self.writing.get(&cluster)?;
        let changed = self.changed.get(&cluster);
        let is_meant =
            writing.files.contains(&file) || changed.is_some_and(|files| files.contains(&file));
        is_meant.then(|| Arc::clone(&writing.gate))
    }
}
