//! Files through io_uring.
//!
//! A thread that waits for its own requests has a lane of its own, in which it sleeps (`own.rs`).
//! Everybody else leaves requests in an [`Inbox`]: one thread, the ring thread, takes them in
//! batches, hands them to the kernel and sleeps in the same system call, and finishes what comes
//! back. It is the only one that touches its ring, which lets the kernel leave out its locks and
//! deliver completions when the thread asks (`SINGLE_ISSUER`, `DEFER_TASKRUN`). Nothing is
//! allocated for a request. What the ring cannot do (lengths, zeros where no hole can be punched)
//! goes to one helper thread. The ring thread also keeps the lanes of threads that went on without
//! the answers.

use crate::crew::Crew;
use crate::inbox::{Found, Inbox, Mail, MemoryNews};
use crate::io::IoKind;
use crate::positioned::PositionedQueue;
use crate::registered::{PLACES, Registered};
use crate::transfer::{Addressed, Transfer};
use forebay_rt::wait::Slot;
use io_uring::IoUring;
use lane::{Answer, Lane};
use own::{OwnLane, OwnLanes};
use rustix::fd::AsFd;
use std::sync::Arc;

pub(crate) mod lane;
mod memory;
pub(crate) mod own;

/// The number of the bell among what is watched; lanes that are kept have smaller ones.
const BELL: u32 = u32::MAX;

/// The submitters' side of the ring.
pub(crate) struct Ring {
    own: Arc<OwnLanes>,
    crew: Crew,
}

