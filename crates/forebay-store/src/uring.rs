//! Files through io_uring.
//!
//! A thread that waits for its own requests has its own ring and sleeps in it (`thread_rings.rs`).
//! All other threads leave their requests in a [`SubmitQueue`]. One thread, the ring thread, takes
//! requests from there in batches, submits them to the kernel and sleeps in the same system call,
//! and then finishes the requests that have completed. No other thread touches its ring, so the
//! kernel can leave out its locks and deliver completions when the thread asks for them
//! (`SINGLE_ISSUER`, `DEFER_TASKRUN`). No memory is allocated for a request. One helper thread does
//! what the ring cannot do (lengths, and zeros where no hole can be punched). The ring thread also
//! keeps the rings of threads that went on without waiting for their answers.

use crate::positioned::PositionedQueue;
use crate::registered::{PLACES, Registered};
use crate::request::IoKind;
use crate::thread_group::ThreadGroup;
use crate::transfer::{Addressed, Transfer};
use forebay_rt::wait::Slot;
use io_uring::IoUring;
use ring::{Answer, Ring};
use rustix::fd::AsFd;
use std::sync::Arc;
use submit_queue::{Found, MemoryNews, Submissions, SubmitQueue};
use thread_ring::ThreadRing;
use thread_rings::ThreadRings;

mod memory;
pub(crate) mod ring;
pub(crate) mod submit_queue;
mod thread_ring;
pub(crate) mod thread_rings;

/// With this many requests in flight the ring thread waits for one more of them at once.
const IN_FLIGHT_FOR_ONE_MORE: usize = 8;
/// The number of the queue's descriptor among the watched ones; kept rings have smaller numbers.
const WAKE_FD: u32 = u32::MAX;

/// The submitters' side of the ring.
pub(crate) struct Submitter {
    own: Arc<ThreadRings>,
    threads: ThreadGroup,
}

impl Submitter {
    /// Starts the ring thread and its helper. Threads that wait for their own requests share at
    /// most `most_own` rings.
    ///
    /// # Errors
    /// The error of the system if it does not give us a ring.
    pub(crate) fn start(
        queue_depth: usize,
        max_io_pages: usize,
        most_own: usize,
    ) -> std::io::Result<Submitter> {
        let queue = Arc::new(SubmitQueue::new(2 * queue_depth)?);
        let own = Arc::new(ThreadRings::new(Arc::clone(&queue), queue_depth, most_own));
        let helper = Arc::new(PositionedQueue::new(16));
        let mut threads = ThreadGroup::default();
        let started = Arc::new(Slot::new());
        let for_ring = RingParts {
            queue,
            own: Arc::clone(&own),
            helper: Arc::clone(&helper),
        };
        let answer = Arc::clone(&started);
        threads.start("forebay-ring", move || {
            match RingThread::new(for_ring, queue_depth, max_io_pages, most_own) {
                Ok(ring_thread) => {
                    answer.set(Ok(()));
                    ring_thread.run();
                }
                Err(refusal) => answer.set(Err(refusal)),
            }
        })?;
        forebay_rt::block_on(started.take())?;
        let for_helper = Arc::clone(&helper);
        let submitter = Submitter { own, threads };
        submitter.with_helper(move || for_helper.work(max_io_pages))
    }

    fn with_helper(mut self, work: impl FnOnce() + Send + 'static) -> std::io::Result<Submitter> {
        self.threads.start("forebay-ring-helper", work)?;
        Ok(self)
    }

    /// Carries out `request`: in the caller's own ring, if the caller will wait for it and may have
    /// a ring.
    pub(crate) fn submit(&self, request: Addressed) {
        if let Err(request) = self.own.submit(request) {
            self.own.queue().push(request);
        }
    }

    pub(crate) fn send_memory(&self, news: MemoryNews) {
        self.own.queue().push_memory(news);
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.own.stop();
        self.threads.join();
    }
}

struct RingParts {
    queue: Arc<SubmitQueue>,
    own: Arc<ThreadRings>,
    helper: Arc<PositionedQueue>,
}

/// What the ring thread owns.
struct RingThread {
    ring: Ring,
    parts: RingParts,
    /// Requests taken from the queue that wait for room in the ring.
    submissions: Submissions,
    /// Rings of threads that went on while requests were under way in them; each one is watched.
    kept: Vec<Option<ThreadRing>>,
}

