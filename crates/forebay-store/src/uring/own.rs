//! Lanes of threads that wait for their own requests.
//!
//! A thread in a `block_on` that submits a request which it will wait for borrows a lane, puts its
//! request there, and sleeps in the lane ([`forebay_rt::driver`]). The kernel's answer then wakes
//! it directly, without a thread in between. A lane is lent only while something is under way in
//! it. A thread that goes on without the answers hands its lane to the ring thread, because other
//! threads may wait for these answers too.
//!
//! The kernel finishes a request on the thread that submitted it. So these rings are not restricted
//! to one thread, and completions do not have to be asked for (as `DEFER_TASKRUN` would demand):
//! whatever the thread does, its answers arrive, and the thread that has the lane can take them. If
//! the submitting thread has ended, the kernel finishes its requests by itself, or cancels those
//! that it has not begun, and the ring thread submits these again.
//!
//! invariant W1: a lane in which something is under way belongs to a thread that blocks, or to the
//! ring thread, which does not end before every lane is back.

use super::lane::{Answer, Lane};
use crate::error::Failure;
use crate::inbox::Inbox;
use crate::request::IoKind;
use crate::transfer::{Addressed, Transfer};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicUsize, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::driver::{self, Bell, Driver, Turn};
use io_uring::IoUring;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::sync::Arc;

/// Most requests in one lane.
const DEPTH: usize = 32;
/// Most pages of a request in a lane. A longer request takes so long that a switch of threads costs
/// nothing in comparison.
const MOST_PAGES: usize = 32;
/// With this many requests in flight the thread waits for one more of them at once: nobody else
/// waits for its answers, mostly.
const IN_FLIGHT_FOR_ONE_MORE: usize = 4;
/// So many requests are handed to the kernel together, before the thread sleeps: a disk that gets
/// all of them only then has nothing to do while the thread begins them, and one that answers what
/// came together in one piece leaves the thread nothing to do meanwhile.
const SUBMITTED_AT_ONCE: usize = 8;
/// The bell's number among the descriptors that a lane watches.
const BELL: u32 = 0;

thread_local! {
    static OWN: RefCell<Option<Borrowed>> = const { RefCell::new(None) };
}

/// The lane of the calling thread.
struct Borrowed {
    lane: OwnLane,
    lanes: Arc<OwnLanes>,
}

/// Ends the sleep of a thread in its lane. The event counter is never read: each ring is a separate
/// event.
struct LaneBell(OwnedFd);

impl Bell for LaneBell {
    fn ring(&self) {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1_u64.to_ne_bytes()))
            .expect("an event counter takes one more: it holds almost 2^64");
    }
}

/// A lane that goes from one thread to another, and its bell.
pub(crate) struct OwnLane {
    lane: Lane,
    bell: Arc<LaneBell>,
}

/// A transfer that has ended; or one that was cancelled before it began.
pub(super) type Ended = Result<(Transfer, Result<(), Failure>), Transfer>;

impl OwnLane {
    fn new() -> std::io::Result<OwnLane> {
        let entries = DEPTH as u32 + 1;
        let ring = IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut lane = Lane::new(ring, DEPTH, MOST_PAGES, None);
        lane.watch(bell.as_fd(), BELL, true);
        Ok(OwnLane {
            lane,
            bell: Arc::new(LaneBell(bell)),
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lane.in_flight() == 0
    }

    /// Submits new entries to the kernel without waiting for them.
    pub(super) fn submit(&self) {
        self.lane.submit();
    }

    /// The next request that has ended, if one has.
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        loop {
            match self.lane.next_answer()? {
                Answer::Ended(transfer, result) => return Some(Ok((transfer, result))),
                Answer::NotHere(transfer) => return Some(Err(transfer)),
                Answer::Ready { is_over: true, .. } => {
                    self.lane.watch(self.bell.0.as_fd(), BELL, true);
                }
                Answer::Ready { is_over: false, .. } => {}
            }
        }
    }
}

impl AsFd for OwnLane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lane.as_fd()
    }
}

/// The lanes of one store.
pub(crate) struct OwnLanes {
    inbox: Arc<Inbox>,
    stock: Mutex<Stock>,
    most: usize,
    /// Requests in all lanes, and the most that there may be.
    in_flight: AtomicUsize,
    most_in_flight: usize,
}

struct Stock {
    idle: Vec<OwnLane>,
    /// Lanes that threads have borrowed, the ring thread included.
    out: usize,
    /// The system gives us no more lanes, or the store ends.
    is_closed: bool,
}

