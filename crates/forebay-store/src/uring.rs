//! Files through io_uring.
//!
//! A thread that waits for its own requests has its own lane and sleeps in it (`own.rs`). All other
//! threads leave their requests in an [`Inbox`]. One thread, the ring thread, takes requests from
//! the inbox in batches, submits them to the kernel and sleeps in the same system call, and then
//! finishes the requests that have completed. No other thread touches its ring, so the kernel can
//! leave out its locks and deliver completions when the thread asks for them (`SINGLE_ISSUER`,
//! `DEFER_TASKRUN`). No memory is allocated for a request. One helper thread does what the ring
//! cannot do (lengths, and zeros where no hole can be punched). The ring thread also keeps the
//! lanes of threads that went on without waiting for their answers.

use crate::crew::Crew;
use crate::inbox::{Found, Inbox, Mail, MemoryNews};
use crate::positioned::PositionedQueue;
use crate::registered::{PLACES, Registered};
use crate::request::IoKind;
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

/// With this many requests in flight the ring thread waits for one more of them at once.
const IN_FLIGHT_FOR_ONE_MORE: usize = 8;
/// The bell's number among the watched descriptors; kept lanes have smaller numbers.
const BELL: u32 = u32::MAX;

/// The submitters' side of the ring.
pub(crate) struct Ring {
    own: Arc<OwnLanes>,
    crew: Crew,
}

impl Ring {
    /// Starts the ring thread and its helper. Threads that wait for their own requests share at
    /// most `most_own` lanes.
    ///
    /// # Errors
    /// The error of the system if it does not give us a ring.
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

    /// Carries out `request`: in the caller's own lane, if the caller will wait for it and may have
    /// a lane.
    pub(crate) fn submit(&self, request: Addressed) {
        if let Err(request) = self.own.submit(request) {
            self.own.inbox().push(request);
        }
    }

    pub(crate) fn send_memory(&self, news: MemoryNews) {
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
    /// Requests taken from the inbox that wait for room in the lane.
    mail: Mail,
    /// Lanes of threads that went on while requests were under way in them; each one is watched.
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
            // Linux 5.13 added this together with multishot poll.
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

    /// Starts requests until none are left or there is no room. If there is no room, the next
    /// completion wakes the thread, so nobody has to ring the bell.
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
                self.lane.start(transfer.or_durable());
            }
        }
    }

    /// Submits all new entries to the kernel and sleeps until something completes. If it sleeps
    /// until several answers have come, nobody has to ring the bell.
    fn enter(&mut self) {
        let wanted = self.lane.answers_to_wait_for(IN_FLIGHT_FOR_ONE_MORE);
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
        let place = place.expect("there is a place for every lane");
        self.kept[place] = Some(lane);
        self.reap_kept(place as u32);
    }

    /// Finishes what has completed in a kept lane. The lane goes back if nothing is under way in
    /// it; otherwise it is watched again.
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

/// The best ring for one thread that this kernel can make.
fn build_ring(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::new(entries))
}
