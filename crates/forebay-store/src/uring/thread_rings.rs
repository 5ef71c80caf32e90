//! Rings of threads that wait for their own requests.
//!
//! A thread in a `block_on` that submits a request which it will wait for borrows a ring, puts its
//! request there, and sleeps in the ring ([`forebay_rt::driver`]). The kernel's answer then wakes
//! it directly, without a thread in between. A ring is lent only while something is under way in
//! it. A thread that goes on without the answers hands its ring to the ring thread, because other
//! threads may wait for these answers too.
//!
//! The kernel finishes a request on the thread that submitted it. So these rings are not restricted
//! to one thread, and completions do not have to be asked for (as `DEFER_TASKRUN` would demand):
//! whatever the thread does, its answers arrive, and the thread that has the ring can take them. If
//! the submitting thread has ended, the kernel finishes its requests by itself, or cancels those
//! that it has not begun, and the ring thread submits these again.
//!
//! invariant W1: a ring in which something is under way belongs to a thread that blocks, or to the
//! ring thread, which does not end before every ring is back.

use super::submit_queue::SubmitQueue;
use super::thread_ring::{Ended, MOST_PAGES, ThreadRing};
use crate::request::IoKind;
use crate::transfer::{Addressed, Transfer};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicUsize, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::driver::{self, Driver, DriverWaker, Turn};
use std::cell::RefCell;
use std::sync::Arc;

/// With this many requests in flight the thread waits for one more of them at once: nobody else
/// waits for its answers, mostly.
const IN_FLIGHT_FOR_ONE_MORE: usize = 4;
/// So many requests are handed to the kernel together, before the thread sleeps: a disk that gets
/// all of them only then has nothing to do while the thread begins them, and one that answers what
/// came together in one piece leaves the thread nothing to do meanwhile.
const SUBMITTED_AT_ONCE: usize = 8;

thread_local! {
    static OWN: RefCell<Option<Borrowed>> = const { RefCell::new(None) };
}

/// The ring of the calling thread.
struct Borrowed {
    ring: ThreadRing,
    rings: Arc<ThreadRings>,
}

/// The rings of one store.
pub(crate) struct ThreadRings {
    queue: Arc<SubmitQueue>,
    stock: Mutex<Stock>,
    most: usize,
    /// Requests in all rings, and the most that there may be.
    in_flight: AtomicUsize,
    most_in_flight: usize,
}

struct Stock {
    idle: Vec<ThreadRing>,
    /// Rings that threads have borrowed, the ring thread included.
    out: usize,
    /// The system gives us no more rings, or the store ends.
    is_closed: bool,
}

