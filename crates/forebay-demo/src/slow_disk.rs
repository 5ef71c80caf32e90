//! A file held to a rate, for the contenders that have no store of Forebay below them.

use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::thread::{Stopwatch, pause_current};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk that serves one request after the other, in the order they came.
///
/// Forebay's disk is a `forebay_store::RateStore`, which follows the same rule.
pub(super) struct SlowDisk {
    file: File,
    ns_per_byte: f64,
    clock: Stopwatch,
    free_at: Mutex<Instant>,
    is_slow: AtomicBool,
}

impl SlowDisk {
    /// Opens the file at `path`. The disk is as fast as the file until [`SlowDisk::slow_down`].
    pub(super) fn open(path: &Path, bytes_per_s: u64) -> io::Result<SlowDisk> {
        Ok(SlowDisk {
            file: OpenOptions::new().read(true).write(true).open(path)?,
            ns_per_byte: 1e9 / bytes_per_s as f64,
            clock: Stopwatch::start(),
            free_at: Mutex::new(Instant::ZERO),
            is_slow: AtomicBool::new(false),
        })
    }

    /// Holds all requests from now on to the rate.
    pub(super) fn slow_down(&self) {
        self.is_slow.store(true, Ordering::Relaxed);
    }

    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.pass(bytes.len());
        self.file.read_exact_at(bytes, at)
    }

    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.pass(bytes.len());
        self.file.write_all_at(bytes, at)
    }

    /// Waits until the disk has served the requests before this one and its `bytes`.
    fn pass(&self, bytes: usize) {
        if !self.is_slow.load(Ordering::Relaxed) {
            return;
        }
        let needed = Span::from_nanos((bytes as f64 * self.ns_per_byte) as u64);
        let now = Instant::ZERO + self.clock.elapsed();
        let ends = {
            let mut free_at = lock(&self.free_at);
            *free_at = (*free_at).max(now) + needed;
            *free_at
        };
        pause_current(ends - now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_the_disk_one_after_the_other() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = SlowDisk::open(file.path(), 1_000_000).unwrap();
        disk.write(&[7; 4_000], 0).unwrap();
        let free_at = || lock(&disk.free_at).as_nanos();
        assert_eq!(free_at(), 0, "not slow yet");
        disk.slow_down();
        disk.write(&[8; 3_000], 1_000).unwrap();
        let first = free_at();
        let mut bytes = [0; 2_000];
        disk.read(&mut bytes, 0).unwrap();
        assert!(free_at() >= first + 2_000_000, "a byte takes a microsecond");
        assert_eq!((bytes[999], bytes[1_000]), (7, 8));
    }
}
