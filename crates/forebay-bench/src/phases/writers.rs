//! Writers of 64 KiB, each in order over its own part of the file; every write is timed.

use crate::contender::PagedFile;
use crate::error::BenchError;
use crate::layout::stamp_pages;
use crate::measure::{AlignedBytes, Times};
use forebay_base::PAGE_BYTES;
use forebay_rt::thread::Stopwatch;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of one write.
pub(crate) const WRITE_BYTES: u64 = 64 << 10;

/// The state that several writers share: the last progress of any of them, the position of each,
/// and when to stop.
pub(crate) struct Team {
    watch: Stopwatch,
    last_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
    /// When the writers end by themselves, because the watcher may be held up like them.
    end_ns: u64,
    stop: AtomicBool,
    written_bytes: Vec<AtomicU64>,
}

impl Team {
    /// A team of `writers`, all at their beginning now. It ends after `end_ns` nanoseconds if
    /// nobody stops it before.
    pub(crate) fn new(writers: usize, end_ns: u64) -> Team {
        Team {
            end_ns,
            watch: Stopwatch::start(),
            last_ns: AtomicU64::new(0),
            longest_gap_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            written_bytes: (0..writers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Asks the writers to end after their current write.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Nanoseconds after which the team ends by itself.
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Nanoseconds since the team was made.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.watch.elapsed().as_nanos()
    }

    /// Longest time in which no write of any writer ended.
    pub(crate) fn longest_gap_ns(&self) -> u64 {
        self.longest_gap_ns.load(Ordering::Relaxed)
    }

    /// Bytes that each writer has written.
    pub(crate) fn written_bytes(&self) -> Vec<u64> {
        self.written_bytes
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed))
            .collect()
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.elapsed_ns() < self.end_ns
    }

    /// Counts a write of writer `index` that just ended; returns the time.
    fn note(&self, index: usize) -> u64 {
        let now_ns = self.elapsed_ns();
        let before_ns = self.last_ns.swap(now_ns, Ordering::Relaxed);
        self.longest_gap_ns
            .fetch_max(now_ns.saturating_sub(before_ns), Ordering::Relaxed);
        self.written_bytes[index].fetch_add(WRITE_BYTES, Ordering::Relaxed);
        now_ns
    }
}

/// The part of a file that one writer writes to.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    start_bytes: u64,
    length_bytes: u64,
    /// Begin again at the start until the team stops, instead of stopping at the end.
    endless: bool,
}

impl Region {
    /// Part `index` of `parts` equal ones of a file of `file_bytes`.
    pub(crate) fn part(file_bytes: u64, index: usize, parts: usize) -> Region {
        let length_bytes = file_bytes / parts as u64 / WRITE_BYTES * WRITE_BYTES;
        Region {
            start_bytes: length_bytes * index as u64,
            length_bytes,
            endless: false,
        }
    }

    /// The same, again and again.
    pub(crate) fn endless(self) -> Region {
        Region {
            endless: true,
            ..self
        }
    }
}

/// Writes `region` as writer `index` of `team`.
pub(crate) fn write<F: PagedFile>(
    file: &mut F,
    region: Region,
    team: &Team,
    index: usize,
) -> Result<Times, BenchError> {
    let mut bytes = AlignedBytes::new(WRITE_BYTES as usize, PAGE_BYTES);
    let mut times = Times::default();
    let mut done_bytes = 0;
    while team.goes_on() {
        if done_bytes == region.length_bytes {
            if !region.endless {
                break;
            }
            done_bytes = 0;
        }
        let offset_bytes = region.start_bytes + done_bytes;
        stamp_pages(&mut bytes, offset_bytes);
        let began_ns = team.elapsed_ns();
        file.write_at(&bytes, offset_bytes)?;
        times.record(team.note(index) - began_ns);
        done_bytes += WRITE_BYTES;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_are_whole_writes() {
        let parts: Vec<Region> = (0..3).map(|part| Region::part(1 << 20, part, 3)).collect();
        for pair in parts.windows(2) {
            assert_eq!(
                pair[0].start_bytes + pair[0].length_bytes,
                pair[1].start_bytes
            );
        }
        assert_eq!(parts[2].length_bytes % WRITE_BYTES, 0);
        assert!(parts[2].start_bytes + parts[2].length_bytes <= 1 << 20);
    }
}