impl RingThread {
    fn new(
        parts: RingParts,
        depth: usize,
        max_io_pages: usize,
        most_own: usize,
    ) -> std::io::Result<RingThread> {
        let uring = build_ring((depth + 1 + most_own) as u32)?;
        if !uring.params().is_feature_resource_tagging() {
            // Linux 5.13 added this together with multishot poll.
            return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
        }
        let registered = uring
            .submitter()
            .register_buffers_sparse(PLACES as u32)
            .is_ok()
            .then(Registered::new);
        let mut ring = Ring::new(uring, depth, max_io_pages, registered);
        ring.watch(parts.queue.wake_fd().as_fd(), WAKE_FD, true);
        ring.uring.submit()?;
        Ok(RingThread {
            ring,
            parts,
            submissions: Submissions::with_room(2 * depth),
            kept: std::iter::repeat_with(|| None).take(most_own).collect(),
        })
    }

    fn run(mut self) {
        loop {
            let found = self.take_and_start();
            let is_idle = self.ring.in_flight() == 0 && self.submissions.is_empty();
            if found == Found::End && is_idle && self.parts.own.are_all_back() {
                break;
            }
            self.enter();
            self.ring.unpin_forgotten();
            self.parts.queue.wake_up();
            self.reap();
            self.start_mail();
        }
        self.parts.helper.stop();
    }

    /// Starts requests until none are left or there is no room. If there is no room, the next
    /// completion wakes the thread, so nobody has to wake it.
    fn take_and_start(&mut self) -> Found {
        let mut found = Found::Some;
        while found == Found::Some && self.ring.has_room() {
            found = self.parts.queue.take(&mut self.submissions);
            for news in std::mem::take(&mut self.submissions.memory) {
                self.ring.apply(news);
            }
            for ring in std::mem::take(&mut self.submissions.rings) {
                self.keep(ring);
            }
            self.start_mail();
        }
        found
    }

    fn start_mail(&mut self) {
        while self.ring.has_room()
            && let Some(begun) = self.submissions.begun.pop()
        {
            self.ring.start(begun);
        }
        while self.ring.has_room()
            && let Some(request) = self.submissions.requests.pop_front()
        {
            if request.request().kind == IoKind::SetLength {
                self.parts.helper.push(request);
            } else if let Some(transfer) = Transfer::start(request) {
                self.ring.start(transfer.or_durable());
            }
        }
    }

    /// Submits all new entries to the kernel and sleeps until something completes. If it sleeps
    /// until several answers have come, nobody has to wake it.
    fn enter(&mut self) {
        let wanted = self.ring.answers_to_wait_for(IN_FLIGHT_FOR_ONE_MORE);
        if wanted > 1 {
            self.parts.queue.wake_up();
        }
        self.ring.enter(wanted, None);
    }

    fn reap(&mut self) {
        while let Some(answer) = self.ring.next_answer() {
            match answer {
                Answer::Ended(transfer, result) => transfer.finish(result),
                Answer::NotHere(transfer) => self.elsewhere(transfer),
                Answer::Ready {
                    number: WAKE_FD,
                    is_over,
                } => {
                    if is_over {
                        let wake_fd = self.parts.queue.wake_fd().as_fd();
                        self.ring.watch(wake_fd, WAKE_FD, true);
                    }
                }
                Answer::Ready { number, .. } => self.reap_kept(number),
            }
        }
    }

    fn elsewhere(&mut self, transfer: Transfer) {
        if transfer.request().kind == IoKind::Discard {
            self.parts.helper.push(transfer.into_addressed());
        } else {
            self.submissions.begun.push(transfer);
        }
    }

    /// Takes over a ring in which requests are under way.
    fn keep(&mut self, ring: ThreadRing) {
        let place = self.kept.iter().position(Option::is_none);
        let place = place.expect("there is a place for every ring");
        self.kept[place] = Some(ring);
        self.reap_kept(place as u32);
    }

    /// Finishes what has completed in a kept ring. The ring goes back if nothing is under way in
    /// it; otherwise it is watched again.
    fn reap_kept(&mut self, number: u32) {
        let place = number as usize;
        let mut ring = self.kept[place]
            .take()
            .expect("a ring that is watched is kept");
        while let Some(ended) = ring.next_ended() {
            match ended {
                Ok((transfer, result)) => {
                    self.parts.own.one_less();
                    transfer.finish(result);
                }
                Err(transfer) => {
                    self.parts.own.one_less();
                    self.submissions.begun.push(transfer);
                }
            }
        }
        if ring.is_idle() {
            self.parts.own.put_back(ring);
            return;
        }
        ring.submit();
        self.ring.watch(ring.as_fd(), number, false);
        self.kept[place] = Some(ring);
    }
}

/// The best ring for one thread that this kernel can make.
fn build_ring(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::new(entries))
}
