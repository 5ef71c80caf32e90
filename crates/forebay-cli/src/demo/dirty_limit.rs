//! A limit on what the kernel lets be dirty for one device.

use forebay_base::PAGE_BYTES;
use std::fs;
use std::path::PathBuf;

/// The limit of one device, which is removed with the device.
pub(super) struct DirtyLimit {
    folder: PathBuf,
}

impl DirtyLimit {
    /// Lets the device `number`, as `major:minor`, have `bytes` dirty, whatever else is dirty.
    ///
    /// # Errors
    /// Says in words why not.
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
        // A loop device keeps what was set when it is used again.
        let lifted = self.put("strict_limit", 0).and(self.put("max_ratio", 100));
        if let Err(refused) = lifted {
            eprintln!("forebay: {refused}");
        }
    }
}

/// Dirty pages of the machine, those on their way included; 0 where the kernel does not say.
pub(super) fn dirty_pages() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    dirty_kib(&text) * 1024 / PAGE_BYTES as u64
}

fn dirty_kib(text: &str) -> u64 {
    let kib = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let number = lines.next()?.split_whitespace().next()?;
        number.parse::<u64>().ok()
    };
    kib("Dirty:").unwrap_or(0) + kib("Writeback:").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_read() {
        let text = "MemTotal: 9 kB\nDirty:   12 kB\nWriteback:  4 kB\nWritebackTmp: 7 kB\n";
        assert_eq!(dirty_kib(text), 16);
        assert_eq!(dirty_kib(""), 0);
    }
}
