//! Files whose pages must not change while they are written past the kernel's cache.
//!
//! Some file systems and devices take a checksum of a page and then send it. If it is overwritten
//! in between, the two do not match, and after a crash the page reads as an error. That cannot
//! happen through the kernel's cache, because the kernel works on a copy.

use forebay_base::sync::{Mutex, lock};
use rustix::fd::OwnedFd;
use rustix::fs::{Dev, FileType, Mode, OFlags, Stat};
use std::collections::BTreeMap;

const BTRFS: u64 = 0x9123_683E;
const ZFS: u64 = 0x2FC1_2FC1;

/// Whether a file of the file system with the number `magic`, on a device that reports
/// `stable_writes`, needs that.
pub(crate) fn needs_stable_pages(magic: u64, stable_writes: bool) -> bool {
    matches!(magic, BTRFS | ZFS) || stable_writes
}

/// The number of the file system that `fd` lies on, 0 if it is not known.
pub(crate) fn file_system_magic(fd: &OwnedFd) -> u64 {
    // The numbers have 32 bits, with a sign on some machines.
    rustix::fs::fstatfs(fd).map_or(0, |reported| u64::from(reported.f_type as u32))
}

/// What devices report. The files in which they do stay open, because they are asked for each file
/// that is opened. A device that has gone answers with an error, and then another one may have its
/// number.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    reports: Mutex<BTreeMap<Dev, OwnedFd>>,
}

impl Devices {
    /// Whether the file or device that `stat` describes needs pages that do not change. One that
    /// does not report it does not need it.
    pub(crate) fn need_stable_pages(&self, magic: u64, stat: &Stat) -> bool {
        needs_stable_pages(magic, self.has_stable_writes(stat))
    }

    /// What the device reports, or the one below the file system.
    fn has_stable_writes(&self, stat: &Stat) -> bool {
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let device = if is_device { stat.st_rdev } else { stat.st_dev };
        // File systems without a device of their own have numbers without one.
        if rustix::fs::major(device) == 0 {
            return false;
        }
        let mut reports = lock(&self.reports);
        let known = reports.get(&device).and_then(says_yes);
        known.unwrap_or_else(|| {
            reports.remove(&device);
            let Some(report) = report_of(device) else {
                return false;
            };
            let reported = says_yes(&report);
            reports.insert(device, report);
            reported.unwrap_or(false)
        })
    }
}

/// The file in which `device` reports it. A partition has no queue of its own; it uses that of the
/// disk.
fn report_of(device: Dev) -> Option<OwnedFd> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/stable_writes");
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    })
}

/// What a report says now; none if its device has gone.
fn says_yes(report: &OwnedFd) -> Option<bool> {
    let mut text = [0; 4];
    let count = rustix::io::pread(report, &mut text, 0).ok()?;
    Some(text[..count].trim_ascii() == b"1")
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

    /// A report that was there and cannot be read any more is looked for again.
    #[test]
    fn a_device_that_has_gone_is_asked_anew() {
        let here = rustix::fs::open("/", OFlags::RDONLY, Mode::empty()).expect("there is a root");
        let mut stat = rustix::fs::fstat(&here).expect("it is open");
        // A device that no machine has.
        stat.st_dev = rustix::fs::makedev(259, 1_048_575);
        let devices = Devices::default();
        // A folder cannot be read, as the file of a device that has gone.
        lock(&devices.reports).insert(stat.st_dev, here);
        assert!(!devices.has_stable_writes(&stat));
        assert!(lock(&devices.reports).is_empty());
        let yes = rustix::fs::memfd_create("says", rustix::fs::MemfdFlags::CLOEXEC);
        let yes = yes.expect("the system makes files in memory");
        for (text, says) in [("1\n", true), ("0\n", false), ("1\n", true)] {
            rustix::io::pwrite(&yes, text.as_bytes(), 0).expect("memory takes it");
            assert_eq!(says_yes(&yes), Some(says), "it is read each time");
        }
    }

    /// A file in memory has neither checksums nor a device.
    #[test]
    fn a_file_in_memory_needs_no_stable_pages() {
        const TMPFS: u64 = 0x0102_1994;
        let file = rustix::fs::memfd_create("stable", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("the system makes files in memory");
        assert_eq!(file_system_magic(&file), TMPFS);
        let stat = rustix::fs::fstat(&file).expect("it is open");
        let devices = Devices::default();
        assert!(!devices.has_stable_writes(&stat));
        assert!(!devices.need_stable_pages(TMPFS, &stat));
        assert!(devices.need_stable_pages(BTRFS, &stat));
        assert!(lock(&devices.reports).is_empty());
    }
}
