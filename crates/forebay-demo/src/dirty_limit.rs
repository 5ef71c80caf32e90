//! A limit on the dirty pages that the kernel allows for one device.

use std::fs;
use std::path::PathBuf;

/// The limit of one device. It is lifted when this is dropped.
pub(super) struct DirtyLimit {
    folder: PathBuf,
}

impl DirtyLimit {
    /// Allows the device `number`, as `major:minor`, to have `bytes` dirty, whatever else is dirty.
    ///
    /// # Errors
    /// The reason, as a text.
    pub(super) fn set(number: &str, bytes: u64) -> Result<DirtyLimit, String> {
        let folder = PathBuf::from(format!("/sys/class/bdi/{number}"));
        let limit = DirtyLimit { folder };
        limit.put("max_bytes", bytes)?;
        limit.put("strict_limit", 1)?;
        Ok(limit)
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
