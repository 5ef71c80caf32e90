//! Files through io_uring: one thread owns one ring.
//!
//! Submitters leave requests in an [`Inbox`]; the ring thread takes them in batches, hands them
//! to the kernel and sleeps in the same system call, and finishes what comes back. It is the
//! only one that touches the ring, which lets the kernel leave out its locks and deliver
//! completions when the thread asks (`SINGLE_ISSUER`, `DEFER_TASKRUN`). Nothing is allocated for
//! a request. What the ring cannot do (lengths, zeros where no hole can be punched) goes to one
//! helper thread.

use crate::crew::Crew;
use crate::inbox::{Found, Inbox, MemoryNews};
use crate::io::IoKind;
use crate::positioned::{PositionedQueue, cannot_punch, punch_flags};
use crate::registered::{PLACES, Registered};
use crate::transfer::{Addressed, IoVector, Step, Transfer};
use forebay_rt::wait::Slot;
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

mod memory;

/// The user data of the bell; requests have the number of their slot.
const BELL: u64 = u64::MAX;

/// With so many requests in flight the thread waits for one more of them at once.
const REQUESTS_FOR_ONE_MORE: usize = 8;
/// But never for more than these.
const MOST_AT_ONCE: usize = 8;
/// And not longer than this.
const PATIENCE_NS: u32 = 100_000;

/// The submitters' side of the ring.
pub(crate) struct Ring {
    inbox: Arc<Inbox>,
    crew: Crew,
}

impl Ring {
    /// Starts the ring thread and its helper.
    ///
    /// # Errors
    /// What the system said, if it does not let us have a ring.
    pub(crate) fn start(queue_depth: usize, max_io_pages: usize) -> std::io::Result<Ring> {
        let inbox = Arc::new(Inbox::new(2 * queue_depth)?);
        let helper = Arc::new(PositionedQueue::new(16));
        let mut crew = Crew::default();
        let started = Arc::new(Slot::new());
        let for_ring = RingParts {
            inbox: Arc::clone(&inbox),
            helper: Arc::clone(&helper),
            queue_depth,
            max_io_pages,
        };
        let answer = Arc::clone(&started);
        crew.start("forebay-ring", move || match RingThread::new(for_ring) {
            Ok(ring_thread) => {
                answer.set(Ok(()));
                ring_thread.run();
            }
            Err(refusal) => answer.set(Err(refusal)),
        })?;
        forebay_rt::block_on(started.take())?;
        let for_helper = Arc::clone(&helper);
        let ring = Ring { inbox, crew };
        ring.with_helper(move || for_helper.work(max_io_pages))
    }

    fn with_helper(mut self, work: impl FnOnce() + Send + 'static) -> std::io::Result<Ring> {
        self.crew.start("forebay-ring-helper", work)?;
        Ok(self)
    }

    pub(crate) fn submit(&self, request: Addressed) {
        self.inbox.push(request);
    }

    pub(crate) fn tell_memory(&self, news: MemoryNews) {
        self.inbox.push_memory(news);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.inbox.stop();
        self.crew.join();
    }
}

struct RingParts {
    inbox: Arc<Inbox>,
    helper: Arc<PositionedQueue>,
    queue_depth: usize,
    max_io_pages: usize,
}

/// What the ring thread owns.
struct RingThread {
    ring: IoUring,
    parts: RingParts,
    /// Requests at the kernel. A slot has at most one entry in the ring.
    slots: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// `max_io_pages` for each slot: the kernel reads them when the entry is submitted.
    vectors: Vec<IoVector>,
    /// Requests that wait for a slot.
    backlog: VecDeque<Addressed>,
    news: Vec<MemoryNews>,
    registered: Option<Registered>,
}

impl RingThread {
    fn new(parts: RingParts) -> std::io::Result<RingThread> {
        let depth = parts.queue_depth;
        let ring = build_ring(depth as u32 + 1)?;
        if !ring.params().is_feature_resource_tagging() {
            // Linux 5.13 brought this, and the poll that reports more than once.
            return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
        }
        let registered = ring
            .submitter()
            .register_buffers_sparse(PLACES as u32)
            .is_ok()
            .then(Registered::new);
        let mut ring_thread = RingThread {
            ring,
            slots: std::iter::repeat_with(|| None).take(depth).collect(),
            free: (0..depth).rev().collect(),
            vectors: vec![IoVector::EMPTY; depth * parts.max_io_pages],
            backlog: VecDeque::with_capacity(2 * depth),
            news: Vec::new(),
            registered,
            parts,
        };
        ring_thread.arm_bell();
        ring_thread.ring.submit()?;
        Ok(ring_thread)
    }

    fn run(mut self) {
        loop {
            let found = self.take_and_start();
            let idle = self.free.len() == self.slots.len() && self.backlog.is_empty();
            if found == Found::End && idle {
                break;
            }
            self.enter();
            self.unpin_forgotten();
            self.parts.inbox.wake_up();
            self.reap();
            self.start_backlog();
        }
        self.parts.helper.stop();
    }

