//! The room of the source's file systems: what is known of it.

use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_rt::wait::Permits;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Room that is left alone until every write is asked about: it covers writes under way, and what
/// the file system needs in addition to the bytes.
const MARGIN_BYTES: u64 = 16 << 20;
/// Room that ends a shortage.
pub(crate) const ENOUGH_BYTES: u64 = 4 << 20;
/// What is taken without another question at most: others write there too.
const MOST_CREDIT_BYTES: u64 = 64 << 20;

/// The room of every file system of the source.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) source: PathBuf,
    by_device: Mutex<BTreeMap<u64, Arc<Room>>>,
    pub(crate) refused_writes: AtomicU64,
    pub(crate) refused_bytes: AtomicU64,
}

/// The room of one file system.
#[derive(Debug)]
pub(crate) struct Room {
    /// What can be taken before it is asked again.
    pub(crate) credit_bytes: AtomicU64,
    /// Asked once: a file system stays what it is.
    counts: OnceLock<Counts>,
    /// Some file systems count what was written long after.
    seen: Mutex<Seen>,
    /// It is near its end, and what was dirty then is written.
    pub(crate) is_tight: AtomicBool,
    /// It has refused what it seemed to have room for.
    pub(crate) is_strict: AtomicBool,
    /// InodeFd by the writer that finds it near its end.
    pub(crate) entering: Permits,
    pub(crate) shortage: Mutex<Option<Shortage>>,
}

/// What is known of the numbers of a file system.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// What was free at the last look.
    free_bytes: u64,
    /// What was granted and may not be counted yet.
    granted_bytes: u64,
}

/// When a file system counts what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// At once, or all together: once its numbers have moved, only what is dirty is not in them.
    AtOnce,
    /// At one of its commits, each a part of what was written before. Programs may ask for commits
    /// at any time. It copies on write: what a file has already is no room for its next bytes.
    InParts,
}

impl Counts {
    /// How the file system of `file` does it.
    fn of(file: impl AsFd) -> Counts {
        const BTRFS: u64 = 0x9123_683e;
        const ZFS: u64 = 0x2fc1_2fc1;
        const BCACHEFS: u64 = 0xca45_1a4e;
        match rustix::fs::fstatfs(file) {
            Ok(found) if [BTRFS, ZFS, BCACHEFS].contains(&(found.f_type as u64 & 0xffff_ffff)) => {
                Counts::InParts
            }
            _ => Counts::AtOnce,
        }
    }
}

/// A time without room.
#[derive(Clone, Debug)]
pub(crate) struct Shortage {
    /// What the source refuses with: it has no room, or a quota is used up.
    pub(crate) errno: Errno,
    pub(crate) refused_writes: u64,
    /// The kernel's number of a file there, by which it is asked whether it has room again.
    pub(crate) witness: u64,
}

/// How full the source is, for its operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fullness {
    /// Writes that were refused since the start because it had no room.
    pub refused_writes: u64,
    /// Their bytes.
    pub refused_bytes: u64,
    /// File systems of the source that have no room now.
    pub full_systems: u64,
}

