//! One request on its way through a file: what is done, what comes next, and how it ends.
//!
//! Both bodies ask the system in their own way and pass each answer to [`Transfer::advance`], so
//! that short counts, interruptions, the end of the file and blocks that are not whole mean the
//! same in both.

use crate::error::Failure;
use crate::files::{Files, OpenFile};
use crate::io::Io;
use crate::request::{IoKind, Request};
use forebay_base::PAGE_BYTES;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;

const PAGE: u64 = PAGE_BYTES as u64;

/// An address range as the system wants it: the layout of `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct IoVector {
    pub(crate) base: *mut u8,
    pub(crate) length_bytes: usize,
}

impl IoVector {
    pub(crate) const EMPTY: IoVector = IoVector {
        base: std::ptr::null_mut(),
        length_bytes: 0,
    };
}

/// What to do after an answer of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask again, for the rest.
    Again,
    /// The request has ended.
    Done(Result<(), Failure>),
}

/// A request that waits, and the file that it goes to: the file of its object when it was
/// submitted, even if the object changes before the request is carried out.
#[derive(Debug)]
pub(crate) struct Addressed {
    io: Io,
    file: Arc<OpenFile>,
}

impl Addressed {
    /// Looks up the file of `io`, which is finished at once if there is none.
    pub(crate) fn look_up(io: Io, files: &Files) -> Option<Addressed> {
        let Some(file) = files.get(io.request().object) else {
            io.fail(Failure::Gone);
            return None;
        };
        Some(Addressed { io, file })
    }

    pub(crate) fn request(&self) -> Request {
        self.io.request()
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> usize {
        self.io.page_count()
    }

    /// Whether the call that submits it will wait for its end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.io.is_awaited()
    }
}

/// A request under way and the file that it goes to, which stays open until the request is
/// finished.
#[derive(Debug)]
pub(crate) struct Transfer {
    io: Io,
    file: Arc<OpenFile>,
    wanted_bytes: u64,
    done_bytes: u64,
    direct: bool,
    /// The system is asked to make what it writes durable in the same step.
    durable: bool,
    /// Why it could not, perhaps: the write or what makes it durable has failed.
    durable_errno: Option<Errno>,
}

impl Transfer {
    /// Begins `addressed`. A request that cannot go to its file, or that has nothing to do, is
    /// finished at once.
    pub(crate) fn start(addressed: Addressed) -> Option<Transfer> {
        let Addressed { io, file } = addressed;
        let request = io.request();
        if let Err(failure) = file.check(request) {
            io.fail(failure);
            return None;
        }
        if !io.has_bytes() && io.page_count() > 0 {
            // Their addresses are nobody's memory.
            io.fail(Failure::Unsupported);
            return None;
        }
        if request.kind == IoKind::Commit
            && let Err(failure) = file.commits().begin()
        {
            io.fail(failure);
            return None;
        }
        let is_empty = request.length_bytes == 0;
        if is_empty && !matches!(request.kind, IoKind::Commit | IoKind::SetLength) {
            io.succeed();
            return None;
        }
        let wanted_bytes = match request.kind {
            // Whole pages, so that a direct read serves the page at the end of a file too.
            IoKind::Read => io.page_count() as u64 * PAGE,
            _ => request.length_bytes,
        };
        let direct = file.direct().is_some() && wanted_bytes.is_multiple_of(PAGE);
        Some(Transfer {
            io,
            file,
            wanted_bytes,
            done_bytes: 0,
            direct,
            durable: false,
            durable_errno: None,
        })
    }

    /// The caller asks the system as [`Transfer::is_durable`] says. So a write is made durable in
    /// the same step if that is wanted and if the file is known to do it. One that makes the file
    /// longer goes through the kernel's cache: ext4 before Linux 6.7 notes the new length of
    /// another one after it has made its bytes durable.
    pub(crate) fn or_durable(mut self) -> Transfer {
        self.durable = false;
        let is_wanted = self.request().kind == IoKind::Write && self.io.asks_durable();
        if !is_wanted || !self.file.writes_through || self.file.commits().failure().is_some() {
            return self;
        }
        let is_direct = self.direct && !self.io.grows();
        self.durable = is_direct || self.file.durable().is_some();
        self.direct &= is_direct || !self.durable;
        self
    }

