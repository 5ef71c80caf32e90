//! Files by positioned reads and writes: a few threads, each of which carries out one request after
//! the other. Works on every system; the ring ([`crate::uring`]) is the faster way.

use crate::error::Failure;
use crate::files::OpenFile;
use crate::request::{IoKind, Request};
use crate::transfer::{Addressed, IoVector, Step, Transfer};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::WaitQueue;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use std::collections::VecDeque;

/// Requests that wait for a thread. It holds only what was submitted and has not begun.
pub(crate) struct PositionedQueue {
    waiting: Mutex<Waiting>,
    arrivals: WaitQueue,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Addressed>,
    stopped: bool,
}

enum Next {
    Take(Addressed),
    Wait,
    Stop,
}

impl PositionedQueue {
    pub(crate) fn new(queue_depth: usize) -> PositionedQueue {
        PositionedQueue {
            waiting: Mutex::new(Waiting {
                requests: VecDeque::with_capacity(queue_depth),
                stopped: false,
            }),
            arrivals: WaitQueue::new(),
        }
    }

    /// Leaves `request` to the next free thread.
    pub(crate) fn push(&self, request: Addressed) {
        lock(&self.waiting).requests.push_back(request);
        self.arrivals.wake_one();
    }

    /// Lets the threads end once nothing waits any more.
    pub(crate) fn stop(&self) {
        lock(&self.waiting).stopped = true;
        self.arrivals.wake_all();
    }

    /// What one thread does until [`PositionedQueue::stop`]. A request of more than `vectors`
    /// separate pages takes several system calls.
    pub(crate) fn work(&self, vectors: usize) {
        let mut vectors = vec![IoVector::EMPTY; vectors];
        forebay_rt::block_on(async {
            loop {
                match self.next() {
                    Next::Take(request) => carry_out(request, &mut vectors),
                    Next::Stop => return,
                    Next::Wait => {
                        let arrival = self.arrivals.listen();
                        match self.next() {
                            Next::Take(request) => {
                                drop(arrival);
                                carry_out(request, &mut vectors);
                            }
                            Next::Stop => return,
                            Next::Wait => arrival.await,
                        }
                    }
                }
            }
        });
    }

    fn next(&self) -> Next {
        let mut waiting = lock(&self.waiting);
        match waiting.requests.pop_front() {
            Some(request) => Next::Take(request),
            None if waiting.stopped => Next::Stop,
            None => Next::Wait,
        }
    }
}

/// Does all of `addressed` on this thread and finishes it.
fn carry_out(addressed: Addressed, vectors: &mut [IoVector]) {
    let Some(mut transfer) = Transfer::start(addressed) else {
        return;
    };
    let request = transfer.request();
    let result = match request.kind {
        IoKind::Read | IoKind::Write => loop {
            let answer = ask(&transfer, vectors);
            if let Step::Done(result) = transfer.advance(answer) {
                break result;
            }
        },
        IoKind::Commit => uninterrupted(|| rustix::fs::fdatasync(transfer.file().buffered())),
        IoKind::Discard => discard(transfer.file(), request),
        IoKind::SetLength => set_length(transfer.file(), request.offset_bytes),
    };
    transfer.finish(result);
}

/// Asks the system once for the rest of a read or write.
#[allow(unsafe_code)]
fn ask(transfer: &Transfer, vectors: &mut [IoVector]) -> Result<usize, Errno> {
    let used = transfer.fill_vectors(vectors);
    let (fd, offset) = (transfer.descriptor(), transfer.offset_bytes());
    let first = vectors.as_mut_ptr();
    // SAFETY: `IoVector` has the layout of `struct iovec`, which is that of both slice types, and
    // `used` of them are filled. The ranges lie in the pages of a request that is not finished,
    // so they are valid and, for a read, nobody else's (PagePointer::new). The slice types hold
    // addresses: no reference to the bytes is made here, only the system touches them.
    unsafe {
        if transfer.request().kind == IoKind::Read {
            let slices = std::slice::from_raw_parts_mut(first.cast::<IoSliceMut<'_>>(), used);
            rustix::io::preadv(fd, slices, offset)
        } else {
            let slices = std::slice::from_raw_parts(first.cast::<IoSlice<'_>>(), used);
            rustix::io::pwritev(fd, slices, offset)
        }
    }
}

fn uninterrupted(call: impl FnMut() -> Result<(), Errno>) -> Result<(), Failure> {
    rustix::io::retry_on_intr(call).map_err(|errno| Failure::from_errno(errno.raw_os_error()))
}

fn set_length(file: &OpenFile, length_bytes: u64) -> Result<(), Failure> {
    if file.is_device() {
        // `OpenFile::check` accepts only the length that the device has.
        return Ok(());
    }
    uninterrupted(|| rustix::fs::ftruncate(file.buffered(), length_bytes))
}

/// Whether `errno` means that a range cannot be punched out here, so that zeros must be written.
pub(crate) fn cannot_punch(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS)
}

/// The flags by which a range is given back to the file system or the device.
pub(crate) fn punch_flags() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
}

fn discard(file: &OpenFile, request: Request) -> Result<(), Failure> {
    let (start, length) = (request.offset_bytes, request.length_bytes);
    let punch = || rustix::fs::fallocate(file.buffered(), punch_flags(), start, length);
    match rustix::io::retry_on_intr(punch) {
        Err(errno) if cannot_punch(errno) => write_zeros(file, start, start + length),
        other => other.map_err(|errno| Failure::from_errno(errno.raw_os_error())),
    }
}

/// Writes zeros from `start` to `end`, but not past the end of the file, where they are already.
fn write_zeros(file: &OpenFile, start: u64, end: u64) -> Result<(), Failure> {
    static ZEROS: [u8; 65_536] = [0; 65_536];
    let failed = |errno: Errno| Failure::from_errno(errno.raw_os_error());
    let end = end.min(file.length_bytes().map_err(failed)?);
    let mut at = start;
    while at < end {
        let length = (end - at).min(ZEROS.len() as u64) as usize;
        let write = || rustix::io::pwrite(file.buffered(), &ZEROS[..length], at);
        match rustix::io::retry_on_intr(write).map_err(failed)? {
            0 => return Err(failed(Errno::IO)),
            written => at += written as u64,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Files, OpenMode};

    #[test]
    fn zeros_stop_at_the_end_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).expect("the file is written");
        let files = Files::default();
        let opened = files
            .open(&path, OpenMode::ReadWrite, false)
            .expect("it opens");
        let file = files.get(opened.object).expect("it is open");
        write_zeros(&file, 10, 90_000).expect("zeros are written");
        write_zeros(&file, 99_990, 200_000).expect("zeros are written");
        let bytes = std::fs::read(&path).expect("the file is read");
        assert_eq!(bytes.len(), 100_000);
        let zeroed = |at: &usize| (10..90_000).contains(at) || *at >= 99_990;
        assert!((0..100_000).all(|at| bytes[at] == if zeroed(&at) { 0 } else { 7 }));
    }
}
