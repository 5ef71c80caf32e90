//! One thread that wakes whoever waits for a time.

use crate::sleep::TimerId;
use crate::thread::{self, Joiner, Stopwatch};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

pub(super) struct Timers {
    clock: Stopwatch,
    queue: Mutex<Queue>,
}

struct Queue {
    /// Ordered by deadline, then by age.
    waiting: BTreeMap<(Instant, u64), Waker>,
    next_sequence: u64,
    /// Started with the first timer.
    thread: Option<Joiner>,
    stopping: bool,
}

impl Timers {
    pub(super) fn new(clock: Stopwatch) -> Timers {
        Timers {
            clock,
            queue: Mutex::new(Queue {
                waiting: BTreeMap::new(),
                next_sequence: 0,
                thread: None,
                stopping: false,
            }),
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.clock.elapsed()
    }

    pub(super) fn poll(
        self: &Arc<Self>,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        waker: &Waker,
    ) -> Poll<()> {
        if self.now() >= deadline {
            if let Some(known) = timer.take() {
                self.cancel(deadline, known);
            }
            return Poll::Ready(());
        }
        if deadline != Instant::NEVER {
            let replaced = self.set(deadline, timer, waker);
            drop(replaced);
        }
        Poll::Pending
    }

    pub(super) fn cancel(&self, deadline: Instant, timer: TimerId) {
        let waker = lock(&self.queue)
            .waiting
            .remove(&(deadline, timer.sequence));
        drop(waker);
    }

    /// Drops every waiter and ends the thread.
    pub(super) fn stop(&self) {
        let mut queue = lock(&self.queue);
        queue.stopping = true;
        let waiting = std::mem::take(&mut queue.waiting);
        if let Some(joiner) = &queue.thread {
            joiner.thread().unpark();
        }
        drop(queue);
        drop(waiting);
    }

    /// Sets or renews a timer. Returns a waker to be dropped without the lock.
    fn set(
        self: &Arc<Self>,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        waker: &Waker,
    ) -> Option<Waker> {
        let mut queue = lock(&self.queue);
        let known = timer.map(|timer| (deadline, timer.sequence));
        if let Some(known) = known.and_then(|key| queue.waiting.get_mut(&key)) {
            if known.will_wake(waker) {
                return None;
            }
            return Some(std::mem::replace(known, waker.clone()));
        }
        let key = (deadline, queue.next_sequence);
        queue.next_sequence += 1;
        queue.waiting.insert(key, waker.clone());
        *timer = Some(TimerId {
            sequence: key.1,
            place: 0,
        });
        let is_first = queue
            .waiting
            .first_key_value()
            .is_some_and(|it| *it.0 == key);
        match &queue.thread {
            Some(joiner) if is_first => joiner.thread().unpark(),
            Some(_) => {}
            None => queue.thread = Some(self.start()),
        }
        None
    }

    fn start(self: &Arc<Self>) -> Joiner {
        let timers = Arc::clone(self);
        thread::spawn("forebay-timer", move || timers.run())
            .expect("the system gives the runtime its one timer thread")
    }

    fn run(&self) {
        let mut due = Vec::new();
        while let Some(pause) = self.collect_due(&mut due) {
            if due.is_empty() {
                // A timer set since the look above has left its token, and this returns at once.
                #[allow(clippy::disallowed_methods, reason = "this is the timer of all others")]
                std::thread::park_timeout(pause);
            }
            for waker in due.drain(..) {
                waker.wake();
            }
        }
    }

    /// Takes the wakers whose time has come; returns the time until the next, or None at the end.
    fn collect_due(&self, due: &mut Vec<Waker>) -> Option<Duration> {
        let now = self.now();
        let mut queue = lock(&self.queue);
        if queue.stopping {
            return None;
        }
        while let Some(first) = queue.waiting.first_entry() {
            let deadline = first.key().0;
            if deadline > now {
                return Some(Duration::from_nanos((deadline - now).as_nanos()));
            }
            due.push(first.remove());
        }
        Some(Duration::from_nanos(Span::MAX.as_nanos()))
    }
}
