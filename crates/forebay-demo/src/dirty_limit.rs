//! A limit on the dirty pages that the kernel allows for one device.

use forebay_base::PAGE_BYTES;
use forebay_host::bytes_in;
use std::fs;
use std::path::PathBuf;

/// The limit of one device. It is lifted when this is dropped.
pub(super) struct DirtyLimit {
    folder: PathBuf,
    statistics: PathBuf,
}

impl DirtyLimit {
    /// Allows the device `number`, as `major:minor`, to have `bytes` dirty, whatever else is dirty.
    ///
    /// # Errors
    /// The reason, as a text.
    pub(super) fn set(number: &str, bytes: u64) -> Result<DirtyLimit, String> {
        let folder = PathBuf::from(format!("/sys/class/bdi/{number}"));
        let statistics = PathBuf::from(format!("/sys/kernel/debug/bdi/{number}/stats"));
        let limit = DirtyLimit { folder, statistics };
        limit.put("max_bytes", bytes)?;
        limit.put("strict_limit", 1)?;
        Ok(limit)
    }

    /// Dirty pages of this device alone: other devices may have some too, from a recent build for
    /// example. `None` if the kernel's debugfs is not mounted.
    pub(super) fn dirty_pages(&self) -> Option<u64> {
        dirty_pages_in(&fs::read_to_string(&self.statistics).ok()?)
    }

    fn put(&self, name: &str, value: u64) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, value.to_string())
            .map_err(|refused| format!("cannot set {}: {refused}", path.display()))
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        // A loop device keeps its settings when it is used again.
        let lifted = self.put("strict_limit", 0).and(self.put("max_ratio", 100));
        if let Err(refused) = lifted {
            eprintln!("forebay: {refused}");
        }
    }
}

/// Dirty pages in the statistics of a device, including those under write-back.
fn dirty_pages_in(text: &str) -> Option<u64> {
    let bytes = bytes_in(text, "BdiReclaimable:")? + bytes_in(text, "BdiWriteback:")?;
    Some(bytes / PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_read() {
        let text = "BdiWriteback:     16 kB\nBdiReclaimable:   1024 kB\nBdiDirtyThresh: 7 kB\n";
        assert_eq!(dirty_pages_in(text), Some(260));
        assert_eq!(dirty_pages_in("BdiWriteback: 16 kB\n"), None);
    }
}
