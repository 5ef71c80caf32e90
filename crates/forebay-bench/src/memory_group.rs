//! A memory cgroup for the kernel's contender, so that the kernel's page cache has the same budget.

use forebay_base::PAGE_BYTES;
use forebay_base::units::show_bytes;
use forebay_host::cgroup::{Group, Version, own_groups};
use std::fs;
use std::io;
use std::path::Path;

const PREFIX: &str = "forebay-bench-";

/// A cgroup that limits memory. Dropping it removes it; its processes must have ended by then.
pub(crate) struct MemoryGroup(Group);

impl MemoryGroup {
    /// A cgroup of `memory_bytes`.
    ///
    /// # Errors
    /// The reason why none can be made here, as a text. That is not a failure of the bench.
    pub(crate) fn create(memory_bytes: u64) -> Result<MemoryGroup, String> {
        let mut reasons = Vec::new();
        for parent in own_groups()? {
            match MemoryGroup::create_under(&parent, memory_bytes) {
                Ok(group) => return Ok(group),
                Err(refused) => reasons.push(format!("{}: {refused}", parent.folder.display())),
            }
        }
        if reasons.is_empty() {
            return Err("no cgroup file system with a memory controller is mounted".to_owned());
        }
        Err(reasons.join("; "))
    }

    fn create_under(parent: &Group, memory_bytes: u64) -> io::Result<MemoryGroup> {
        let version = parent.version;
        if version == Version::Two {
            fs::write(parent.folder.join("cgroup.subtree_control"), "+memory")?;
        }
        remove_abandoned(&parent.folder)?;
        let folder = parent
            .folder
            .join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)?;
        // From here on, a failure removes the folder again.
        let group = MemoryGroup(Group { folder, version });
        let limit = memory_bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        fs::write(group.0.folder.join(version.limit_file()), limit.to_string())?;
        Ok(group)
    }

    /// Puts the process `id` into the group.
    pub(crate) fn add(&self, id: u32) -> io::Result<()> {
        fs::write(self.0.folder.join("cgroup.procs"), id.to_string())
    }

    /// A note for the readers of the table.
    pub(crate) fn remark(&self, memory_bytes: u64) -> String {
        format!(
            "kernel: its process is in a memory cgroup {} of {}",
            self.0.version.name(),
            show_bytes(memory_bytes)
        )
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if let Err(refused) = fs::remove_dir(&self.0.folder) {
            eprintln!(
                "forebay: cannot remove {}: {refused}",
                self.0.folder.display()
            );
        }
    }
}

/// Dirty pages and pages under writeback of this process's own group, or of the machine if it has
/// no group of its own.
pub(crate) fn own_dirty_pages() -> Option<u64> {
    let group = own_groups().ok()?.into_iter().next()?;
    let names = match group.version {
        Version::One => ["dirty", "writeback"],
        Version::Two => ["file_dirty", "file_writeback"],
    };
    let [dirty, writeback] = names.map(|name| group.statistic(name));
    Some((dirty? + writeback?) / PAGE_BYTES as u64)
}

/// Removes the groups in `parent` whose bench was killed: no process has its number any more.
fn remove_abandoned(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let is_gone = id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists();
        if is_gone && let Err(refused) = fs::remove_dir(entry.path()) {
            eprintln!(
                "forebay: cannot remove {}: {refused}",
                entry.path().display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_benches_that_are_gone_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let gone = make(format!("{PREFIX}{}", u32::MAX));
        let alive = make(format!("{PREFIX}{}", std::process::id()));
        let foreign = make(format!("{PREFIX}notes"));
        remove_abandoned(parent.path()).unwrap();
        assert!(!gone.exists() && alive.exists() && foreign.exists());
    }
}
