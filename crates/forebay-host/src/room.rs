//! What other programs can still take, and where the kernel reports pressure.

use super::bytes_in;
use super::cgroup::{Group, OWN_GROUPS, ReadGroup, groups_of, own_groups};
use super::kept::Kept;
use std::fs;
use std::path::{Path, PathBuf};

/// What other programs can take before the machine or a memory cgroup of this process is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes, if the kernel gives up its file pages. Dirty ones are not counted.
    pub headroom_bytes: u64,
    /// Bytes, if it keeps them all.
    pub free_bytes: u64,
    /// Whether a group has less than the machine.
    pub is_of_group: bool,
}

/// Looks at the room again and again. The files that it needs for that stay open.
#[derive(Debug)]
pub struct Sight {
    meminfo: Kept,
    /// A process may be moved to another group at any time.
    own: Kept,
    own_text: Option<String>,
    groups: Vec<(Group, Vec<(&'static str, Kept)>)>,
}

impl Default for Sight {
    fn default() -> Sight {
        Sight::new()
    }
}

impl Sight {
    /// Nothing was looked at yet.
    pub fn new() -> Sight {
        Sight {
            meminfo: Kept::new("/proc/meminfo"),
            own: Kept::new(OWN_GROUPS),
            own_text: None,
            groups: Vec::new(),
        }
    }

    /// The room now; `None` if the system reports neither the machine's nor a group's. Of a group
    /// in which `enough_bytes` are free the file pages are not counted, because the kernel would
    /// have to add them up.
    ///
    /// ```
    /// let mut sight = forebay_host::Sight::new();
    /// let whole = sight.room(u64::MAX).map(|room| room.headroom_bytes);
    /// assert_eq!(whole.is_some(), sight.room(1 << 30).is_some());
    /// ```
    pub fn room(&mut self, enough_bytes: u64) -> Option<Room> {
        let own = self.own.text();
        if own != self.own_text {
            let groups = own.as_deref().map_or_else(Vec::new, groups_of);
            self.groups = groups
                .into_iter()
                .map(|group| (group, Vec::new()))
                .collect();
            self.own_text = own;
        }
        let machine = self.meminfo.text().and_then(|text| of_machine(&text));
        let most_bytes = machine.map_or(u64::MAX, |machine| machine.headroom_bytes);
        let rooms = self.groups.iter_mut().filter_map(|(group, files)| {
            let folder = group.folder.clone();
            let read = &mut |name| text_of(files, &folder, name);
            of_group(group, most_bytes, enough_bytes, read)
        });
        least(machine, rooms)
    }
}

/// The text of the file `name` in `folder`, which is one of `files` from now on.
fn text_of(
    files: &mut Vec<(&'static str, Kept)>,
    folder: &Path,
    name: &'static str,
) -> Option<String> {
    let at = files.iter().position(|(of, _)| *of == name);
    let at = at.unwrap_or_else(|| {
        files.push((name, Kept::new(folder.join(name))));
        files.len() - 1
    });
    files[at].1.text()
}

fn least(machine: Option<Room>, groups: impl Iterator<Item = Room>) -> Option<Room> {
    let all = machine.into_iter().chain(groups);
    all.reduce(|one, other| {
        let tighter = if other.headroom_bytes < one.headroom_bytes {
            other
        } else {
            one
        };
        Room {
            free_bytes: one.free_bytes.min(other.free_bytes),
            ..tighter
        }
    })
}

fn of_machine(meminfo: &str) -> Option<Room> {
    Some(Room {
        headroom_bytes: bytes_in(meminfo, "MemAvailable:")?,
        free_bytes: bytes_in(meminfo, "MemFree:")?,
        is_of_group: false,
    })
}

/// The room of a group; `None` without a limit, and if it has more than `most_bytes` free, so that
/// it is not the least. The kernel adds up the statistics of a group when they are read, which
/// takes longer than all else of a look: they are not asked for if `enough_bytes` are free.
fn of_group(
    group: &Group,
    most_bytes: u64,
    enough_bytes: u64,
    read: &mut ReadGroup<'_>,
) -> Option<Room> {
    let limit_bytes = group.limit_in(read)?;
    let free_bytes = limit_bytes.saturating_sub(group.used_in(read)?);
    if free_bytes >= most_bytes {
        return None;
    }
    let file_bytes = if free_bytes < enough_bytes {
        group.clean_file_bytes(read)
    } else {
        0
    };
    Some(Room {
        headroom_bytes: free_bytes.saturating_add(file_bytes),
        free_bytes,
        is_of_group: true,
    })
}

/// The file in which the kernel reports how long programs waited for memory: that of this process's
/// own group, or that of the machine. `None` if there is neither.
///
/// ```
/// if let Some(path) = forebay_host::pressure_file() {
///     assert!(std::fs::read_to_string(path)?.starts_with("some "));
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pressure_file() -> Option<PathBuf> {
    let groups = own_groups().unwrap_or_default();
    let of_groups = groups
        .iter()
        .map(|group| group.folder.join("memory.pressure"));
    let machine = Path::new("/proc/pressure/memory").to_owned();
    of_groups
        .chain([machine])
        .find(|path| fs::read_to_string(path).is_ok_and(|text| stalled_us(&text).is_some()))
}

/// How long some program waited for memory since the start, in a text of such a file;
/// microseconds.
///
/// ```
/// let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull ... total=99\n";
/// assert_eq!(forebay_host::stalled_us(text), Some(1234));
/// ```
pub fn stalled_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{Version, groups_in};

    fn room(headroom_bytes: u64, free_bytes: u64, is_of_group: bool) -> Room {
        Room {
            headroom_bytes,
            free_bytes,
            is_of_group,
        }
    }

    #[test]
    fn the_least_room_counts_and_the_least_that_is_free() {
        let machine = Some(room(1_000, 100, false));
        let groups = [room(900, 800, true), room(1_100, 50, true)];
        assert_eq!(
            least(machine, groups.into_iter()),
            Some(room(900, 50, true))
        );
        assert_eq!(least(machine, [].into_iter()), machine);
        assert_eq!(least(None, [].into_iter()), None);
    }

    #[test]
    fn clean_file_pages_of_a_group_are_room_and_a_high_mark_is_a_limit() {
        for version in [Version::One, Version::Two] {
            let folder = tempfile::tempdir().unwrap();
            let write = |file: &str, text: &str| {
                fs::write(folder.path().join(file), text).unwrap();
            };
            let group = Group {
                folder: folder.path().to_owned(),
                version,
            };
            let mut files = Vec::new();
            let mut seen = |most_bytes, enough_bytes| {
                of_group(&group, most_bytes, enough_bytes, &mut |name| {
                    text_of(&mut files, folder.path(), name)
                })
            };
            assert_eq!(seen(u64::MAX, u64::MAX), None, "there are no files");
            let names = match version {
                Version::One => ["memory.limit_in_bytes", "memory.usage_in_bytes"],
                Version::Two => ["memory.max", "memory.current"],
            };
            write(names[0], "1000\n");
            write(names[1], "700\n");
            let statistics = match version {
                Version::One => {
                    "total_inactive_file 100\ntotal_active_file 60\ntotal_dirty 10\n\
                     total_writeback 5\ninactive_file 1\n"
                }
                Version::Two => {
                    "inactive_file 100\nactive_file 60\nfile_dirty 10\nfile_writeback 5\n"
                }
            };
            write("memory.stat", statistics);
            assert_eq!(seen(u64::MAX, u64::MAX), Some(room(445, 300, true)));
            assert_eq!(seen(u64::MAX, 301), Some(room(445, 300, true)));
            assert_eq!(seen(u64::MAX, 300), Some(room(300, 300, true)));
            assert_eq!(seen(301, u64::MAX), Some(room(445, 300, true)));
            assert_eq!(seen(300, u64::MAX), None, "the machine has less");
            write("memory.high", "900\n");
            let high = match version {
                Version::One => room(445, 300, true),
                Version::Two => room(345, 200, true),
            };
            assert_eq!(seen(u64::MAX, u64::MAX), Some(high));
            write(names[0], "max\n");
            write("memory.high", "max\n");
            assert_eq!(seen(u64::MAX, u64::MAX), None, "there is no limit");
        }
    }

    /// A hierarchy of version 2: a slice with a limit and a mark below it, and in it a group
    /// without either, which the process is in. Both change while it is looked at.
    #[test]
    fn in_a_hierarchy_of_version_2_the_tightest_group_counts_as_it_is_now() {
        let top = tempfile::tempdir().unwrap();
        let (slice, own) = (
            top.path().join("user.slice"),
            top.path().join("user.slice/own"),
        );
        fs::create_dir_all(&own).unwrap();
        let write = |folder: &Path, files: &[(&str, &str)]| {
            for (name, text) in files {
                fs::write(folder.join(name), text).unwrap();
            }
        };
        write(top.path(), &[("cgroup.controllers", "cpu memory\n")]);
        let none = [("memory.max", "max\n"), ("memory.high", "max\n")];
        write(&own, &none);
        write(&own, &[("memory.current", "600\n"), ("memory.stat", "")]);
        let statistics = "anon 500\ninactive_file 150\nactive_file 60\nfile_dirty 10\n";
        write(
            &slice,
            &[
                ("memory.max", "2000\n"),
                ("memory.high", "1500\n"),
                ("memory.current", "1000\n"),
                ("memory.stat", statistics),
            ],
        );
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", top.path().display());
        let groups = groups_in(&mounts, "0::/user.slice/own\n");
        assert_eq!(groups.len(), 3);
        let mut files: Vec<_> = groups.iter().map(|_| Vec::new()).collect();
        let mut seen = || {
            let rooms = groups.iter().zip(&mut files).filter_map(|(group, files)| {
                of_group(group, u64::MAX, u64::MAX, &mut |name| {
                    text_of(files, &group.folder, name)
                })
            });
            least(None, rooms)
        };
        assert_eq!(seen(), Some(room(700, 500, true)), "the mark counts");
        write(&slice, &[("memory.high", "900\n")]);
        assert_eq!(
            seen(),
            Some(room(200, 0, true)),
            "it was lowered below the use"
        );
        write(&own, &[("memory.max", "650\n")]);
        assert_eq!(
            seen(),
            Some(room(50, 0, true)),
            "the inner group has less left"
        );
        write(&slice, &none);
        write(&own, &none);
        assert_eq!(seen(), None, "no limit is left");
    }
}
