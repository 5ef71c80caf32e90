//! The memory cgroups of this process: their folders, and the room that their limits leave.

use std::fs;
use std::path::{Path, PathBuf};

/// The two interfaces of the kernel's memory cgroups. Their files have different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all of them.
    Two,
}

impl Version {
    /// The file that holds the limit of a group.
    pub fn limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// Its short name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Version::One => "v1",
            Version::Two => "v2",
        }
    }

    fn usage_file(self) -> &'static str {
        match self {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        }
    }

    /// The part of a group's memory that it can give up before it is short, as `memory.stat` calls
    /// it.
    fn cold_files(self) -> &'static str {
        match self {
            Version::One => "total_inactive_file",
            Version::Two => "inactive_file",
        }
    }
}

/// A memory cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its folder in the cgroup file system.
    pub folder: PathBuf,
    /// The interface that its files follow.
    pub version: Version,
}

impl Group {
    /// The value of `name` in the group's `memory.stat`.
    pub fn statistic(&self, name: &str) -> Option<u64> {
        statistic_in(&self.statistics()?, name)
    }

    /// The text of the group's `memory.stat`.
    fn statistics(&self) -> Option<String> {
        self.text_of("memory.stat")
    }

    /// How much more the group's processes can take before its limit is reached; `None` without a
    /// limit.
    fn available_bytes(&self) -> Option<u64> {
        let limit_bytes = self.limit_bytes()?;
        let used_bytes = self.used_bytes()?;
        let cold_bytes = self.statistic(self.version.cold_files()).unwrap_or(0);
        Some(limit_bytes.saturating_sub(used_bytes.saturating_sub(cold_bytes)))
    }

    /// The limit of the group's processes, or the mark from which they are slowed if that is lower;
    /// `None` without a limit.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_in(&mut |file| self.text_of(file))
    }

    /// The same by the texts that `read` finds in the group's files.
    pub fn limit_in(&self, read: &mut ReadGroup<'_>) -> Option<u64> {
        let limit_bytes = number(read(self.version.limit_file()));
        let high_bytes = match self.version {
            Version::One => None,
            Version::Two => number(read("memory.high")),
        };
        limit_bytes.into_iter().chain(high_bytes).min()
    }

    /// What the group's processes use, file pages of the kernel included.
    fn used_bytes(&self) -> Option<u64> {
        self.used_in(&mut |file| self.text_of(file))
    }

    /// The same by the text that `read` finds.
    pub fn used_in(&self, read: &mut ReadGroup<'_>) -> Option<u64> {
        number(read(self.version.usage_file()))
    }

    /// The file pages among that which the kernel can give up at once, by the text that `read`
    /// finds.
    pub fn clean_file_bytes(&self, read: &mut ReadGroup<'_>) -> u64 {
        let names = match self.version {
            Version::One => [
                "total_inactive_file",
                "total_active_file",
                "total_dirty",
                "total_writeback",
            ],
            Version::Two => [
                "inactive_file",
                "active_file",
                "file_dirty",
                "file_writeback",
            ],
        };
        // Read once: the kernel adds it up at each read.
        let text = read("memory.stat").unwrap_or_default();
        let [inactive, active, dirty, writeback] =
            names.map(|name| statistic_in(&text, name).unwrap_or(0));
        (inactive + active).saturating_sub(dirty + writeback)
    }

    fn text_of(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok()
    }
}

/// Finds the text of a group's file, if there is one.
pub type ReadGroup<'a> = dyn FnMut(&'static str) -> Option<String> + 'a;

fn number(text: Option<String>) -> Option<u64> {
    text?.trim().parse().ok()
}

/// The value of `name` in the text of a `memory.stat`.
fn statistic_in(text: &str, name: &str) -> Option<u64> {
    let value_of = |line: &str| {
        let value = line.strip_prefix(name)?.strip_prefix(' ')?;
        value.trim().parse().ok()
    };
    text.lines().find_map(value_of)
}

/// The memory cgroups that this process is in, the innermost first.
///
/// # Errors
/// What cannot be read, as a text.
pub fn own_groups() -> Result<Vec<Group>, String> {
    let mounts = read("/proc/self/mounts")?;
    let own = read(OWN_GROUPS)?;
    Ok(groups_in(&mounts, &own))
}

/// The groups of a process that finds `own` in [`OWN_GROUPS`]; none if the mounts cannot be read.
pub fn groups_of(own: &str) -> Vec<Group> {
    read("/proc/self/mounts").map_or_else(|_| Vec::new(), |mounts| groups_in(&mounts, own))
}

/// Where the kernel says which groups the process is in.
pub const OWN_GROUPS: &str = "/proc/self/cgroup";

/// The least room that the limits of this process's groups leave; `None` without a limit.
pub fn available_bytes() -> Option<u64> {
    let groups = own_groups().ok()?;
    groups.iter().filter_map(Group::available_bytes).min()
}

/// The least limit of this process's groups; `None` without a limit.
pub fn limit_bytes() -> Option<u64> {
    let groups = own_groups().ok()?;
    groups.iter().filter_map(Group::limit_bytes).min()
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|refused| format!("cannot read {path}: {refused}"))
}