    /// Starts what has come until nothing is left or no slot is free. In the latter case the next
    /// completion wakes the thread, so that nobody need ring the bell.
    fn take_and_start(&mut self) -> Found {
        let mut found = Found::Some;
        while found == Found::Some && !self.free.is_empty() {
            found = self.parts.inbox.take(&mut self.backlog, &mut self.news);
            for news in std::mem::take(&mut self.news) {
                self.apply(news);
            }
            self.start_backlog();
        }
        found
    }

    fn start_backlog(&mut self) {
        while !self.free.is_empty()
            && let Some(request) = self.backlog.pop_front()
        {
            if request.request().kind == IoKind::SetLength {
                self.parts.helper.push(request);
            } else if let Some(transfer) = Transfer::start(request) {
                let slot = self.free.pop().expect("a free slot was seen above");
                self.slots[slot] = Some(transfer);
                self.ask(slot);
            }
        }
    }

    /// Hands everything new to the kernel and sleeps until something comes back. While many
    /// requests are in flight it sleeps until several have, or a tenth of a millisecond has
    /// passed: then the thread, and those whom it wakes, run once for all of them, and nobody
    /// need ring the bell.
    fn enter(&mut self) {
        let in_flight = self.slots.len() - self.free.len();
        let wanted = (in_flight / REQUESTS_FOR_ONE_MORE).clamp(1, MOST_AT_ONCE);
        let entered = if wanted > 1 && self.ring.params().is_feature_ext_arg() {
            self.parts.inbox.wake_up();
            let patience = Timespec::new().nsec(PATIENCE_NS);
            let args = SubmitArgs::new().timespec(&patience);
            self.ring.submitter().submit_with_args(wanted, &args)
        } else {
            self.ring.submit_and_wait(1)
        };
        match entered {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                // Interrupted, out of patience, or too much at once: what comes back makes room.
                Some(Errno::INTR | Errno::TIME | Errno::AGAIN | Errno::BUSY) => {}
                _ => panic!("the kernel refuses a ring that it has accepted: {error}"),
            },
        }
    }

    fn reap(&mut self) {
        while let Some(entry) = self.next_answer() {
            if entry.user_data() == BELL {
                if !cqueue::more(entry.flags()) {
                    self.arm_bell();
                }
            } else {
                self.answered(entry.user_data() as usize, entry.result());
            }
        }
    }

    fn next_answer(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Takes the kernel's answer to the request in `slot`: a count, or minus an error.
    fn answered(&mut self, slot: usize, result: i32) {
        let answer = match u32::try_from(result) {
            Ok(count) => Ok(count as usize),
            Err(_) => Err(Errno::from_raw_os_error(-result)),
        };
        let transfer = self.slots[slot]
            .as_mut()
            .expect("an answer comes to a slot in use");
        let step = match (transfer.request().kind, answer) {
            (IoKind::Discard, Err(errno)) if cannot_punch(errno) => {
                let transfer = self.release(slot);
                return self.parts.helper.push(transfer.into_addressed());
            }
            (IoKind::Commit | IoKind::Discard, Ok(_)) => Step::Done(Ok(())),
            (_, answer) => transfer.advance(answer),
        };
        match step {
            Step::Again => self.ask(slot),
            Step::Done(result) => self.release(slot).finish(result),
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
                let pages = self.parts.max_io_pages;
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

    /// Asks for an event each time the bell rings.
    fn arm_bell(&mut self) {
        let bell = Fd(self.parts.inbox.bell().as_raw_fd());
        let entry = opcode::PollAdd::new(bell, u32::from(PollFlags::IN.bits()))
            .multi(true)
            .build();
        self.push(&entry.user_data(BELL));
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to stays valid until its answer has come. The pages belong
        // to the request in the slot (PagePointer::new), which is finished only then; the vectors
        // of a slot are written again only then and never move; the file is held by the transfer.
        // The ring is dropped, and everything in it, only when no slot is in use (`run`); a panic
        // drops an unfinished Io, which stops the program.
        unsafe {
            self.ring
                .submission()
                .push(entry)
                .expect("the ring has an entry for each slot and one for the bell");
        }
    }
}

/// The entry that moves `vectors`: in the plainest form that says it.
fn move_entry(
    transfer: &Transfer,
    vectors: &[IoVector],
    registered: Option<&Registered>,
) -> squeue::Entry {
    let fd = Fd(transfer.descriptor().as_raw_fd());
    let offset = transfer.offset_bytes();
    let is_read = transfer.request().kind == IoKind::Read;
    let &[IoVector { base, length_bytes }] = vectors else {
        let (first, count) = (vectors.as_ptr().cast(), vectors.len() as u32);
        return if is_read {
            opcode::Readv::new(fd, first, count).offset(offset).build()
        } else {
            opcode::Writev::new(fd, first, count).offset(offset).build()
        };
    };
    let length = length_bytes as u32;
    let place = registered.and_then(|table| table.place_of(vectors[0]));
    match (is_read, place) {
        (true, Some(place)) => opcode::ReadFixed::new(fd, base, length, place)
            .offset(offset)
            .build(),
        (true, None) => opcode::Read::new(fd, base, length).offset(offset).build(),
        (false, Some(place)) => opcode::WriteFixed::new(fd, base, length, place)
            .offset(offset)
            .build(),
        (false, None) => opcode::Write::new(fd, base, length).offset(offset).build(),
    }
}

/// The best ring that this kernel makes.
fn build_ring(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::new(entries))
}
