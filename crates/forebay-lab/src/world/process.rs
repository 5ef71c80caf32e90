//! Processes: they run until they return or are killed, and can be waited for.

use super::{World, WorldError};
use forebay_base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_engine::lab::LabFile;
use forebay_engine::{Caller, File};
use forebay_rt::wait::Gate;
use forebay_rt::{Charge, Rt, Task, Work};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned.
    Finished,
    /// It was killed first.
    Killed,
}

/// One process, as its own code sees it. A clone is the same process.
#[derive(Clone)]
pub struct Process {
    world: World,
    life: Arc<Life>,
    node: usize,
    /// Whether its frames come from no other node.
    is_bound: bool,
    /// The caller of its handles; without one each handle is a caller of its own.
    caller: Option<Caller>,
}

pub(super) struct Life {
    /// Opened by a kill.
    killed: Gate,
    is_killed: AtomicBool,
    /// Calls under way that no signal interrupts.
    shields: AtomicU32,
    outcome: Mutex<Option<(Instant, Result<Exit, WorldError>)>>,
    /// Opened when it has ended and holds nothing any longer.
    ended: Gate,
}

/// A process, as its starter sees it. Dropping this lets it run on alone.
pub struct ProcessHandle {
    life: Arc<Life>,
    task: Task,
}

impl World {
    /// Ends all processes that still live: the run is over.
    pub(crate) fn end(&self) {
        self.kill_all();
    }

    /// As [`World::end`]; ready when no process is left.
    pub(crate) async fn end_of_all(&self) {
        for life in self.kill_all() {
            life.end().await;
        }
    }

    fn kill_all(&self) -> Vec<Arc<Life>> {
        self.inner.ended.open();
        let lives = std::mem::take(&mut *lock(&self.inner.lives));
        let lives: Vec<_> = lives.iter().filter_map(Weak::upgrade).collect();
        for life in &lives {
            life.kill();
        }
        lives
    }

    /// Starts a process called `name` on the first node.
    pub fn spawn<F>(&self, name: &'static str, body: impl FnOnce(Process) -> F) -> ProcessHandle
    where
        F: Future<Output = Result<(), WorldError>> + Send + 'static,
    {
        self.spawn_on(0, name, body)
    }

    /// Starts a process called `name`, whose frames come from `node` if it has any.
    pub fn spawn_on<F>(
        &self,
        node: usize,
        name: &'static str,
        body: impl FnOnce(Process) -> F,
    ) -> ProcessHandle
    where
        F: Future<Output = Result<(), WorldError>> + Send + 'static,
    {
        let life = Arc::new(Life {
            killed: Gate::new(false),
            is_killed: AtomicBool::new(false),
            shields: AtomicU32::new(0),
            outcome: Mutex::new(None),
            ended: Gate::new(false),
        });
        let mut lives = lock(&self.inner.lives);
        lives.retain(|life| life.strong_count() > 0);
        lives.push(Arc::downgrade(&life));
        drop(lives);
        let process = Process {
            world: self.clone(),
            life: life.clone(),
            node,
            is_bound: false,
            caller: None,
        };
        let living = live(self.rt().clone(), life.clone(), body(process));
        ProcessHandle {
            life,
            task: self.rt().spawn(name, living),
        }
    }
}

/// Runs `body` until it ends or `life` is taken.
async fn live(rt: Rt, life: Arc<Life>, body: impl Future<Output = Result<(), WorldError>>) {
    let outcome = {
        let mut body = pin!(body);
        let mut killed = pin!(life.killed.wait());
        poll_fn(|context| {
            if life.ends_here() {
                return Poll::Ready(Ok(Exit::Killed));
            }
            if let Poll::Ready(result) = body.as_mut().poll(context) {
                return Poll::Ready(result.map(|()| Exit::Finished));
            }
            if !life.is_killed() && killed.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if life.ends_here() {
                return Poll::Ready(Ok(Exit::Killed));
            }
            Poll::Pending
        })
        .await
    };
    *lock(&life.outcome) = Some((rt.now(), outcome));
    life.ended.open();
}

impl Life {
    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.killed.open();
    }

    /// Ready when it has ended.
    pub(super) async fn end(&self) {
        self.ended.wait().await;
    }

    fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    fn ends_here(&self) -> bool {
        self.is_killed() && self.shields.load(Ordering::Acquire) == 0
    }
}

/// While this exists, a kill waits.
pub(super) struct Shield(Arc<Life>);

impl Drop for Shield {
    fn drop(&mut self) {
        self.0.shields.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Process {
    /// Where it runs.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The same process, whose files and memory belong to the caller `name` from now on.
    #[must_use]
    pub fn called(self, name: &str) -> Process {
        Process {
            caller: Some(Caller::named(name)),
            ..self
        }
    }

    /// The same process, whose frames come from its node and from no other.
    #[must_use]
    pub fn bound(self) -> Process {
        Process {
            is_bound: true,
            ..self
        }
    }

    /// `file` as a handle of this process.
    pub(super) fn own(&self, file: &File) -> File {
        let file = if self.is_bound {
            file.bound_to_node(self.node)
        } else {
            file.on_node(self.node)
        };
        match &self.caller {
            Some(caller) => file.for_caller(caller),
            None => file,
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// Waits; a kill ends it.
    pub async fn sleep(&self, span: Span) {
        self.world.rt().sleep(span).await;
    }

    /// Works for `span` in its own code.
    pub async fn compute(&self, span: Span) {
        self.charge(Work::User(span)).await;
    }

    /// Takes the processor time of `work`; more can be joined to it.
    pub fn charge(&self, work: Work) -> Charge {
        self.world.rt().charge(work)
    }

    /// Makes kills wait if the machine's policy cannot be interrupted: a writer that writes back by
    /// itself ignores them until it is done.
    pub(super) fn shield(&self) -> Option<Shield> {
        if self.world.writes_are_interruptible() {
            return None;
        }
        self.life.shields.fetch_add(1, Ordering::AcqRel);
        Some(Shield(self.life.clone()))
    }
}

impl ProcessHandle {
    /// Ends the process at its next wait that can be interrupted.
    pub fn kill(&self) {
        self.life.kill();
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What kept the process from its work.
    pub async fn wait(self) -> Result<Exit, WorldError> {
        let (_, outcome) = self.end().await;
        outcome
    }

    /// Waits for its end, and returns when that was.
    ///
    /// # Errors
    /// As [`ProcessHandle::wait`].
    pub async fn wait_for_time(self) -> Result<Instant, WorldError> {
        let (at, outcome) = self.end().await;
        outcome.map(|_| at)
    }

    async fn end(self) -> (Instant, Result<Exit, WorldError>) {
        self.task.join().await;
        let outcome = lock(&self.life.outcome).take();
        outcome.expect("a task that has ended has said how")
    }
}
