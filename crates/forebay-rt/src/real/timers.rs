//! One thread that wakes those that wait for a time.

use super::deadlines::{Deadlines, ROOM};
use crate::alarm::{self, AlarmId};
use crate::thread::{self, Joiner, Stopwatch};
use crate::timer::TimerId;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

#[cfg(shuttle)]
use crate::explored::threads::park_timeout;
#[cfg(not(shuttle))]
use std::thread::park_timeout;

pub(super) struct Timers {
    clock: Stopwatch,
    queue: Mutex<Queue>,
}

struct Queue {
    waiting: Deadlines,
    /// Started with the first timer.
    thread: Option<Joiner>,
    stopping: bool,
}

impl Timers {
    pub(super) fn new(clock: Stopwatch) -> Timers {
        Timers {
            clock,
            queue: Mutex::new(Queue {
                waiting: Deadlines::new(),
                thread: None,
                stopping: false,
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn has_thread(&self) -> bool {
        lock(&self.queue).thread.is_some()
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.clock.elapsed()
    }

    pub(super) fn poll(
        self: &Arc<Self>,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        alarm: &mut Option<AlarmId>,
        waker: &Waker,
    ) -> Poll<()> {
        if self.now() >= deadline {
            if let Some(known) = timer.take() {
                self.cancel(known);
            }
            return Poll::Ready(());
        }
        if deadline == Instant::NEVER {
            return Poll::Pending;
        }
        let is_own = timer.is_none() && alarm::set(waker, self.clock, deadline, alarm);
        if !is_own {
            let replaced = self.set(deadline, timer, waker);
            drop(replaced);
        }
        Poll::Pending
    }

    pub(super) fn cancel(&self, timer: TimerId) {
        let waker = lock(&self.queue).waiting.remove(timer);
        drop(waker);
    }

    /// Drops every waiter and ends the thread.
    pub(super) fn stop(&self) {
        let mut queue = lock(&self.queue);
        queue.stopping = true;
        let waiting = queue.waiting.take_all();
        if let Some(joiner) = &queue.thread {
            joiner.thread().unpark();
        }
        drop(queue);
        drop(waiting);
    }

    /// Sets or renews a timer. Returns a waker that must be dropped without the lock.
    fn set(
        self: &Arc<Self>,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        waker: &Waker,
    ) -> Option<Waker> {
        let mut queue = lock(&self.queue);
        let known = timer.and_then(|timer| queue.waiting.waker(timer));
        if let Some(known) = known {
            if known.will_wake(waker) {
                return None;
            }
            return Some(std::mem::replace(known, waker.clone()));
        }
        let set = queue.waiting.insert(deadline, waker.clone());
        *timer = Some(set);
        let is_first = queue.waiting.is_first(set);
        match &queue.thread {
            Some(joiner) if is_first => joiner.thread().unpark(),
            Some(_) => {}
            None => queue.thread = Some(self.start()),
        }
        None
    }

    fn start(self: &Arc<Self>) -> Joiner {
        let timers = Arc::clone(self);
        thread::spawn_small("forebay-timer", move || timers.run())
            .expect("the system gives the runtime its one timer thread")
    }

    fn run(&self) {
        let mut due = Vec::with_capacity(ROOM);
        while let Some(pause) = self.collect_due(&mut due) {
            if due.is_empty() {
                // A timer that was set since the check above has left its token, so this returns at
                // once.
                #[allow(clippy::disallowed_methods, reason = "this is the timer of all others")]
                park_timeout(pause);
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
        while let Some(deadline) = queue.waiting.first() {
            if deadline > now {
                return Some(Duration::from_nanos((deadline - now).as_nanos()));
            }
            due.extend(queue.waiting.pop());
        }
        Some(Duration::from_nanos(Span::MAX.as_nanos()))
    }
}
