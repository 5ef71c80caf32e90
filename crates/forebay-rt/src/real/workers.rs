//! The threads that run tasks: one queue, and the threads that have nothing to do asleep.

use crate::own_thread::this_thread_runs_tasks;
use crate::park::Parker;
use crate::task::{Ending, Outcome, TaskFuture, poll_task, say_panicked};
use crate::thread;
use forebay_base::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use forebay_base::sync::{Mutex, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// About ten microseconds.
const LOOKS: u32 = 200;

/// Fewer would let one long poll stop every daemon.
const MIN_THREADS: usize = 2;

pub(super) struct Workers {
    queue: Mutex<Queue>,
    /// Tasks in the queue, written under its lock and read without it by a worker that looks for
    /// one.
    ready: AtomicUsize,
    /// How often a thread with nothing to do looks before it sleeps; 0 on a single processor.
    looks: u32,
    /// Set before the tasks are dropped; looked at after each poll.
    stopping: AtomicBool,
}

struct Queue {
    ready: VecDeque<Arc<Runnable>>,
    /// Threads that found nothing to do. The last one to sleep is woken first, because its caches
    /// are warm.
    idle: Vec<Arc<Parker>>,
    /// Threads that were woken and have not taken a task yet. While there is one, no other is
    /// woken: it takes what has come since, and wakes the next if it leaves something.
    searching: usize,
    /// Every task that has not ended, also one that nothing will ever wake.
    alive: BTreeMap<u64, Arc<Runnable>>,
    next_id: u64,
    started: bool,
}

impl Workers {
    pub(super) fn new() -> Workers {
        Workers {
            queue: Mutex::new(Queue {
                ready: VecDeque::new(),
                idle: Vec::new(),
                searching: 0,
                alive: BTreeMap::new(),
                next_id: 0,
                started: false,
            }),
            ready: AtomicUsize::new(0),
            looks: if processors() > 1 { LOOKS } else { 0 },
            stopping: AtomicBool::new(false),
        }
    }

    pub(super) fn spawn(self: &Arc<Self>, name: &'static str, future: TaskFuture, ending: Ending) {
        self.start_once();
        let mut queue = lock(&self.queue);
        let id = queue.next_id;
        queue.next_id += 1;
        let runnable = Arc::new(Runnable {
            id,
            name,
            workers: Arc::clone(self),
            stage: AtomicU8::new(QUEUED),
            running: Mutex::new(Running {
                future: Some(future),
                ending: Some(ending),
            }),
        });
        queue.alive.insert(id, Arc::clone(&runnable));
        drop(queue);
        self.push(runnable);
    }

    /// Ends the threads after their current polls, and drops every task.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let mut queue = lock(&self.queue);
        let ready = std::mem::take(&mut queue.ready);
        let idle = std::mem::take(&mut queue.idle);
        let alive = std::mem::take(&mut queue.alive);
        drop(queue);
        for parker in idle {
            parker.unpark();
        }
        drop(ready);
        for runnable in alive.values() {
            runnable.discard();
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn start_once(self: &Arc<Self>) {
        if std::mem::replace(&mut lock(&self.queue).started, true) {
            return;
        }
        for number in 0..processors().max(MIN_THREADS) {
            let workers = Arc::clone(self);
            thread::spawn_small(&format!("forebay-{number}"), move || workers.run())
                .expect("the system gives the runtime a thread for each processor");
        }
    }

    fn push(&self, runnable: Arc<Runnable>) {
        let mut queue = lock(&self.queue);
        if self.is_stopping() {
            drop(queue);
            drop(runnable);
            return;
        }
        queue.ready.push_back(runnable);
        self.ready.store(queue.ready.len(), Ordering::Release);
        let woken = queue.next_to_wake();
        drop(queue);
        if let Some(parker) = woken {
            parker.unpark();
        }
    }

    fn run(&self) {
        this_thread_runs_tasks();
        let parker = Arc::new(Parker::of_this_thread());
        let mut is_searching = false;
        loop {
            let mut queue = lock(&self.queue);
            if self.is_stopping() {
                return;
            }
            if is_searching {
                queue.searching -= 1;
            }
            let found = queue.ready.pop_front();
            if let Some(runnable) = found {
                is_searching = false;
                self.ready.store(queue.ready.len(), Ordering::Release);
                let woken = queue.next_to_wake();
                drop(queue);
                if let Some(parker) = woken {
                    parker.unpark();
                }
                runnable.run();
            } else if !is_searching && queue.searching == 0 && self.looks > 0 {
                queue.searching += 1;
                is_searching = true;
                drop(queue);
                self.look_out();
            } else {
                queue.idle.push(Arc::clone(&parker));
                drop(queue);
                parker.park();
                is_searching = true;
            }
        }
    }

    /// Looks for a task for a few microseconds: a task that comes in that time needs no wake-up.
    fn look_out(&self) {
        for _ in 0..self.looks {
            if self.ready.load(Ordering::Acquire) > 0 || self.is_stopping() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(not(shuttle))]
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Under the schedule explorer the same on every machine, and nobody looks out for tasks.
#[cfg(shuttle)]
fn processors() -> usize {
    1
}

impl Queue {
    /// The thread to wake for what is in the queue, if it needs one.
    fn next_to_wake(&mut self) -> Option<Arc<Parker>> {
        if self.ready.is_empty() || self.searching > 0 {
            return None;
        }
        let parker = self.idle.pop()?;
        self.searching += 1;
        Some(parker)
    }
}

/// Waits for a wake-up.
const IDLE: u8 = 0;
/// Is in the queue.
const QUEUED: u8 = 1;
/// Is being polled.
const RUNNING: u8 = 2;
/// Is being polled and was woken since.
const WOKEN: u8 = 3;
/// Has ended.
const ENDED: u8 = 4;

/// One task.
struct Runnable {
    id: u64,
    name: &'static str,
    workers: Arc<Workers>,
    stage: AtomicU8,
    /// Locked by the one thread that polls, and tried at the end of the runtime: never waited for.
    running: Mutex<Running>,
}

struct Running {
    future: Option<TaskFuture>,
    ending: Option<Ending>,
}

impl Runnable {
    fn run(self: Arc<Self>) {
        // Acquires what was written by those that woke this task while it was in the queue.
        self.stage.swap(RUNNING, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&self));
        let polled = poll_task(
            &mut lock(&self.running).future,
            &mut Context::from_waker(&waker),
        );
        if let Poll::Ready(outcome) = polled {
            self.stage.store(ENDED, Ordering::Relaxed);
            self.end(outcome);
            return;
        }
        let rests =
            self.stage
                .compare_exchange(RUNNING, IDLE, Ordering::Release, Ordering::Relaxed);
        if rests.is_err() {
            self.stage.swap(QUEUED, Ordering::AcqRel);
            let workers = Arc::clone(&self.workers);
            workers.push(Arc::clone(&self));
        }
        if self.workers.is_stopping() {
            self.discard();
        }
    }

    /// Drops the future at the end of the runtime. If it is being polled (perhaps by the caller,
    /// whose last act this is) the polling thread does it afterwards.
    fn discard(&self) {
        let Ok(mut running) = self.running.try_lock() else {
            return;
        };
        let future = running.future.take();
        let ending = running.ending.take();
        drop(running);
        drop(future);
        drop(ending);
    }

    fn end(&self, outcome: Outcome) {
        let has_panicked = matches!(outcome, Outcome::Panicked(_));
        let alive = lock(&self.workers.queue).alive.remove(&self.id);
        drop(alive);
        let ending = lock(&self.running).ending.take();
        if let Some(ending) = ending {
            ending.report(outcome);
        }
        // Recorded before it is printed: a joiner must not wait for the reader of our output.
        if has_panicked {
            say_panicked(self.name);
        }
    }
}

impl Wake for Runnable {
    fn wake(self: Arc<Self>) {
        let mut stage = self.stage.load(Ordering::Relaxed);
        loop {
            let next = match stage {
                IDLE => QUEUED,
                RUNNING => WOKEN,
                _ => stage,
            };
            match self
                .stage
                .compare_exchange_weak(stage, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => stage = now,
            }
        }
        if stage == IDLE {
            let workers = Arc::clone(&self.workers);
            workers.push(self);
        }
    }
}