impl Ring {
    /// Starts the ring thread and its helper. Threads that wait for their own requests have up to
    /// `most_own` lanes.
    ///
    /// # Errors
    /// What the system said, if it does not let us have a ring.
    pub(crate) fn start(
        queue_depth: usize,
        max_io_pages: usize,
        most_own: usize,
    ) -> std::io::Result<Ring> {
        let inbox = Arc::new(Inbox::new(2 * queue_depth)?);
        let own = Arc::new(OwnLanes::new(Arc::clone(&inbox), queue_depth, most_own));
        let helper = Arc::new(PositionedQueue::new(16));
        let mut crew = Crew::default();
        let started = Arc::new(Slot::new());
        let for_ring = RingParts {
            inbox,
            own: Arc::clone(&own),
            helper: Arc::clone(&helper),
        };
        let answer = Arc::clone(&started);
        crew.start("forebay-ring", move || {
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
        let ring = Ring { own, crew };
        ring.with_helper(move || for_helper.work(max_io_pages))
    }

    fn with_helper(mut self, work: impl FnOnce() + Send + 'static) -> std::io::Result<Ring> {
        self.crew.start("forebay-ring-helper", work)?;
        Ok(self)
    }

    /// Carries out `request`: in the caller's own lane if it will wait for it, and may.
    pub(crate) fn submit(&self, request: Addressed) {
        if let Err(request) = self.own.submit(request) {
            self.own.inbox().push(request);
        }
    }

    pub(crate) fn tell_memory(&self, news: MemoryNews) {
        self.own.inbox().push_memory(news);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.own.stop();
        self.crew.join();
    }
}

struct RingParts {
    inbox: Arc<Inbox>,
    own: Arc<OwnLanes>,
    helper: Arc<PositionedQueue>,
}

/// What the ring thread owns.
struct RingThread {
    lane: Lane,
    parts: RingParts,
    /// What was taken from the inbox and waits for a place in the lane.
    mail: Mail,
    /// Lanes of threads that went on, with what is under way there; each is watched.
    kept: Vec<Option<OwnLane>>,
}

impl RingThread {
    fn new(
        parts: RingParts,
        depth: usize,
        max_io_pages: usize,
        most_own: usize,
    ) -> std::io::Result<RingThread> {
        let ring = build_ring((depth + 1 + most_own) as u32)?;
        if !ring.params().is_feature_resource_tagging() {
            // Linux 5.13 brought this, and the poll that reports more than once.
            return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
        }
        let registered = ring
            .submitter()
            .register_buffers_sparse(PLACES as u32)
            .is_ok()
            .then(Registered::new);
        let mut lane = Lane::new(ring, depth, max_io_pages, registered);
        lane.watch(parts.inbox.bell().as_fd(), BELL, true);
        lane.ring.submit()?;
        Ok(RingThread {
            lane,
            parts,
            mail: Mail::with_room(2 * depth),
            kept: std::iter::repeat_with(|| None).take(most_own).collect(),
        })
    }

    fn run(mut self) {
        loop {
            let found = self.take_and_start();
            let is_idle = self.lane.in_flight() == 0 && self.mail.is_empty();
            if found == Found::End && is_idle && self.parts.own.are_all_back() {
                break;
            }
            self.enter();
            self.lane.unpin_forgotten();
            self.parts.inbox.wake_up();
            self.reap();
            self.start_mail();
        }
        self.parts.helper.stop();
    }

    /// Starts what has come until nothing is left or there is no room. In the latter case the next
    /// completion wakes the thread, so that nobody need ring the bell.
    fn take_and_start(&mut self) -> Found {
        let mut found = Found::Some;
        while found == Found::Some && self.lane.has_room() {
            found = self.parts.inbox.take(&mut self.mail);
            for news in std::mem::take(&mut self.mail.memory) {
                self.lane.apply(news);
            }
            for lane in std::mem::take(&mut self.mail.lanes) {
                self.keep(lane);
            }
            self.start_mail();
        }
        found
    }

    fn start_mail(&mut self) {
        while self.lane.has_room()
            && let Some(begun) = self.mail.begun.pop()
        {
            self.lane.start(begun);
        }
        while self.lane.has_room()
            && let Some(request) = self.mail.requests.pop_front()
        {
            if request.request().kind == IoKind::SetLength {
                self.parts.helper.push(request);
            } else if let Some(transfer) = Transfer::start(request) {
                self.lane.start(transfer);
            }
        }
    }

    /// Hands everything new to the kernel and sleeps until something comes back. If it sleeps until
    /// more than one answer has come, nobody need ring the bell.
    fn enter(&mut self) {
        let wanted = self.lane.answers_to_wait_for();
        if wanted > 1 {
            self.parts.inbox.wake_up();
        }
        self.lane.enter(wanted, None);
    }

    fn reap(&mut self) {
        while let Some(answer) = self.lane.next_answer() {
            match answer {
                Answer::Ended(transfer, result) => transfer.finish(result),
                Answer::NotHere(transfer) => self.elsewhere(transfer),
                Answer::Ready {
                    number: BELL,
                    is_over,
                } => {
                    if is_over {
                        let bell = self.parts.inbox.bell().as_fd();
                        self.lane.watch(bell, BELL, true);
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
            self.mail.begun.push(transfer);
        }
    }

    /// Takes over a lane in which requests are under way.
    fn keep(&mut self, lane: OwnLane) {
        let place = self.kept.iter().position(Option::is_none);
        let place = place.expect("there is a place for each lane that there is");
        self.kept[place] = Some(lane);
        self.reap_kept(place as u32);
    }

    /// Finishes what has ended in a lane that is kept. It goes back when nothing is under way, or
    /// is watched further.
    fn reap_kept(&mut self, number: u32) {
        let place = number as usize;
        let mut lane = self.kept[place]
            .take()
            .expect("a lane that is watched is kept");
        while let Some(ended) = lane.next_ended() {
            match ended {
                Ok((transfer, result)) => {
                    self.parts.own.one_less();
                    transfer.finish(result);
                }
                Err(transfer) => {
                    self.parts.own.one_less();
                    self.mail.begun.push(transfer);
                }
            }
        }
        if lane.is_idle() {
            self.parts.own.put_back(lane);
            return;
        }
        lane.submit();
        self.lane.watch(lane.as_fd(), number, false);
        self.kept[place] = Some(lane);
    }
}

/// The best ring that this kernel makes for one thread.
fn build_ring(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::new(entries))
}
