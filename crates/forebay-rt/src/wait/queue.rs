//! Waiting for a condition that others change.

use super::line::{Line, WakerBatch};
use super::site;
use forebay_base::sync::atomic::{AtomicUsize, Ordering, fence};
use forebay_base::sync::{Mutex, lock};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Waiters for a condition that others make true.
///
/// A listener is registered the moment it is made; a wake-up between that moment and its first
/// poll is kept for it. So this order loses nothing:
///
/// ```
/// use forebay_rt::{block_on, wait::WaitQueue};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// async fn until(done: &AtomicBool, changed: &WaitQueue) {
///     loop {
///         let listener = changed.listen();
///         if done.load(Ordering::Acquire) {
///             return;
///         }
///         listener.await;
///     }
/// }
///
/// let (done, changed) = (AtomicBool::new(false), WaitQueue::new());
/// done.store(true, Ordering::Release);
/// changed.wake_all();
/// block_on(until(&done, &changed));
/// ```
#[derive(Debug)]
pub struct WaitQueue {
    line: Mutex<Listeners>,
    /// Length of the line, written under its lock and read without it: waking nobody is cheap.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Listeners {
    line: Line<Listening>,
    next_ticket: u64,
}

/// Two words: a cache has a room for each of its pages.
#[derive(Clone, Copy, Debug)]
struct Listening {
    /// Twice the ticket, which grows along the line and separates listeners that came after a
    /// `wake_all` began from those before; and one more for a listener that was woken by
    /// `wake_one`, whose wake-up has to reach a listener that uses it.
    ticket_and_alone: u64,
    /// What it waits for, where the events have numbers; else 0.
    number: u64,
}

impl Listening {
    fn ticket(self) -> u64 {
        self.ticket_and_alone >> 1
    }

    fn is_alone(self) -> bool {
        self.ticket_and_alone & 1 == 1
    }
}

impl WaitQueue {
    /// Bytes of the room for one waiter.
    pub const ROOM_BYTES: usize = Line::<Listening>::PLACE_BYTES;

    /// A queue in which nobody waits.
    pub fn new() -> WaitQueue {
        WaitQueue::with_room(0)
    }

    /// The same with room from the start for `room` waiters at a time; it grows for more, and never
    /// shrinks. A caller that waits for free memory should need none to wait.
    pub fn with_room(room: usize) -> WaitQueue {
        WaitQueue {
            line: Mutex::new(Listeners {
                line: Line::with_room(room),
                next_ticket: 0,
            }),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Joins the queue now; the listener is ready after the next wake-up that reaches it.
    #[must_use = "a listener that is dropped leaves the queue"]
    #[track_caller]
    pub fn listen(&self) -> Listener<'_> {
        self.listen_for(0)
    }

    /// As [`WaitQueue::listen`], for one that has nothing to look for before the event `number`:
    /// [`WaitQueue::wake_up_to`] leaves it asleep until then.
    ///
    /// ```
    /// use forebay_rt::wait::WaitQueue;
    /// let ended = WaitQueue::new();
    /// let (third, fifth) = (ended.listen_for(3), ended.listen_for(5));
    /// assert_eq!(ended.wake_up_to(4), 1);
    /// forebay_rt::block_on(third);
    /// assert_eq!(ended.wake_all(), 1);
    /// forebay_rt::block_on(fifth);
    /// ```
    #[must_use = "a listener that is dropped leaves the queue"]
    #[track_caller]
    pub fn listen_for(&self, number: u64) -> Listener<'_> {
        let place = {
            let mut listeners = lock(&self.line);
            let ticket = listeners.next_ticket;
            listeners.next_ticket += 1;
            let place = listeners.line.join(Listening {
                ticket_and_alone: ticket << 1,
                number,
            });
            self.waiting
                .store(listeners.line.waiting(), Ordering::Relaxed);
            place
        };
        // Between registering here and the caller's look at its condition; the other half is in
        // `nobody_waits`. One of the two sides sees what the other wrote before its fence.
        fence(Ordering::SeqCst);
        Listener {
            queue: self,
            place: Some(place),
            site: Location::caller(),
        }
    }

    /// Wakes all current listeners; returns how many.
    pub fn wake_all(&self) -> usize {
        if self.nobody_waits() {
            return 0;
        }
        let mut woken = 0;
        let mut end_ticket = None;
        loop {
            let mut batch = WakerBatch::default();
            let mut listeners = lock(&self.line);
            let end = *end_ticket.get_or_insert(listeners.next_ticket);
            while !batch.is_full() && listeners.line.front().is_some_and(|it| it.ticket() < end) {
                batch.add(listeners.line.call_front());
            }
            self.waiting
                .store(listeners.line.waiting(), Ordering::Relaxed);
            drop(listeners);
            let more = batch.is_full();
            woken += batch.wake();
            if !more {
                return woken;
            }
        }
    }

    /// Wakes all that listen now for no event after `number`; returns how many.
    pub fn wake_up_to(&self, number: u64) -> usize {
        if self.nobody_waits() {
            return 0;
        }
        let mut woken = 0;
        let mut end_ticket = None;
        loop {
            let mut batch = WakerBatch::default();
            let mut listeners = lock(&self.line);
            let end = *end_ticket.get_or_insert(listeners.next_ticket);
            let wanted = |it: &Listening| it.number <= number && it.ticket() < end;
            while !batch.is_full()
                && let Some(place) = listeners.line.first_where(wanted)
            {
                batch.add(listeners.line.call(place));
            }
            self.waiting
                .store(listeners.line.waiting(), Ordering::Relaxed);
            drop(listeners);
            let more = batch.is_full();
            woken += batch.wake();
            if !more {
                return woken;
            }
        }
    }

    /// Wakes the listener that has waited longest; returns 1, or 0 if nobody listens. If that
    /// listener is dropped before it notices, the wake-up goes on to the next.
    pub fn wake_one(&self) -> usize {
        if self.nobody_waits() {
            return 0;
        }
        let waker = {
            let mut listeners = lock(&self.line);
            let Some(front) = listeners.line.front() else {
                return 0;
            };
            front.ticket_and_alone |= 1;
            let waker = listeners.line.call_front();
            self.waiting
                .store(listeners.line.waiting(), Ordering::Relaxed);
            waker
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        1
    }

    /// How many listeners have not been woken yet. It may have changed when the caller looks at it.
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn nobody_waits(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

impl Default for WaitQueue {
    fn default() -> WaitQueue {
        WaitQueue::new()
    }
}

/// A place in a [`WaitQueue`]: ready once woken. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Listener<'a> {
    queue: &'a WaitQueue,
    /// None once the wake-up was seen.
    place: Option<u32>,
    /// The listeners.
    site: &'static Location<'static>,
}

impl Future for Listener<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(place) = self.place {
            let (woken, replaced) = lock(&self.queue.line).line.poll(place, context.waker());
            drop(replaced);
            if !woken {
                site::note(self.site);
                return Poll::Pending;
            }
            self.place = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else {
            return;
        };
        let (unused, waker) = {
            let mut listeners = lock(&self.queue.line);
            let left = listeners.line.leave(place);
            self.queue
                .waiting
                .store(listeners.line.waiting(), Ordering::Relaxed);
            left
        };
        drop(waker);
        if unused.is_some_and(Listening::is_alone) {
            self.queue.wake_one();
        }
    }
}
