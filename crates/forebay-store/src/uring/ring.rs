//! A ring and the requests that are at the kernel through it.
//!
//! A ring belongs to one thread at a time, which may hand it to another one.

use crate::error::Failure;
use crate::positioned::{cannot_punch, punch_flags};
use crate::registered::Registered;
use crate::request::IoKind;
use crate::transfer::{IoVector, Step, Transfer};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::{Errno, ReadWriteFlags};
use std::os::fd::AsFd;

/// A thread never waits for more answers at once than this.
const MOST_AT_ONCE: usize = 8;
/// And if it waits for more than one, never longer than this.
const PATIENCE_NS: u64 = 100_000;

/// This bit marks user data that is not a request; a request has the number of its slot.
const WATCH: u64 = 1 << 63;

pub(super) struct Ring {
    pub(super) uring: IoUring,
    /// Requests at the kernel. A slot has at most one entry in the ring.
    slots: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// `vectors_of_slot` vectors for each slot: the kernel reads them when the entry is submitted.
    vectors: Vec<IoVector>,
    vectors_of_slot: usize,
    /// The memory that the kernel has pinned, if it has.
    pub(super) registered: Option<Registered>,
}

// SAFETY: the vectors are addresses, and only the kernel follows them, for requests that are under
// way. It does not matter to the kernel which thread has the ring.
#[allow(unsafe_code)]
unsafe impl Send for Ring {}

/// What the kernel has answered.
pub(super) enum Answer {
    /// A request has ended.
    Ended(Transfer, Result<(), Failure>),
    /// A request cannot be carried out in this ring, and no part of it was.
    NotHere(Transfer),
    /// A watched descriptor is ready, for the last time if `is_over`.
    Ready {
        /// The number given to [`Ring::watch`].
        number: u32,
        is_over: bool,
    },
}