impl Rooms {
    pub(crate) fn new(source: PathBuf) -> Rooms {
        Rooms {
            source,
            by_device: Mutex::default(),
            refused_writes: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn of(&self, device: u64) -> Arc<Room> {
        let new = || Arc::new(Room::new());
        let mut rooms = lock(&self.by_device);
        rooms.entry(device).or_insert_with(new).clone()
    }

    /// The rooms in which something was refused and which may still be full.
    pub(crate) fn short(&self) -> Vec<Arc<Room>> {
        let mut rooms: Vec<_> = lock(&self.by_device).values().cloned().collect();
        rooms.retain(|room| lock(&room.shortage).is_some());
        rooms
    }

    /// Whether one of them has no room.
    pub(crate) fn is_short(&self) -> bool {
        !self.short().is_empty()
    }

    pub(crate) fn fullness(&self) -> Fullness {
        Fullness {
            refused_writes: self.refused_writes.load(Ordering::Relaxed),
            refused_bytes: self.refused_bytes.load(Ordering::Relaxed),
            full_systems: self.short().len() as u64,
        }
    }
}

impl Room {
    fn new() -> Room {
        Room {
            credit_bytes: AtomicU64::new(0),
            counts: OnceLock::new(),
            seen: Mutex::default(),
            is_tight: AtomicBool::new(false),
            is_strict: AtomicBool::new(false),
            entering: Permits::new(1),
            shortage: Mutex::default(),
        }
    }

    /// How its file system counts, of which `file` is one.
    pub(crate) fn counts(&self, file: impl AsFd) -> Counts {
        *self.counts.get_or_init(|| Counts::of(file))
    }

    pub(crate) fn take(&self, bytes: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(bytes);
        let order = Ordering::Relaxed;
        self.credit_bytes.fetch_update(order, order, left).is_ok()
    }

    /// What is left of `free_bytes` after all that is dirty, and all that was granted and is not
    /// counted yet.
    pub(crate) fn spare_of(&self, free_bytes: u64, dirty_bytes: u64, counts: Counts) -> u64 {
        let mut seen = lock(&self.seen);
        let counted_bytes = seen.free_bytes.saturating_sub(free_bytes);
        seen.granted_bytes = match counts {
            Counts::InParts => seen.granted_bytes.saturating_sub(counted_bytes),
            Counts::AtOnce if seen.free_bytes != free_bytes => dirty_bytes,
            Counts::AtOnce => seen.granted_bytes,
        };
        seen.free_bytes = free_bytes;
        free_bytes.saturating_sub(seen.granted_bytes.max(dirty_bytes))
    }

    /// What was granted when there were `granted_bytes` is in the numbers.
    pub(crate) fn counted(&self, granted_bytes: u64) {
        let mut seen = lock(&self.seen);
        seen.granted_bytes = seen.granted_bytes.saturating_sub(granted_bytes);
        // What has moved the numbers until now is not counted once more.
        seen.free_bytes = 0;
    }

    pub(crate) fn granted_bytes(&self) -> u64 {
        lock(&self.seen).granted_bytes
    }

    /// Whether a shortage may be over. What was refused against the numbers, by a quota for
    /// example, is only once nothing is left to be written, also if no file is there any more that
    /// could be asked: until then it is remembered what it was refused with.
    pub(crate) fn may_be_back(&self, is_clean: bool) -> bool {
        if is_clean {
            self.is_strict.store(false, Ordering::Relaxed);
        }
        !self.is_strict.load(Ordering::Relaxed)
    }

    pub(crate) fn grant(&self, bytes: u64) {
        let mut seen = lock(&self.seen);
        seen.granted_bytes = seen.granted_bytes.saturating_add(bytes);
    }

    /// Takes note that `spare_bytes` are left after everything that is dirty, and returns whether
    /// `wanted_bytes` of them can be taken without a further question.
    pub(crate) fn has_plenty(&self, spare_bytes: u64, wanted_bytes: u64) -> bool {
        let margin = if self.is_tight.load(Ordering::Relaxed) {
            // Otherwise each write would find it on the other side.
            2 * MARGIN_BYTES
        } else {
            MARGIN_BYTES
        };
        let left = spare_bytes.saturating_sub(margin.saturating_add(wanted_bytes));
        if left == 0 || self.is_strict.load(Ordering::Relaxed) {
            return false;
        }
        self.is_tight.store(false, Ordering::Relaxed);
        let credit = (left / 2).min(MOST_CREDIT_BYTES);
        self.credit_bytes.store(credit, Ordering::Relaxed);
        self.grant(credit + wanted_bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_is_enough_for_many_writes_while_there_is_plenty() {
        let room = Room::new();
        assert!(!room.take(1), "it was never asked");
        assert!(room.has_plenty(1 << 40, 1 << 20));
        assert!(room.take(MOST_CREDIT_BYTES));
        assert!(!room.take(1), "others write there too");
    }

    /// A commit that somebody asks for in the middle moves the numbers by a part.
    #[test]
    fn what_a_commit_has_not_counted_stays_granted() {
        let room = Room::new();
        assert_eq!(room.spare_of(100, 0, Counts::InParts), 100);
        room.grant(60);
        assert_eq!(room.spare_of(100, 0, Counts::InParts), 40);
        assert_eq!(room.spare_of(90, 0, Counts::InParts), 40);
        assert_eq!(room.spare_of(40, 0, Counts::InParts), 40);
        // What was granted for a second time is counted once.
        room.grant(30);
        assert_eq!(room.spare_of(40, 0, Counts::InParts), 10);
        room.counted(room.granted_bytes());
        assert_eq!(room.spare_of(40, 0, Counts::InParts), 40);
        assert_eq!(room.spare_of(40, 25, Counts::InParts), 15);
    }

    #[test]
    fn what_was_granted_counts_until_the_file_system_counts_it() {
        let room = Room::new();
        assert_eq!(room.spare_of(100, 10, Counts::AtOnce), 90);
        room.grant(60);
        assert_eq!(
            room.spare_of(100, 10, Counts::AtOnce),
            30,
            "all of it was written, and is not counted"
        );
        assert_eq!(room.spare_of(40, 10, Counts::AtOnce), 30, "now it is");
        assert_eq!(room.spare_of(40, 25, Counts::AtOnce), 15);
    }

    #[test]
    fn near_the_end_each_write_is_asked_about() {
        let room = Room::new();
        assert!(!room.has_plenty(MARGIN_BYTES, 1));
        assert!(!room.take(1));
        assert!(room.has_plenty(MARGIN_BYTES + 8, 4));
        assert!(room.take(2) && !room.take(1), "half of what is left");
        room.is_tight.store(true, Ordering::Relaxed);
        assert!(
            !room.has_plenty(MARGIN_BYTES + 8, 4),
            "not from write to write"
        );
        room.is_strict.store(true, Ordering::Relaxed);
        assert!(!room.has_plenty(1 << 40, 1));
    }
}
