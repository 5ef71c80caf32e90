//! A raw io_uring loop: it keeps the given number of requests in flight, and does nothing else.

use super::arena::{HUGE_PAGE_BYTES, huge_bytes};
use crate::error::BenchError;
use crate::measure::AlignedBytes;
use forebay_rt::thread::Stopwatch;
use io_uring::{IoUring, opcode, types};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The direction of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Opens `path` past the page cache, or through it if the file system offers nothing else. Returns
/// which of the two it was.
pub(crate) fn open_direct(path: &Path) -> Result<(File, bool), BenchError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let direct = options
        .clone()
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path);
    match direct {
        Ok(file) => Ok((file, true)),
        Err(_) => options
            .open(path)
            .map(|file| (file, false))
            .map_err(BenchError::in_scratch("open", path)),
    }
}

/// A ring with memory for each request that it keeps in flight.
pub(crate) struct RawRing {
    ring: IoUring,
    /// The memory of all requests, one block after the other.
    buffers: AlignedBytes,
    block_bytes: usize,
    flights: Vec<Flight>,
    watch: Stopwatch,
}

/// The state of the request in one slot.
#[derive(Clone, Copy, Default)]
struct Flight {
    offset: u64,
    began_ns: u64,
}

impl RawRing {
    /// A ring for `depth` requests of `block_bytes` each, a multiple of the page size.
    pub(crate) fn new(depth: u32, block_bytes: usize) -> Result<RawRing, BenchError> {
        let entries = depth.next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            // Older kernels know fewer options; the loop needs none of them.
            .or_else(|_| IoUring::new(entries))
            .map_err(BenchError::system("set up io_uring for the floor"))?;
        Ok(RawRing {
            ring,
            // Whole huge pages, because a part of one is given small pages.
            buffers: huge_bytes((depth as usize * block_bytes).next_multiple_of(HUGE_PAGE_BYTES)),
            block_bytes,
            flights: vec![Flight::default(); depth as usize],
            watch: Stopwatch::start(),
        })
    }

    /// Keeps every slot busy. `next` returns the offset of the next request, or `None` at the end,
    /// and may fill in the bytes to be written. `done` gets the offset of each ended request, its
    /// time in nanoseconds and its bytes. Returns when nothing is in flight any more.
    pub(crate) fn run(
        &mut self,
        file: &File,
        direction: Direction,
        mut next: impl FnMut(&mut [u8]) -> Option<u64>,
        mut done: impl FnMut(u64, u64, &[u8]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut in_flight = 0;
        let mut outcome = Ok(());
        for slot in 0..self.flights.len() {
            in_flight += usize::from(self.start(slot, file, direction, &mut next));
        }
        while in_flight > 0 {
            self.wait();
            while let Some((slot, result)) = self.completed() {
                in_flight -= 1;
                outcome = outcome.and_then(|()| self.end(slot, direction, result, &mut done));
                if outcome.is_ok() {
                    in_flight += usize::from(self.start(slot, file, direction, &mut next));
                }
            }
        }
        outcome
    }

    /// Submits what was pushed and waits for at least one completion.
    ///
    /// The kernel holds pointers into `buffers` while requests are in flight, so this cannot give
    /// up: after a permanent error the kernel would still write to memory that is about to be
    /// freed.
    fn wait(&self) {
        while let Err(error) = self.ring.submit_and_wait(1) {
            let passes = matches!(
                error.kind(),
                io::ErrorKind::Interrupted
                    | io::ErrorKind::WouldBlock
                    | io::ErrorKind::ResourceBusy
            );
            if !passes {
                eprintln!("forebay: io_uring lost its requests: {error}");
                std::process::abort();
            }
        }
    }

    /// Where the memory of a slot is.
    fn place(&self, slot: usize) -> Range<usize> {
        slot * self.block_bytes..(slot + 1) * self.block_bytes
    }

    /// The slot of a completed request, and the system's result for it.
    fn completed(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data() as usize, entry.result()))
    }

    fn end(
        &self,
        slot: usize,
        direction: Direction,
        result: i32,
        done: &mut impl FnMut(u64, u64, &[u8]) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let action = match direction {
            Direction::Read => "read for the floor",
            Direction::Write => "write for the floor",
        };
        let bytes = &self.buffers[self.place(slot)];
        if result < 0 {
            let source = io::Error::from_raw_os_error(-result);
            return Err(BenchError::system(action)(source));
        }
        if result as usize != bytes.len() {
            let source = io::Error::other(format!("{result} bytes of {}", bytes.len()));
            return Err(BenchError::system(action)(source));
        }
        let flight = self.flights[slot];
        done(
            flight.offset,
            self.watch.elapsed().as_nanos() - flight.began_ns,
            bytes,
        )
    }

    /// Puts the next request into `slot`, if there is one.
    #[allow(unsafe_code)]
    fn start(
        &mut self,
        slot: usize,
        file: &File,
        direction: Direction,
        next: &mut impl FnMut(&mut [u8]) -> Option<u64>,
    ) -> bool {
        let place = self.place(slot);
        let bytes = &mut self.buffers[place];
        let Some(offset) = next(bytes) else {
            return false;
        };
        self.flights[slot] = Flight {
            offset,
            began_ns: self.watch.elapsed().as_nanos(),
        };
        let target = types::Fd(file.as_raw_fd());
        let (address, length) = (bytes.as_mut_ptr(), bytes.len() as u32);
        let entry = match direction {
            Direction::Read => opcode::Read::new(target, address, length)
                .offset(offset)
                .build(),
            Direction::Write => opcode::Write::new(target, address, length)
                .offset(offset)
                .build(),
        };
        let entry = entry.user_data(slot as u64);
        // SAFETY: the buffer belongs to this slot alone, is not touched until the slot's request
        // has completed, and lives until then: `run` returns only when nothing is in flight, and
        // `wait` never gives up. The same is true for the file, which `run` borrows.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has an entry for each slot, and a slot has one request");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Who;
    use crate::layout::{check_stamp, stamp_pages};
    use forebay_base::PAGE_BYTES;

    #[test]
    fn what_was_written_is_read_and_each_request_ends_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![0_u8; 64 * PAGE_BYTES]).unwrap();
        let (file, _) = open_direct(&path).unwrap();
        let mut ring = RawRing::new(8, PAGE_BYTES).unwrap();
        let offsets = || (0..64).map(|page| page * PAGE_BYTES as u64);

        let mut writes = offsets();
        let fill = |bytes: &mut [u8]| {
            let offset = writes.next()?;
            stamp_pages(bytes, offset);
            Some(offset)
        };
        ring.run(&file, Direction::Write, fill, |_, _, _| Ok(()))
            .unwrap();

        let mut reads = offsets();
        let mut seen = Vec::new();
        ring.run(
            &file,
            Direction::Read,
            |_| reads.next(),
            |offset, _, page| {
                seen.push(offset);
                check_stamp(Who::Floor, page, offset / PAGE_BYTES as u64)
            },
        )
        .unwrap();
        seen.sort_unstable();
        assert_eq!(seen, offsets().collect::<Vec<_>>());
    }

    #[test]
    fn a_read_past_the_end_is_an_error_and_the_ring_is_empty_after_it() {
        let file = tempfile::tempfile().unwrap();
        let mut ring = RawRing::new(4, PAGE_BYTES).unwrap();
        for _ in 0..2 {
            let read = ring.run(&file, Direction::Read, |_| Some(0), |_, _, _| Ok(()));
            let error = read.unwrap_err().to_string();
            assert!(error.contains("0 bytes of 4096"), "{error}");
        }
    }
}