impl Ring {
    /// A ring for up to `depth` requests at a time. One entry moves up to `vectors_of_slot`
    /// separate pieces of memory. The ring has an entry for each slot and for each watched
    /// descriptor.
    pub(super) fn new(
        uring: IoUring,
        depth: usize,
        vectors_of_slot: usize,
        registered: Option<Registered>,
    ) -> Ring {
        Ring {
            uring,
            slots: std::iter::repeat_with(|| None).take(depth).collect(),
            free: (0..depth).rev().collect(),
            vectors: vec![IoVector::EMPTY; depth * vectors_of_slot],
            vectors_of_slot,
            registered,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Entries that the kernel has not seen.
    pub(super) fn unsubmitted(&mut self) -> usize {
        self.uring.submission().len()
    }

    /// Submits `transfer` to the kernel at the next `enter` or `submit`. There must be room.
    pub(super) fn start(&mut self, transfer: Transfer) {
        let slot = self.free.pop().expect("the caller has seen room");
        self.slots[slot] = Some(transfer);
        self.ask(slot);
    }

    /// With many requests in flight it pays to sleep until several of them have ended: then this
    /// thread, and the threads that it wakes, run once for all of them. Each `for_one_more` in
    /// flight let it wait for one more.
    pub(super) fn answers_to_wait_for(&self, for_one_more: usize) -> usize {
        (self.in_flight() / for_one_more).clamp(1, MOST_AT_ONCE)
    }

    /// Submits all new entries to the kernel and sleeps until `wanted` answers have come, but no
    /// longer than `longest_ns`. If more than one answer is wanted, it sleeps only briefly.
    pub(super) fn enter(&self, wanted: usize, longest_ns: Option<u64>) {
        let patience_ns = (wanted > 1).then_some(PATIENCE_NS);
        let bound_ns = match (longest_ns, patience_ns) {
            (Some(longest), Some(patience)) => Some(longest.min(patience)),
            (longest, patience) => longest.or(patience),
        };
        let entered = match bound_ns {
            Some(bound_ns) => {
                let bound = Timespec::new()
                    .sec(bound_ns / 1_000_000_000)
                    .nsec((bound_ns % 1_000_000_000) as u32);
                let args = SubmitArgs::new().timespec(&bound);
                self.uring.submitter().submit_with_args(wanted, &args)
            }
            None => self.uring.submit_and_wait(wanted),
        };
        Self::check(entered);
    }

    /// Submits all new entries to the kernel.
    pub(super) fn submit(&self) {
        Self::check(self.uring.submit());
    }

    fn check(entered: std::io::Result<usize>) {
        match entered {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                // Interrupted, timed out, or too much at once: the next completions make room.
                Some(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY) => {}
                _ => panic!("the kernel refuses a ring that it accepted before: {error}"),
            },
        }
    }

    /// The next answer that has come, if it ends something.
    pub(super) fn next_answer(&mut self) -> Option<Answer> {
        loop {
            let entry = self.uring.completion().next()?;
            let user_data = entry.user_data();
            if user_data & WATCH != 0 {
                return Some(Answer::Ready {
                    number: user_data as u32,
                    is_over: !cqueue::more(entry.flags()),
                });
            }
            if let Some(ended) = self.answered(user_data as usize, entry.result()) {
                return Some(ended);
            }
        }
    }

    /// Takes the kernel's answer to the request in `slot`: a count, or a negative error.
    fn answered(&mut self, slot: usize, result: i32) -> Option<Answer> {
        let answer = match u32::try_from(result) {
            Ok(count) => Ok(count as usize),
            Err(_) => Err(Errno::from_raw_os_error(-result)),
        };
        let transfer = self.slots[slot]
            .as_mut()
            .expect("an answer comes to a slot in use");
        let step = match (transfer.request().kind, answer) {
            // The thread that submitted it has ended.
            (_, Err(Errno::CANCELED)) => return Some(Answer::NotHere(self.release(slot))),
            (IoKind::Discard, Err(errno)) if cannot_punch(errno) => {
                return Some(Answer::NotHere(self.release(slot)));
            }
            (IoKind::Commit | IoKind::Discard, Ok(_)) => Step::Done(Ok(())),
            (_, answer) => transfer.advance(answer),
        };
        match step {
            Step::Again => {
                self.ask(slot);
                None
            }
            Step::Done(result) => Some(Answer::Ended(self.release(slot), result)),
        }
    }

    fn release(&mut self, slot: usize) -> Transfer {
        self.free.push(slot);
        self.slots[slot]
            .take()
            .expect("a slot in use has a transfer")
    }

    /// Puts an entry for the rest of the request in `slot` into the ring.
    fn ask(&mut self, slot: usize) {
        let transfer = self.slots[slot]
            .as_ref()
            .expect("a slot in use has a transfer");
        let fd = Fd(transfer.descriptor().as_raw_fd());
        let request = transfer.request();
        let entry = match request.kind {
            IoKind::Read | IoKind::Write => {
                let pages = self.vectors_of_slot;
                let vectors = &mut self.vectors[slot * pages..(slot + 1) * pages];
                let used = transfer.fill_vectors(vectors);
                move_entry(transfer, &vectors[..used], self.registered.as_ref())
            }
            IoKind::Discard => opcode::Fallocate::new(fd, request.length_bytes)
                .offset(request.offset_bytes)
                .mode(punch_flags().bits() as i32)
                .build(),
            IoKind::Commit | IoKind::SetLength => {
                opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build()
            }
        };
        self.push(&entry.user_data(slot as u64));
    }

    /// Asks for an answer as soon as `descriptor` is readable; with `again`, each time it becomes
    /// readable. The descriptor must stay open until then.
    pub(super) fn watch(&mut self, descriptor: BorrowedFd<'_>, number: u32, again: bool) {
        let watched = Fd(descriptor.as_raw_fd());
        let entry = opcode::PollAdd::new(watched, u32::from(PollFlags::IN.bits()))
            .multi(again)
            .build();
        self.push(&entry.user_data(WATCH | u64::from(number)));
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to stays valid until its answer has come. The pages belong
        // to the request in the slot (PagePointer::new), which is finished only after the answer.
        // The vectors of a slot are not written before the answer, and they never move. The
        // transfer keeps the file open. A ring, and everything in it, is dropped only when no slot
        // is in use (`Ring::drop`).
        unsafe {
            self.uring
                .submission()
                .push(entry)
                .expect("the ring has an entry for each slot and each watched descriptor");
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight() > 0 {
            // Only a panic of the thread gets here. The kernel still uses the pages, so their
            // requests cannot end, and nobody else can be told.
            forebay_rt::say("the thread of a ring ended while requests were at the kernel");
            std::process::abort();
        }
    }
}

impl AsFd for Ring {
    #[allow(unsafe_code)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open for as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) }
    }
}

/// The entry that moves `vectors`, in the simplest form that can express it.
fn move_entry(
    transfer: &Transfer,
    vectors: &[IoVector],
    registered: Option<&Registered>,
) -> squeue::Entry {
    let fd = Fd(transfer.descriptor().as_raw_fd());
    let offset = transfer.offset_bytes();
    let is_read = transfer.request().kind == IoKind::Read;
    let flags = if transfer.is_durable() {
        ReadWriteFlags::DSYNC.bits().cast_signed()
    } else {
        0
    };
    let &[IoVector { base, length_bytes }] = vectors else {
        let (first, count) = (vectors.as_ptr().cast(), vectors.len() as u32);
        return if is_read {
            opcode::Readv::new(fd, first, count).offset(offset).build()
        } else {
            opcode::Writev::new(fd, first, count)
                .offset(offset)
                .rw_flags(flags)
                .build()
        };
    };
    let length = length_bytes as u32;
    let place = registered.and_then(|table| table.place_of(vectors[0], transfer.memory()));
    match (is_read, place) {
        (true, Some(place)) => opcode::ReadFixed::new(fd, base, length, place)
            .offset(offset)
            .build(),
        (true, None) => opcode::Read::new(fd, base, length).offset(offset).build(),
        (false, Some(place)) => opcode::WriteFixed::new(fd, base, length, place)
            .offset(offset)
            .rw_flags(flags)
            .build(),
        (false, None) => opcode::Write::new(fd, base, length)
            .offset(offset)
            .rw_flags(flags)
            .build(),
    }
}
