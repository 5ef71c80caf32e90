//! What a file system is like, as data.

use super::borders::page_floor;
use crate::device::figures::{positive, positive_count, positive_size, whole_size};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The file with the figures of the known file systems.
const KNOWN: &str = include_str!("known.toml");

/// What a file system answers when reclaim asks for the write of one page, which only historic
/// policies do (spec/writeback.md 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimAnswer {
    /// It writes the page.
    Always,
    /// It writes for kswapd alone (XFS).
    KswapdOnly,
    /// It writes pages that have a place on the device (ext4, whose allocation is delayed).
    Allocated,
    /// It leaves the page dirty (Btrfs).
    Never,
}

impl From<ReclaimAnswer> for forebay_engine::kernel::ReclaimWrites {
    fn from(answer: ReclaimAnswer) -> forebay_engine::kernel::ReclaimWrites {
        match answer {
            ReclaimAnswer::Always => forebay_engine::kernel::ReclaimWrites::Always,
            ReclaimAnswer::KswapdOnly => forebay_engine::kernel::ReclaimWrites::KswapdOnly,
            ReclaimAnswer::Allocated => forebay_engine::kernel::ReclaimWrites::Allocated,
            ReclaimAnswer::Never => forebay_engine::kernel::ReclaimWrites::Never,
        }
    }
}

/// How a file system lays out files and what its metadata cost.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSettings {
    /// Groups into which the space is divided; the files of a directory are in one as long as it
    /// has room.
    #[serde(deserialize_with = "positive_count")]
    pub groups: u32,
    /// Whether a page gets its place when it is written to the device rather than to the cache.
    pub delays_allocation: bool,
    /// Bytes that a growing file gets at least at a time.
    #[serde(deserialize_with = "positive_size")]
    pub least_allocation_bytes: u64,
    /// Bytes that it gets at most at a time.
    #[serde(deserialize_with = "positive_size")]
    pub largest_allocation_bytes: u64,
    /// Whether a page that is written again gets a new place.
    #[serde(default)]
    pub copies_on_write: bool,
    /// Bytes of the log, a ring in the middle; 0 for none.
    #[serde(deserialize_with = "whole_size")]
    pub log_bytes: u64,
    /// Bytes of a log write.
    #[serde(deserialize_with = "positive_size")]
    pub log_buffer_bytes: u64,
    /// Bytes of the log that the creation or removal of a file takes.
    pub log_of_file_bytes: u64,
    /// Bytes of the log that a change of a file's extents takes.
    pub log_of_extent_bytes: u64,
    /// Bytes of an inode.
    #[serde(deserialize_with = "positive_size")]
    pub inode_bytes: u64,
    /// Bytes of the unit in which inodes are read and written.
    #[serde(deserialize_with = "positive_size")]
    pub inode_cluster_bytes: u64,
    /// How long changed inodes stay in memory.
    #[serde(deserialize_with = "positive")]
    pub metadata_delay_ms: u64,
    /// Bytes that it writes when reclaim asks for the write of one page: that page and the dirty
    /// ones right after it; 0 for that page alone.
    #[serde(default, deserialize_with = "whole_size")]
    pub reclaim_run_bytes: u64,
    /// Bytes that it writes as one at most, so that the writeback of their pages ends together; 0
    /// if each request ends for itself.
    #[serde(default, deserialize_with = "whole_size")]
    pub joined_write_bytes: u64,
    /// Whether reclaim waits for an inode that is not yet written, under policies with
    /// `closed_files=awaited`.
    #[serde(default)]
    pub awaits_inodes: bool,
    /// What it answers when reclaim asks for the write of one page.
    pub reclaim_writes: ReclaimAnswer,
}

impl FileSystemSettings {
    /// The file system `name`: `xfs`, `ext3`, `ext4`, `btrfs`, `ntfs`.
    ///
    /// ```
    /// use forebay_lab::filesystem::{FileSystemSettings, ReclaimAnswer};
    /// let xfs = FileSystemSettings::named("xfs").expect("it is known");
    /// assert_eq!(xfs.reclaim_writes, ReclaimAnswer::KswapdOnly);
    /// assert_eq!(FileSystemSettings::named("zfs"), None);
    /// ```
    pub fn named(name: &str) -> Option<FileSystemSettings> {
        known().remove(name)
    }

    /// The names of the known file systems.
    pub fn names() -> Vec<String> {
        known().into_keys().collect()
    }

    /// Bytes of the log in a file system of `length_bytes`.
    pub(crate) fn log_bytes_in(&self, length_bytes: u64) -> u64 {
        page_floor(self.log_bytes.min(length_bytes / 8))
    }

    /// Inodes of one cluster.
    pub(crate) fn inodes_of_cluster(&self) -> u64 {
        (self.inode_cluster_bytes / self.inode_bytes).max(1)
    }
}

fn known() -> BTreeMap<String, FileSystemSettings> {
    toml::from_str(KNOWN).expect("the table that is built in is well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_system_answers_reclaim_as_its_sources_did() {
        let answers: Vec<_> = FileSystemSettings::names()
            .into_iter()
            .map(|name| {
                let settings = FileSystemSettings::named(&name).expect("it is known");
                (name, settings.reclaim_writes)
            })
            .collect();
        let expected = [
            ("btrfs", ReclaimAnswer::Never),
            ("ext3", ReclaimAnswer::Always),
            ("ext4", ReclaimAnswer::Allocated),
            ("ntfs", ReclaimAnswer::Always),
            ("xfs", ReclaimAnswer::KswapdOnly),
        ];
        assert_eq!(
            answers,
            expected.map(|(name, answer)| (name.into(), answer))
        );
    }
}
