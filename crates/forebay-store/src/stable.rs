//! Files whose pages must not change while they are written past the kernel's cache.
//!
//! Some file systems and devices take a checksum of a page and then send it. If it is overwritten
//! in between, the two do not match, and after a crash the page reads as an error. That cannot
//! happen through the kernel's cache, because the kernel works on a copy.

use rustix::fd::OwnedFd;
use rustix::fs::FileType;

const BTRFS: u64 = 0x9123_683E;
const ZFS: u64 = 0x2FC1_2FC1;

/// Whether a file of the file system with the number `magic`, on a device that reports
/// `stable_writes`, needs that.
pub(crate) fn needs_stable_pages(magic: u64, stable_writes: bool) -> bool {
    matches!(magic, BTRFS | ZFS) || stable_writes
}

/// Whether the file or device behind `fd` needs that. One that does not report it does not need it.
pub(crate) fn is_needed_by(fd: &OwnedFd) -> bool {
    needs_stable_pages(file_system_magic(fd), has_stable_writes(fd))
}

/// The number of the file system that `fd` lies on, 0 if it is not known.
pub(crate) fn file_system_magic(fd: &OwnedFd) -> u64 {
    // The numbers have 32 bits, with a sign on some machines.
    rustix::fs::fstatfs(fd).map_or(0, |reported| u64::from(reported.f_type as u32))
}

/// What the device behind `fd`, or below its file system, reports. A partition has no queue of its
/// own; it uses that of the disk.
fn has_stable_writes(fd: &OwnedFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(fd) else {
        return false;
    };
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let device = if is_device { stat.st_rdev } else { stat.st_dev };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    ["queue", "../queue"].iter().any(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/stable_writes");
        std::fs::read_to_string(path).is_ok_and(|reported| reported.trim() == "1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: u64 = 0xEF53;

    #[test]
    fn checksums_of_pages_need_pages_that_do_not_change() {
        assert!(needs_stable_pages(BTRFS, false));
        assert!(needs_stable_pages(ZFS, false));
        assert!(needs_stable_pages(EXT4, true), "its device takes them");
        assert!(!needs_stable_pages(EXT4, false));
        assert!(!needs_stable_pages(0, false), "nothing was said");
    }

    /// A file in memory has neither checksums nor a device.
    #[test]
    fn a_file_in_memory_needs_no_stable_pages() {
        const TMPFS: u64 = 0x0102_1994;
        let file = rustix::fs::memfd_create("stable", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("the system makes files in memory");
        assert_eq!(file_system_magic(&file), TMPFS);
        assert!(!has_stable_writes(&file));
        assert!(!is_needed_by(&file));
    }
}