impl OwnLanes {
    /// Up to `most` lanes, none of them made yet, for at most `most_in_flight` requests together.
    pub(super) fn new(inbox: Arc<Inbox>, most_in_flight: usize, most: usize) -> OwnLanes {
        OwnLanes {
            inbox,
            stock: Mutex::new(Stock {
                idle: Vec::with_capacity(most),
                out: 0,
                is_closed: false,
            }),
            most,
            in_flight: AtomicUsize::new(0),
            most_in_flight,
        }
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Puts `request` into the lane of the calling thread. Gives it back if the thread will not
    /// wait for it, or may not have a lane.
    #[expect(
        clippy::result_large_err,
        reason = "a request that is not started is handed on, and a box would cost an allocation"
    )]
    pub(super) fn submit(self: &Arc<Self>, request: Addressed) -> Result<(), Addressed> {
        let asked = request.request();
        let fits = matches!(asked.kind, IoKind::Read | IoKind::Write | IoKind::Commit)
            && request.pages() <= MOST_PAGES;
        if !request.is_awaited() || !fits || !self.has_lane() {
            return Err(request);
        }
        // A request that ends at once may submit more, so the lane must be free here.
        if let Some(transfer) = Transfer::start(request)
            && let Err(transfer) = self.start(transfer.or_durable())
        {
            self.inbox.push_begun(transfer);
        }
        Ok(())
    }

    /// Whether the calling thread has a lane of this store with room; it borrows one if it has
    /// none.
    fn has_lane(self: &Arc<Self>) -> bool {
        let is_there = OWN.try_with(|own| match own.try_borrow().as_deref() {
            Ok(Some(own)) => Some(Arc::ptr_eq(&own.lanes, self) && own.lane.lane.has_room()),
            Ok(None) => None,
            // A caller further up on this thread is using the lane.
            Err(_) => Some(false),
        });
        match is_there {
            Ok(None) => self.borrow_lane(),
            Ok(Some(has_room)) => has_room,
            // The thread is ending.
            Err(_) => false,
        }
    }

    fn borrow_lane(self: &Arc<Self>) -> bool {
        if !driver::is_wanted() {
            return false;
        }
        let Some(lane) = self.take() else {
            return false;
        };
        driver::lend(&OwnDriver, Arc::clone(&lane.bell) as Arc<dyn Bell>);
        let lanes = Arc::clone(self);
        OWN.with_borrow_mut(|own| *own = Some(Borrowed { lane, lanes }));
        true
    }

    #[expect(
        clippy::result_large_err,
        reason = "a transfer that is not started is handed on, and a box would cost an allocation"
    )]
    fn start(&self, transfer: Transfer) -> Result<(), Transfer> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let started = OWN.with_borrow_mut(|own| match own {
            Some(own) if before < self.most_in_flight && own.lane.lane.has_room() => {
                own.lane.lane.start(transfer);
                if own.lane.lane.unsubmitted() >= SUBMITTED_AT_ONCE {
                    own.lane.submit();
                }
                Ok(())
            }
            _ => Err(transfer),
        });
        if started.is_err() {
            self.one_less();
        }
        started
    }

    /// A request has left its lane.
    pub(super) fn one_less(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn finish(&self, ended: Ended) {
        self.one_less();
        match ended {
            Ok((transfer, result)) => transfer.finish(result),
            Err(transfer) => self.inbox.push_begun(transfer),
        }
    }

    /// An idle lane, or a new one if there are not too many.
    fn take(&self) -> Option<OwnLane> {
        let mut stock = lock(&self.stock);
        if stock.is_closed && stock.idle.is_empty() || stock.out == self.most {
            return None;
        }
        stock.out += 1;
        if let Some(lane) = stock.idle.pop() {
            return Some(lane);
        }
        drop(stock);
        let made = OwnLane::new();
        if made.is_err() {
            let mut stock = lock(&self.stock);
            stock.out -= 1;
            // Without another lane the ring thread does the work. Asking again would cost as much
            // each time.
            stock.is_closed = true;
        }
        made.ok()
    }

    /// Takes back a lane with nothing under way.
    pub(super) fn put_back(&self, lane: OwnLane) {
        let is_awaited = {
            let mut stock = lock(&self.stock);
            stock.idle.push(lane);
            stock.out -= 1;
            stock.is_closed && stock.out == 0
        };
        if is_awaited {
            // The ring thread may be waiting for this lane before it ends.
            self.inbox.nudge();
        }
    }

    /// Whether no thread has borrowed a lane.
    pub(super) fn are_all_back(&self) -> bool {
        lock(&self.stock).out == 0
    }

    /// Lets the ring thread end once it has finished everything and all lanes are back. The calling
    /// thread's own lane is handed over, because the caller is about to wait for the ring thread.
    pub(super) fn stop(self: &Arc<Self>) {
        let own = OWN.try_with(|own| {
            let Ok(mut own) = own.try_borrow_mut() else {
                return None;
            };
            own.take_if(|own| Arc::ptr_eq(&own.lanes, self))
        });
        if let Ok(Some(own)) = own {
            own.hand_over();
        }
        lock(&self.stock).is_closed = true;
        self.inbox.stop();
    }
}

impl Borrowed {
    /// Called when the thread goes on.
    fn hand_over(mut self) {
        while let Some(ended) = self.lane.next_ended() {
            self.lanes.finish(ended);
        }
        if self.lane.is_idle() {
            self.lanes.put_back(self.lane);
        } else {
            self.lane.submit();
            self.lanes.inbox.push_lane(self.lane);
        }
    }
}

/// The lane of the thread that calls.
struct OwnDriver;

impl Driver for OwnDriver {
    fn turn(&self) -> Turn {
        let mut has_done = false;
        loop {
            let next = OWN.with_borrow_mut(|own| {
                let own = own.as_mut()?;
                let ended = own.lane.next_ended()?;
                Some((Arc::clone(&own.lanes), ended))
            });
            // The lane is free while waiters are woken: they may submit more.
            match next {
                Some((lanes, ended)) => lanes.finish(ended),
                None => break,
            }
            has_done = true;
        }
        let is_at_work = OWN.with_borrow(|own| own.as_ref().is_some_and(|own| !own.lane.is_idle()));
        Turn {
            is_at_work,
            has_done,
        }
    }

    fn sleep(&self, longest: Option<Span>) {
        OWN.with_borrow(|own| {
            if let Some(own) = own {
                let wanted = own.lane.lane.answers_to_wait_for(IN_FLIGHT_FOR_ONE_MORE);
                let longest_ns = longest.map(Span::as_nanos);
                own.lane.lane.enter(wanted, longest_ns);
            }
        });
    }

    fn give_back(&self) {
        if let Some(own) = OWN.with_borrow_mut(Option::take) {
            own.hand_over();
        }
    }
}
