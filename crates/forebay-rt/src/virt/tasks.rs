//! The tasks of a virtual runtime, and whose turn it is.

use super::{TaskReport, TaskState};
use crate::task::{Ending, TaskFuture};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// One task among all that there ever were: its place, which is reused, and its number, which is
/// not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskKey {
    pub(super) place: u32,
    pub(super) id: u64,
}

/// Those that wait for an event of the machine itself.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A task of this machine. It is made ready without a waker, which accounts for most of the
    /// speed.
    Task(TaskKey),
    /// A waiter that polled from elsewhere, or through a combinator with wakers of its own.
    Outside(Waker),
}

/// Those that were woken since the last look. They are kept apart from everything else, so that a
/// wake-up from any thread needs no other lock.
#[derive(Debug, Default)]
struct WakeList {
    woken: Mutex<Vec<TaskKey>>,
    /// Set with each entry; looked at before the lock is taken.
    any: AtomicBool,
}

/// What a waker of a task refers to.
#[derive(Debug)]
struct TaskWaker {
    key: TaskKey,
    wake_list: Arc<WakeList>,
    /// Set from the wake-up to the poll: several wake-ups count as one.
    is_woken: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            lock(&self.wake_list.woken).push(self.key);
            self.wake_list.any.store(true, Ordering::Release);
        }
    }
}

/// What is taken out of a task's place while it is polled.
pub(super) struct Body {
    /// None: the future that was given to a run, which the run itself holds.
    pub(super) future: Option<TaskFuture>,
    pub(super) ending: Option<Ending>,
    pub(super) waker: Waker,
}

struct Place {
    id: u64,
    name: &'static str,
    /// The number of its name.
    group: usize,
    state: TaskState,
    since: Instant,
    woken: Arc<TaskWaker>,
    waker: Waker,
    /// None while it is polled.
    body: Option<Body>,
    in_use: bool,
}

/// Every task, and the queues of those that are ready.
pub(super) struct Tasks {
    places: Vec<Place>,
    free: Vec<u32>,
    next_id: u64,
    ready: Vec<u32>,
    /// Those that let the others run first.
    yielded: Vec<u32>,
    /// The one that is being polled.
    running: Option<TaskKey>,
    wake_list: Arc<WakeList>,
    order: Prng,
    /// Every name that there ever was.
    names: Vec<&'static str>,
}

impl Tasks {
    pub(super) fn new(order: Prng) -> Tasks {
        Tasks {
            places: Vec::new(),
            free: Vec::new(),
            next_id: 0,
            ready: Vec::new(),
            yielded: Vec::new(),
            running: None,
            wake_list: Arc::new(WakeList::default()),
            order,
            names: Vec::new(),
        }
    }

