//! The attributes of a file, as they are sent to the kernel.

#![allow(
    clippy::disallowed_types,
    reason = "the protocol's library has times in this type; no clock is read"
)]

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{Stat, Timespec};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kind of a file by its mode.
pub(crate) fn kind_of(stat: &Stat) -> FileType {
    kind(rustix::fs::FileType::from_raw_mode(stat.st_mode))
}

/// The kind in the terms of the protocol.
pub(crate) fn kind(file_type: rustix::fs::FileType) -> FileType {
    match file_type {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The attributes of the file that the kernel knows as `id`.
pub(crate) fn attributes(id: u64, stat: &Stat) -> FileAttr {
    let changed = time_of(stat.st_ctime, stat.st_ctime_nsec);
    FileAttr {
        ino: INodeNo(id),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time_of(stat.st_atime, stat.st_atime_nsec),
        mtime: time_of(stat.st_mtime, stat.st_mtime_nsec),
        ctime: changed,
        crtime: changed,
        kind: kind_of(stat),
        perm: (stat.st_mode & crate::source::PERMISSION_BITS) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: pack_device(stat.st_rdev),
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// What is known of a directory's entry that could not be looked at.
pub(crate) fn unknown(number: u64, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// A time to be set, in the terms of the system.
pub(crate) fn time_to_set(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => crate::source::OMITTED,
        Some(TimeOrNow::Now) => crate::source::PRESENT,
        Some(TimeOrNow::SpecificTime(time)) => timespec_asked(time),
    }
}

/// Seconds and nanoseconds since 1970, which may lie before it.
fn time_of(seconds: impl TryInto<i64>, nanoseconds: impl TryInto<u64>) -> SystemTime {
    let seconds = seconds.try_into().unwrap_or(0);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds >= 0 {
        UNIX_EPOCH + whole
    } else {
        UNIX_EPOCH - whole
    };
    base + Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))
}

/// The time that a program asked for, as the library passes it on. Up to 0.18 the library counts
/// nanoseconds before 1970 backwards from the second, which is undone here; in its answers it
/// counts them correctly.
fn timespec_asked(time: SystemTime) -> Timespec {
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            (-(before.as_secs() as i64), before.subsec_nanos())
        }
    };
    Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(nanoseconds),
    }
}

/// A device's number as the protocol carries it.
fn pack_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The system's number of a device that the protocol carries as `packed`.
pub(crate) fn unpack_device(packed: u32) -> u64 {
    let (major, minor) = (
        (packed >> 8) & 0xfff,
        (packed & 0xff) | ((packed >> 12) & 0xf_ff00),
    );
    rustix::fs::makedev(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of times that are set and read through a mount is in `tests/operations.rs`.
    #[test]
    fn times_before_1970_are_counted_forwards_from_the_second() {
        let nearly_two = Duration::new(1, 999_999_999);
        assert_eq!(time_of(-2, 1_u64), UNIX_EPOCH - nearly_two);
        let half = Duration::from_millis(1_500);
        assert_eq!(time_of(-2, 500_000_000_u64), UNIX_EPOCH - half);
        assert_eq!(time_of(-1, 0_u64), UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(time_of(1, 5_u64), UNIX_EPOCH + Duration::new(1, 5));
    }

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for (major, minor) in [(1, 3), (8, 255), (259, 70_000), (4095, 0xf_ffff)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(unpack_device(pack_device(device)), device);
        }
    }
}
