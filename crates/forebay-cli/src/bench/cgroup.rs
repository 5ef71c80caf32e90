//! A memory cgroup for the kernel's contender: the kernel's page cache with the same budget.

use forebay_base::PAGE_BYTES;
use forebay_base::units::show_bytes;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "forebay-bench-";

/// A cgroup that limits memory. Dropping it removes it; its processes must have ended by then.
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Version::One => "v1",
            Version::Two => "v2",
        }
    }
}

impl MemoryGroup {
    /// A cgroup of `memory_bytes`.
    ///
    /// # Errors
    /// Says in words why none can be made here: that is no failure of the bench.
    pub(crate) fn create(memory_bytes: u64) -> Result<MemoryGroup, String> {
        let mounts = read("/proc/self/mounts")?;
        let own = read("/proc/self/cgroup")?;
        let mut reasons = Vec::new();
        for (version, parent) in candidates(&mounts, &own) {
            match MemoryGroup::create_under(&parent, version, memory_bytes) {
                Ok(group) => return Ok(group),
                Err(refused) => reasons.push(format!("{}: {refused}", parent.display())),
            }
        }
        if reasons.is_empty() {
            return Err("no cgroup file system with a memory controller is mounted".to_owned());
        }
        Err(reasons.join("; "))
    }

    fn create_under(parent: &Path, version: Version, memory_bytes: u64) -> io::Result<MemoryGroup> {
        if version == Version::Two {
            fs::write(parent.join("cgroup.subtree_control"), "+memory")?;
        }
        remove_abandoned(parent)?;
        let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)?;
        // From here on a failure removes the folder again.
        let group = MemoryGroup { folder, version };
        let limit = memory_bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        fs::write(group.folder.join(version.limit_file()), limit.to_string())?;
        Ok(group)
    }

    /// Puts the process `id` into the group.
    pub(crate) fn add(&self, id: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), id.to_string())
    }

    /// What a reader of the table must know.
    pub(crate) fn remark(&self, memory_bytes: u64) -> String {
        format!(
            "kernel: its process is in a memory cgroup {} of {}",
            self.version.name(),
            show_bytes(memory_bytes)
        )
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if let Err(refused) = fs::remove_dir(&self.folder) {
            eprintln!(
                "forebay: cannot remove {}: {refused}",
                self.folder.display()
            );
        }
    }
}

/// Dirty pages and pages being written of the group of this process, or of the machine where it
/// is in none of its own.
pub(crate) fn own_dirty_pages() -> Option<u64> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (version, folder) = candidates(&mounts, &own).into_iter().next()?;
    let text = fs::read_to_string(folder.join("memory.stat")).ok()?;
    let names = match version {
        Version::One => ["dirty", "writeback"],
        Version::Two => ["file_dirty", "file_writeback"],
    };
    let of = |name| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(' ')?.trim().parse().ok()
    };
    Some((of(names[0])? + of(names[1])?) / PAGE_BYTES as u64)
}

/// Removes the groups in `parent` whose bench was killed: nobody has its number any more.
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

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|refused| format!("cannot read {path}: {refused}"))
}

/// Where a group can be tried: under the group this process is in, then at the top.
fn candidates(mounts: &str, own: &str) -> Vec<(Version, PathBuf)> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, folder, kind, options, ..] = words[..] else {
            continue;
        };
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            "cgroup2" if has_memory_controller(Path::new(folder)) => Version::Two,
            _ => continue,
        };
        let top = Path::new(folder);
        if let Some(path) = own_path(own, version) {
            let inside = path.trim_start_matches('/');
            if !inside.is_empty() && top.join(inside).is_dir() {
                found.push((version, top.join(inside)));
            }
        }
        found.push((version, top.to_owned()));
    }
    found
}

fn has_memory_controller(top: &Path) -> bool {
    fs::read_to_string(top.join("cgroup.controllers"))
        .is_ok_and(|names| names.split_ascii_whitespace().any(|name| name == "memory"))
}

/// The path of the own group in the hierarchy of `version`, from `/proc/self/cgroup`.
fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        matches.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "9:name=systemd:/\n4:cpu,memory:/a/b:c\n0::/user.slice\n";

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        assert_eq!(own_path(OWN, Version::One), Some("/a/b:c"));
        assert_eq!(own_path(OWN, Version::Two), Some("/user.slice"));
        assert_eq!(own_path("1:cpu:/x\n", Version::One), None);
    }

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

    #[test]
    fn only_hierarchies_with_a_memory_controller_are_tried() {
        let mounts = "cgroup /nowhere/cpu cgroup rw,cpu 0 0\n\
                      cgroup /nowhere/memory cgroup rw,memory 0 0\n\
                      cgroup2 /nowhere/unified cgroup2 rw 0 0\n";
        let expected = vec![(Version::One, PathBuf::from("/nowhere/memory"))];
        assert_eq!(candidates(mounts, OWN), expected);
        assert!(candidates("proc /proc proc rw 0 0\n", OWN).is_empty());
    }
}