impl ThreadRings {
    /// Up to `most` rings, none of them made yet, for at most `most_in_flight` requests together.
    pub(super) fn new(queue: Arc<SubmitQueue>, most_in_flight: usize, most: usize) -> ThreadRings {
        ThreadRings {
            queue,
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

    pub(super) fn queue(&self) -> &SubmitQueue {
        &self.queue
    }

    /// Puts `request` into the ring of the calling thread. Gives it back if the thread will not
    /// wait for it, or may not have a ring.
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
        // A request that ends at once may submit more, so the ring must be free here.
        if let Some(transfer) = Transfer::start(request)
            && let Err(transfer) = self.start(transfer.or_durable())
        {
            self.queue.push_begun(transfer);
        }
        Ok(())
    }

    /// Whether the calling thread has a ring of this store with room; it borrows one if it has
    /// none.
    fn has_lane(self: &Arc<Self>) -> bool {
        let is_there = OWN.try_with(|own| match own.try_borrow().as_deref() {
            Ok(Some(own)) => Some(Arc::ptr_eq(&own.rings, self) && own.ring.ring.has_room()),
            Ok(None) => None,
            // A caller further up on this thread is using the ring.
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
        let Some(ring) = self.take() else {
            return false;
        };
        driver::lend(&OwnDriver, Arc::clone(&ring.waker) as Arc<dyn DriverWaker>);
        let rings = Arc::clone(self);
        OWN.with_borrow_mut(|own| *own = Some(Borrowed { ring, rings }));
        true
    }

    #[expect(
        clippy::result_large_err,
        reason = "a transfer that is not started is handed on, and a box would cost an allocation"
    )]
    fn start(&self, transfer: Transfer) -> Result<(), Transfer> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let started = OWN.with_borrow_mut(|own| match own {
            Some(own) if before < self.most_in_flight && own.ring.ring.has_room() => {
                own.ring.ring.start(transfer);
                if own.ring.ring.unsubmitted() >= SUBMITTED_AT_ONCE {
                    own.ring.submit();
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

    /// A request has left its ring.
    pub(super) fn one_less(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn finish(&self, ended: Ended) {
        self.one_less();
        match ended {
            Ok((transfer, result)) => transfer.finish(result),
            Err(transfer) => self.queue.push_begun(transfer),
        }
    }

    /// An idle ring, or a new one if there are not too many.
    fn take(&self) -> Option<ThreadRing> {
        let mut stock = lock(&self.stock);
        if stock.is_closed && stock.idle.is_empty() || stock.out == self.most {
            return None;
        }
        stock.out += 1;
        if let Some(ring) = stock.idle.pop() {
            return Some(ring);
        }
        drop(stock);
        let made = ThreadRing::new();
        if made.is_err() {
            let mut stock = lock(&self.stock);
            stock.out -= 1;
            // Without another ring the ring thread does the work. Asking again would cost as much
            // each time.
            stock.is_closed = true;
        }
        made.ok()
    }

    /// Takes back a ring with nothing under way.
    pub(super) fn put_back(&self, ring: ThreadRing) {
        let is_awaited = {
            let mut stock = lock(&self.stock);
            stock.idle.push(ring);
            stock.out -= 1;
            stock.is_closed && stock.out == 0
        };
        if is_awaited {
            // The ring thread may be waiting for this ring before it ends.
            self.queue.nudge();
        }
    }

    /// Whether no thread has borrowed a ring.
    pub(super) fn are_all_back(&self) -> bool {
        lock(&self.stock).out == 0
    }

    /// Lets the ring thread end once it has finished everything and all rings are back. The calling
    /// thread's own ring is handed over, because the caller is about to wait for the ring thread.
    pub(super) fn stop(self: &Arc<Self>) {
        let own = OWN.try_with(|own| {
            let Ok(mut own) = own.try_borrow_mut() else {
                return None;
            };
            own.take_if(|own| Arc::ptr_eq(&own.rings, self))
        });
        if let Ok(Some(own)) = own {
            own.hand_over();
        }
        lock(&self.stock).is_closed = true;
        self.queue.stop();
    }
}

impl Borrowed {
    /// Called when the thread goes on.
    fn hand_over(mut self) {
        while let Some(ended) = self.ring.next_ended() {
            self.rings.finish(ended);
        }
        if self.ring.is_idle() {
            self.rings.put_back(self.ring);
        } else {
            self.ring.submit();
            self.rings.queue.push_ring(self.ring);
        }
    }
}

/// The ring of the thread that calls.
struct OwnDriver;

impl Driver for OwnDriver {
    fn turn(&self) -> Turn {
        let mut has_done = false;
        loop {
            let next = OWN.with_borrow_mut(|own| {
                let own = own.as_mut()?;
                let ended = own.ring.next_ended()?;
                Some((Arc::clone(&own.rings), ended))
            });
            // The ring is free while waiters are woken: they may submit more.
            match next {
                Some((rings, ended)) => rings.finish(ended),
                None => break,
            }
            has_done = true;
        }
        let is_at_work = OWN.with_borrow(|own| own.as_ref().is_some_and(|own| !own.ring.is_idle()));
        Turn {
            is_at_work,
            has_done,
        }
    }

    fn sleep(&self, longest: Option<Span>) {
        OWN.with_borrow(|own| {
            if let Some(own) = own {
                let wanted = own.ring.ring.answers_to_wait_for(IN_FLIGHT_FOR_ONE_MORE);
                let longest_ns = longest.map(Span::as_nanos);
                own.ring.ring.enter(wanted, longest_ns);
            }
        });
    }

    fn give_back(&self) {
        if let Some(own) = OWN.with_borrow_mut(Option::take) {
            own.hand_over();
        }
    }
}
