//! What a contender's process reports while it runs: numbers in a file in shared memory.
//!
//! A process whose memory is full of dirty pages must wait for each new page, and so for each line
//! that it prints. Numbers written here need no new page, because the parent has touched all pages
//! of the file before.

use crate::error::DemoError;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::Arc;

/// The length of a tick.
pub(super) const TICK_MS: u64 = 100;
/// Bytes of a tick: two numbers for each writer, and three for the level.
const TICK_BYTES: u64 = 128;
pub(super) const WRITERS: u64 = 4;
const LEVEL_AT: u64 = 16 * WRITERS;

/// The board. Clones share the same memory.
#[derive(Clone)]
pub(super) struct Board {
    file: Arc<File>,
    ticks: u64,
}

/// The cache's level of dirty pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) dirty_pages: u64,
    pub(super) setpoint_pages: u64,
    /// Pauses since the start.
    pub(super) pauses: u64,
}

/// One tick as reported: writes, the longest of them in ns, and the level.
pub(super) type Shown = (u64, u64, Level);

impl Board {
    /// A board for `ticks` ticks, all zeros.
    pub(super) fn new(ticks: u64) -> Result<Board, DemoError> {
        let failed = || DemoError::system("make shared memory");
        let file = rustix::fs::memfd_create("forebay-demo", MemfdFlags::CLOEXEC)
            .map_err(|refused| failed()(refused.into()))?;
        let file = File::from(file);
        // One more tick, for the start.
        let zeros = vec![0; ((ticks + 1) * TICK_BYTES) as usize];
        file.write_all_at(&zeros, 0).map_err(failed())?;
        let file = Arc::new(file);
        Ok(Board { file, ticks })
    }

    /// The board of a process that has it as its standard input.
    pub(super) fn given() -> io::Result<Board> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let ticks = (file.metadata()?.len() / TICK_BYTES).saturating_sub(1);
        let file = Arc::new(file);
        Ok(Board { file, ticks })
    }

    /// The board as standard input of a process.
    pub(super) fn to_give(&self) -> Result<Stdio, DemoError> {
        let file = self.file.try_clone();
        Ok(Stdio::from(
            file.map_err(DemoError::system("share memory"))?,
        ))
    }

    /// Reports that the first tick begins.
    pub(super) fn show_start(&self) {
        // As in `put`; if this is lost, the parent waits until this process has ended.
        let _ = self.file.write_all_at(&[1], self.ticks * TICK_BYTES);
    }

    /// Whether the first tick has begun.
    pub(super) fn has_started(&self) -> Result<bool, DemoError> {
        let mut byte = [0];
        let read = self.file.read_exact_at(&mut byte, self.ticks * TICK_BYTES);
        read.map_err(DemoError::system("read shared memory"))?;
        Ok(byte != [0])
    }

    /// Reports what writer `writer` has done in a tick so far. A tick past the end is ignored.
    pub(super) fn show_writes(&self, tick: u64, writer: u64, writes: u64, longest_ns: u64) {
        self.put(tick, 16 * writer, &[writes, longest_ns]);
    }

    /// Reports the level at a tick.
    pub(super) fn show_level(&self, tick: u64, level: Level) {
        let numbers = [level.dirty_pages, level.setpoint_pages, level.pauses];
        self.put(tick, LEVEL_AT, &numbers);
    }

    fn put(&self, tick: u64, at: u64, numbers: &[u64]) {
        if tick < self.ticks {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
            // A write to memory that exists does not fail. If it did, one column of a picture would
            // be lost.
            let _ = self.file.write_all_at(&bytes, tick * TICK_BYTES + at);
        }
    }

    /// What was reported for a tick.
    pub(super) fn read(&self, tick: u64) -> Result<Shown, DemoError> {
        let mut bytes = [0; TICK_BYTES as usize];
        let read = self.file.read_exact_at(&mut bytes, tick * TICK_BYTES);
        read.map_err(DemoError::system("read shared memory"))?;
        let number = |at: u64| {
            let at = at as usize;
            let eight = bytes[at..at + 8].try_into();
            u64::from_ne_bytes(eight.expect("the slice has eight bytes"))
        };
        let writes = (0..WRITERS).map(|writer| number(16 * writer)).sum();
        let longest_ns = (0..WRITERS).map(|writer| number(16 * writer + 8)).max();
        let level = Level {
            dirty_pages: number(LEVEL_AT),
            setpoint_pages: number(LEVEL_AT + 8),
            pauses: number(LEVEL_AT + 16),
        };
        Ok((writes, longest_ns.unwrap_or(0), level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        let board = Board::new(3).unwrap();
        board.show_writes(1, 0, 5, 900);
        board.show_writes(1, 3, 2, 1_000);
        let level = Level {
            dirty_pages: 7,
            setpoint_pages: 8,
            pauses: 9,
        };
        board.show_level(1, level);
        board.show_writes(3, 0, 1, 1);
        assert_eq!(board.read(0).unwrap(), (0, 0, Level::default()));
        assert_eq!(board.read(1).unwrap(), (7, 1_000, level));
        assert_eq!(board.read(3).unwrap().0, 0, "there is no tick past the end");
        assert!(!board.has_started().unwrap());
        board.show_start();
        assert!(board.has_started().unwrap());
    }
}