    /// Adds a task that is ready to run.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        now: Instant,
        future: Option<TaskFuture>,
        ending: Option<Ending>,
    ) -> TaskKey {
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        let key = TaskKey {
            place,
            id: self.next_id,
        };
        self.next_id += 1;
        let woken = Arc::new(TaskWaker {
            key,
            wake_list: Arc::clone(&self.wake_list),
            is_woken: AtomicBool::new(true),
        });
        let waker = Waker::from(Arc::clone(&woken));
        let known = self.names.iter().position(|&known| known == name);
        let group = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let task = Place {
            id: key.id,
            name,
            group,
            state: TaskState::Ready,
            since: now,
            woken,
            waker: waker.clone(),
            body: Some(Body {
                future,
                ending,
                waker,
            }),
            in_use: true,
        };
        if place as usize == self.places.len() {
            self.places.push(task);
        } else {
            self.places[place as usize] = task;
        }
        self.ready.push(place);
        key
    }

    /// The task that polls with `waker`.
    pub(super) fn waiter(&self, waker: &Waker) -> Waiter {
        match self.running {
            Some(key) if self.places[key.place as usize].waker.will_wake(waker) => {
                Waiter::Task(key)
            }
            _ => Waiter::Outside(waker.clone()),
        }
    }

    /// The number of the name of the task that waits; none for a waiter from outside.
    pub(super) fn group(&self, waiter: &Waiter) -> Option<(TaskKey, usize)> {
        match waiter {
            Waiter::Task(key) => Some((*key, self.places[key.place as usize].group)),
            Waiter::Outside(_) => None,
        }
    }

    /// Replaces each number of a name by the name.
    pub(super) fn by_name(&self, of_group: &[Span]) -> BTreeMap<&'static str, Span> {
        self.names
            .iter()
            .copied()
            .zip(of_group.iter().copied())
            .collect()
    }

    /// Makes a task ready, unless it is ready already or has ended.
    pub(super) fn make_ready(&mut self, key: TaskKey, now: Instant) {
        let place = &mut self.places[key.place as usize];
        if place.id == key.id && place.in_use && !place.woken.is_woken.swap(true, Ordering::AcqRel)
        {
            place.state = TaskState::Ready;
            place.since = now;
            self.ready.push(key.place);
        }
    }

    /// Moves those that were woken to the queues. `gave_way` goes after the others.
    pub(super) fn collect_woken(&mut self, gave_way: Option<TaskKey>, now: Instant) {
        if !self.wake_list.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut woken = lock(&self.wake_list.woken);
        for key in woken.drain(..) {
            let place = &mut self.places[key.place as usize];
            if place.id != key.id || !place.in_use {
                continue;
            }
            place.state = TaskState::Ready;
            place.since = now;
            if gave_way == Some(key) {
                self.yielded.push(key.place);
            } else {
                self.ready.push(key.place);
            }
        }
    }

    /// Draws the next task from those that are ready.
    pub(super) fn take_next(&mut self, now: Instant) -> Option<(TaskKey, Body)> {
        if self.ready.is_empty() {
            std::mem::swap(&mut self.ready, &mut self.yielded);
        }
        let drawn = match self.ready.len() {
            0 => return None,
            1 => 0,
            many => self.order.below(many as u64) as usize,
        };
        let index = self.ready.swap_remove(drawn);
        let place = &mut self.places[index as usize];
        place.state = TaskState::Running;
        place.since = now;
        let key = TaskKey {
            place: index,
            id: place.id,
        };
        let body = place.body.take()?;
        place.woken.is_woken.store(false, Ordering::Release);
        self.running = Some(key);
        Some((key, body))
    }

    /// Puts a polled task back to wait.
    pub(super) fn put_back(&mut self, key: TaskKey, body: Body, now: Instant) {
        self.running = None;
        let place = &mut self.places[key.place as usize];
        place.body = Some(body);
        place.state = TaskState::Waiting;
        place.since = now;
    }

    /// Forgets a task. What is left of it must be dropped without the lock.
    pub(super) fn remove(&mut self, key: TaskKey) -> Option<Body> {
        let place = &mut self.places[key.place as usize];
        place.in_use = false;
        if self.running == Some(key) {
            self.running = None;
        }
        if place.state == TaskState::Ready {
            self.ready.retain(|&ready| ready != key.place);
            self.yielded.retain(|&yielded| yielded != key.place);
        }
        self.free.push(key.place);
        place.body.take()
    }

    /// The name of a task.
    pub(super) fn name(&self, key: TaskKey) -> &'static str {
        self.places[key.place as usize].name
    }

    /// Takes everything out of every task, to be dropped without the lock.
    pub(super) fn take_all(&mut self) -> Vec<Option<Body>> {
        self.ready.clear();
        self.yielded.clear();
        self.free.clear();
        std::mem::take(&mut self.places)
            .into_iter()
            .map(|place| place.body)
            .collect()
    }

    pub(super) fn report(&self) -> Vec<TaskReport> {
        let mut report: Vec<TaskReport> = self
            .places
            .iter()
            .filter(|place| place.in_use)
            .map(|place| TaskReport {
                id: place.id,
                name: place.name,
                state: place.state,
                since: place.since,
            })
            .collect();
        report.sort_by_key(|task| task.id);
        report
    }

    /// Those that wait, and since when, for a run that cannot go on.
    pub(super) fn describe_waits(&self, now: Instant) -> String {
        let mut text = format!(
            "nothing can wake anybody any more at {}; these wait:",
            now.since(Instant::ZERO)
        );
        for task in self.report() {
            let since = task.since.since(Instant::ZERO);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  task {} '{}' since {since}", task.id, task.name);
        }
        text
    }
}