    /// Whether the system is asked to make what it writes durable in the same step.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    pub(crate) fn request(&self) -> Request {
        self.io.request()
    }

    /// The number of the memory that its pages come from.
    pub(crate) fn memory(&self) -> u64 {
        self.io.memory()
    }

    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The descriptor to ask next.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        let chosen = match (self.direct, self.durable) {
            (true, _) => self.file.direct(),
            (false, true) => self.file.durable(),
            (false, false) => None,
        };
        chosen.unwrap_or_else(|| self.file.buffered())
    }

    /// The first byte that is still to be moved.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.io.request().offset_bytes + self.done_bytes
    }

    /// Fills `vectors` with the memory that is still to be moved, neighbours joined, and returns
    /// how many it used. The next system call moves what does not fit.
    pub(crate) fn fill_vectors(&self, vectors: &mut [IoVector]) -> usize {
        let mut used = 0_usize;
        let mut at = self.done_bytes;
        while at < self.wanted_bytes {
            let start = (at % PAGE) as usize;
            let length_bytes = (PAGE - at % PAGE).min(self.wanted_bytes - at) as usize;
            let page = self.io.page_address((at / PAGE) as usize).as_ptr();
            let base = page.wrapping_add(start);
            match vectors[..used].last_mut() {
                Some(last) if last.base.wrapping_add(last.length_bytes) == base => {
                    last.length_bytes += length_bytes;
                }
                _ => {
                    let Some(next) = vectors.get_mut(used) else {
                        break;
                    };
                    *next = IoVector { base, length_bytes };
                    used += 1;
                }
            }
            at += length_bytes as u64;
        }
        used
    }

    /// Takes the system's answer to a read or write: the bytes it moved, or its error.
    pub(crate) fn advance(&mut self, answer: Result<usize, Errno>) -> Step {
        let is_read = self.io.request().kind == IoKind::Read;
        match answer {
            Err(Errno::INTR | Errno::AGAIN) => Step::Again,
            Err(errno) if self.durable => {
                self.durable = false;
                if !matches!(errno, Errno::INVAL | Errno::OPNOTSUPP) {
                    self.durable_errno = Some(errno);
                }
                Step::Again
            }
            Err(Errno::INVAL) if self.direct => {
                // The file system takes direct requests, but not this one.
                self.direct = false;
                Step::Again
            }
            Err(errno) => Step::Done(Err(Failure::from_errno(errno.raw_os_error()))),
            Ok(0) if is_read => Step::Done(Ok(())),
            Ok(0) => Step::Done(Err(Failure::from_errno(Errno::IO.raw_os_error()))),
            Ok(moved) => {
                self.done_bytes += moved as u64;
                if self.done_bytes >= self.wanted_bytes {
                    return Step::Done(Ok(()));
                }
                if self.direct && !self.done_bytes.is_multiple_of(PAGE) {
                    self.direct = false;
                    self.durable = false;
                }
                Step::Again
            }
        }
    }

    /// Ends the request as the system answered.
    pub(crate) fn finish(mut self, result: Result<(), Failure>) {
        match self.io.request().kind {
            IoKind::Read if result.is_ok() => self.vouch(),
            IoKind::Commit => return self.finish_commit(result),
            IoKind::Write if result.is_ok() => return self.finish_write(),
            _ => {}
        }
        report(self.io, result);
    }

    /// If the write itself goes well after it failed with being made durable, it was the latter
    /// that failed. Then the commits of the file fail from now on (invariant C1).
    fn finish_write(self) {
        if let Some(errno) = self.durable_errno {
            let failure = Failure::from_errno(errno.raw_os_error());
            self.file.commits().record_failure(failure);
        }
        if self.durable && self.file.commits().failure().is_none() {
            self.io.succeed_durably();
        } else {
            self.io.succeed();
        }
    }

    fn finish_commit(self, answer: Result<(), Failure>) {
        // The file stays open until the commits that waited for this one are finished too.
        let Transfer { io, file, .. } = self;
        let ended = file.commits().end(io, answer);
        for commit in ended.last.into_iter().chain(ended.earlier) {
            report(commit, ended.failure.map_or(Ok(()), Err));
        }
    }

    /// Bytes that a read did not find are zeros, and so are those that nobody asked for.
    #[allow(unsafe_code)]
    fn vouch(&mut self) {
        let bytes = self.done_bytes.min(self.io.request().length_bytes);
        // SAFETY: the system has reported that it moved this many bytes to the front of the
        // pages (`advance`), and each transfer is finished after the answer to its last call.
        unsafe { self.io.assume_filled(bytes) };
    }

    /// Returns the request unfinished, so that another body can start over with the same file.
    pub(crate) fn into_addressed(self) -> Addressed {
        let Transfer { io, file, .. } = self;
        Addressed { io, file }
    }
}

fn report(io: Io, result: Result<(), Failure>) {
    match result {
        Ok(()) => io.succeed(),
        Err(failure) => io.fail(failure),
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
