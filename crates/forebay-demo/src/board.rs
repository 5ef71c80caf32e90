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
/// Bytes of a tick: two numbers for each writer, and one for the reader.
const TICK_BYTES: u64 = 128;
pub(super) const WRITERS: u64 = 4;
const READS_AT: u64 = 16 * WRITERS;

/// The board. Clones share the same memory.
#[derive(Clone)]
pub(super) struct Board {
    file: Arc<File>,
    ticks: u64,
}

/// What a contender did in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) longest_write_ns: u64,
}

impl Board {
    /// A board for `ticks` ticks, all zeros.
    pub(super) fn new(ticks: u64) -> Result<Board, DemoError> {
        let failed = || DemoError::system("make shared memory");
        let file = rustix::fs::memfd_create("forebay-demo", MemfdFlags::CLOEXEC)
            .map_err(|refused| failed()(refused.into()))?;
        let file = File::from(file);
        // One more tick, for the two signs.
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

    /// The process reports that it is ready for the first tick.
    pub(super) fn show_ready(&self) -> io::Result<()> {
        self.file.write_all_at(&[1], self.ticks * TICK_BYTES)
    }

    pub(super) fn is_ready(&self) -> io::Result<bool> {
        self.sign(0)
    }

    /// The parent lets the first tick begin.
    pub(super) fn start(&self) -> io::Result<()> {
        self.file.write_all_at(&[1], self.ticks * TICK_BYTES + 1)
    }

    pub(super) fn may_start(&self) -> io::Result<bool> {
        self.sign(1)
    }

    fn sign(&self, number: u64) -> io::Result<bool> {
        let mut byte = [0];
        let at = self.ticks * TICK_BYTES + number;
        self.file.read_exact_at(&mut byte, at)?;
        Ok(byte != [0])
    }

    /// Reports what writer `writer` has done in a tick so far. A tick past the end is ignored.
    pub(super) fn show_writes(&self, tick: u64, writer: u64, writes: u64, longest_ns: u64) {
        self.put(tick, 16 * writer, &[writes, longest_ns]);
    }

    /// The same for the reader.
    pub(super) fn show_reads(&self, tick: u64, reads: u64) {
        self.put(tick, READS_AT, &[reads]);
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
    pub(super) fn read(&self, tick: u64) -> io::Result<Shown> {
        let mut bytes = [0; TICK_BYTES as usize];
        self.file.read_exact_at(&mut bytes, tick * TICK_BYTES)?;
        let number = |at: u64| {
            let at = at as usize;
            let eight = bytes[at..at + 8].try_into();
            u64::from_ne_bytes(eight.expect("the slice has eight bytes"))
        };
        let longest = (0..WRITERS).map(|writer| number(16 * writer + 8)).max();
        Ok(Shown {
            reads: number(READS_AT),
            writes: (0..WRITERS).map(|writer| number(16 * writer)).sum(),
            longest_write_ns: longest.unwrap_or(0),
        })
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
        board.show_reads(1, 6);
        board.show_writes(3, 0, 1, 1);
        assert_eq!(board.read(0).unwrap(), Shown::default());
        let shown = Shown {
            reads: 6,
            writes: 7,
            longest_write_ns: 1_000,
        };
        assert_eq!(board.read(1).unwrap(), shown);
        let past_the_end = board.read(3).unwrap();
        assert_eq!(past_the_end.writes, 0);
    }

    #[test]
    fn the_two_signs_are_given_one_by_one() {
        let board = Board::new(3).unwrap();
        assert!(!board.is_ready().unwrap());
        board.show_ready().unwrap();
        assert!(board.is_ready().unwrap() && !board.may_start().unwrap());
        board.start().unwrap();
        assert!(board.may_start().unwrap());
    }
}