/// The root of the version 1 hierarchy of `controller`, if one is mounted.
///
/// # Errors
/// What cannot be read, as a text.
pub fn top_of(controller: &str) -> Result<Option<PathBuf>, String> {
    Ok(top_in(&read("/proc/self/mounts")?, controller))
}

fn top_in(mounts: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (folder, kind, options) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup" && names(options, controller)).then(|| folder.into())
    })
}

/// Whether `controller` is in a comma-separated list.
fn names(list: &str, controller: &str) -> bool {
    list.split(',').any(|name| name == controller)
}

/// For each hierarchy the process's own group, then the groups that contain it.
pub fn groups_in(mounts: &str, own: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, folder, kind, options, ..] = words[..] else {
            continue;
        };
        let version = match kind {
            "cgroup" if names(options, "memory") => Version::One,
            "cgroup2" if has_memory_controller(Path::new(folder)) => Version::Two,
            _ => continue,
        };
        let top = Path::new(folder);
        // A container may see its group at the root, under the path that it has on the host.
        let inside = own_path(own, version).map_or("", |path| path.trim_start_matches('/'));
        let innermost = Some(top.join(inside)).filter(|folder| folder.is_dir());
        let innermost = innermost.unwrap_or_else(|| top.to_owned());
        let folders = innermost.ancestors().take_while(|it| it.starts_with(top));
        found.extend(folders.map(|folder| Group {
            folder: folder.to_owned(),
            version,
        }));
    }
    found
}

fn has_memory_controller(top: &Path) -> bool {
    fs::read_to_string(top.join("cgroup.controllers"))
        .is_ok_and(|names| names.split_ascii_whitespace().any(|name| name == "memory"))
}

/// The path of the process's own group in the hierarchy of `version`, from `/proc/self/cgroup`.
fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let matches = match version {
            Version::One => names(controllers, "memory"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        matches.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "9:name=systemd:/\n4:cpu,memory:/a/b:c\n0::/user.slice\n";

    fn group(folder: &Path, version: Version) -> Group {
        Group {
            folder: folder.to_owned(),
            version,
        }
    }

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        assert_eq!(own_path(OWN, Version::One), Some("/a/b:c"));
        assert_eq!(own_path(OWN, Version::Two), Some("/user.slice"));
        assert_eq!(own_path("1:cpu:/x\n", Version::One), None);
    }

    #[test]
    fn only_hierarchies_with_a_memory_controller_count() {
        let mounts = "cgroup /nowhere/cpu cgroup rw,cpu 0 0\n\
                      cgroup /nowhere/memory cgroup rw,memory 0 0\n\
                      cgroup2 /nowhere/unified cgroup2 rw 0 0\n";
        let expected = vec![group(Path::new("/nowhere/memory"), Version::One)];
        assert_eq!(groups_in(mounts, OWN), expected);
        assert!(groups_in("proc /proc proc rw 0 0\n", OWN).is_empty());
    }

    #[test]
    fn the_top_of_a_hierarchy_is_where_its_controller_is_mounted() {
        let mounts = "cgroup /c/cpu cgroup rw,cpu,cpuacct 0 0\n\
                      blkio /c/no tmpfs rw,blkio 0 0\ncgroup /c/blkio cgroup rw,blkio 0 0\n";
        assert_eq!(top_in(mounts, "blkio"), Some("/c/blkio".into()));
        assert_eq!(top_in(mounts, "memory"), None);
    }

    #[test]
    fn a_group_comes_before_those_that_it_lies_in() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner) = (top.path().join("a"), top.path().join("a/b:c"));
        fs::create_dir_all(&inner).unwrap();
        let mounts = format!("x {} cgroup rw,memory 0 0\n", top.path().display());
        let expected = [&inner, &outer, top.path()].map(|folder| group(folder, Version::One));
        assert_eq!(groups_in(&mounts, OWN), expected);
    }

    #[test]
    fn what_a_limit_leaves_counts_cold_files_as_free() {
        let files = [
            (Version::One, "memory.limit_in_bytes", "1000\n"),
            (Version::One, "memory.usage_in_bytes", "700\n"),
            (Version::Two, "memory.max", "1000\n"),
            (Version::Two, "memory.current", "700\n"),
        ];
        for version in [Version::One, Version::Two] {
            let folder = tempfile::tempdir().unwrap();
            let group = group(folder.path(), version);
            assert_eq!(group.available_bytes(), None, "there are no files");
            for (_, name, text) in files.iter().filter(|(of, ..)| *of == version) {
                fs::write(folder.path().join(name), text).unwrap();
            }
            assert_eq!(group.available_bytes(), Some(300));
            let statistics = "inactive_file 100\ntotal_inactive_file 100\n";
            fs::write(folder.path().join("memory.stat"), statistics).unwrap();
            assert_eq!(group.available_bytes(), Some(400));
            fs::write(folder.path().join(version.limit_file()), "max\n").unwrap();
            assert_eq!(group.available_bytes(), None, "there is no limit");
        }
    }
}
