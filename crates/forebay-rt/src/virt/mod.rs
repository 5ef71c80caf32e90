//! The virtual body: one thread, simulated time, simulated processors.
//!
//! Only waiting takes time: tasks run until all of them wait, then the clock jumps to the next
//! event. Among the tasks that are ready at one instant the next is drawn from the seed, so
//! schedules differ between seeds and never within one. [`Virtual::trace_hash`] of two runs with
//! one seed is equal; if it is not, something depended on the outside simulation.

mod events;
mod processors;
mod simulation;
mod tasks;

use crate::Rt;
use crate::costs::WorkCosts;
use forebay_base::{Instant, Span};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

pub(crate) use simulation::Simulation;

/// A simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct VirtualSettings {
    /// Decides the order of what is ready at one instant, and the named streams of chance.
    pub seed: u64,
    /// Simulated processors, on which [`Rt::charge`] spends time; at least 1.
    pub processors: usize,
    /// What the kinds of work cost.
    pub costs: WorkCosts,
    /// How long a task keeps a processor while others wait for one; at least 1 ns.
    pub slice: Span,
}

impl Default for VirtualSettings {
    /// Seed 0, one processor, work that costs nothing, slices of 4 ms.
    fn default() -> VirtualSettings {
        VirtualSettings {
            seed: 0,
            processors: 1,
            costs: WorkCosts::default(),
            slice: Span::from_millis(4),
        }
    }
}

/// A virtual runtime. The thread that calls [`Virtual::run`] drives it.
///
/// Dropping it drops its tasks. Its handles may be sent anywhere, but a wake-up from another
/// thread comes at a moment that no seed decides.
///
/// ```
/// use forebay_base::{Instant, Span};
/// use forebay_rt::{Virtual, VirtualSettings};
///
/// let machine = Virtual::new(VirtualSettings::default());
/// let rt = machine.rt();
/// machine.run(rt.sleep(Span::from_secs(3600)));
/// assert_eq!(machine.now(), Instant::ZERO + Span::from_secs(3600));
/// ```
pub struct Virtual {
    simulation: Arc<Simulation>,
}

/// Sets the clock of a [`Virtual`], also from within its tasks.
#[derive(Clone)]
pub struct VirtualClock {
    simulation: Arc<Simulation>,
}

impl VirtualClock {
    /// Lets the clock jump forward, as the clock of a suspended machine does: nothing happens in
    /// between, and what was due in that time happens afterwards, in its order.
    ///
    /// ```
    /// use forebay_base::{Instant, Span};
    /// use forebay_rt::{Virtual, VirtualSettings};
    /// let machine = Virtual::new(VirtualSettings::default());
    /// let (rt, clock) = (machine.rt(), machine.clock());
    /// let rest = machine.rt();
    /// let sleeper = rt.spawn("sleeper", async move { rest.sleep(Span::from_secs(1)).await });
    /// machine.run(async {
    ///     rt.yield_now().await;
    ///     clock.jump(Span::from_secs(60));
    ///     sleeper.join().await;
    /// });
    /// assert_eq!(machine.now(), Instant::ZERO + Span::from_secs(60));
    /// ```
    pub fn jump(&self, span: Span) {
        self.simulation.jump(span);
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualClock")
            .field("now", &self.simulation.now())
            .finish_non_exhaustive()
    }
}

/// What a task does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It can run now.
    Ready,
    /// It is being polled.
    Running,
    /// It waits for an event.
    Waiting,
}

/// What all simulated processors together did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// In the code of processes ([`Work::User`](crate::Work::User)).
    pub user: Span,
    /// In everything else, waiting for locks included.
    pub system: Span,
    /// Spinning for locks, a part of `system`.
    pub spinning: Span,
    /// How often a processor changed to another task, or to one after idling.
    pub switches: u64,
    /// Work of finished slices by name of task.
    pub by_task_name: BTreeMap<&'static str, Span>,
}

/// One task, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The number of the task in the order of spawning; futures given to `run` count too.
    pub id: u64,
    /// The name under which it was spawned; `main` for a future given to `run`.
    pub name: &'static str,
    /// What it does.
    pub state: TaskState,
    /// Since when.
    pub since: Instant,
}

impl Virtual {
    /// A machine at time zero, without tasks.
    ///
    /// # Panics
    /// If there is no processor or the slice is zero.
    pub fn new(settings: VirtualSettings) -> Virtual {
        assert!(
            settings.processors > 0 && settings.slice > Span::ZERO,
            "a machine needs a processor and a time slice"
        );
        Virtual {
            simulation: Arc::new(Simulation::new(settings)),
        }
    }

    /// A handle for what runs on this machine.
    pub fn rt(&self) -> Rt {
        Rt {
            body: Arc::clone(&self.simulation).into(),
        }
    }

    /// The hand that sets the machine's clock.
    pub fn clock(&self) -> VirtualClock {
        VirtualClock {
            simulation: Arc::clone(&self.simulation),
        }
    }

    /// Runs the machine until `future` is ready. Other tasks then stay where they are, and go on in
    /// the next run.
    ///
    /// # Panics
    /// If nothing is left that could wake `future` (the message names the waiters, and for how
    /// long); if a task panics that nobody can join; if it is called from one of its own tasks.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut output = None;
        let mut poll = |context: &mut std::task::Context<'_>| {
            let polled = future.as_mut().poll(context);
            polled.map(|value| output = Some(value)).is_ready()
        };
        self.simulation.run(&mut poll);
        output.expect("a run ends only when its future is ready")
    }

    /// Runs the spawned tasks for `span`, and stops with the clock there, or later if it jumped.
    ///
    /// ```
    /// use forebay_base::Span;
    /// use forebay_rt::{Virtual, VirtualSettings};
    /// let machine = Virtual::new(VirtualSettings::default());
    /// let rt = machine.rt();
    /// let task = machine.rt().spawn("sleeper", async move { rt.sleep(Span::from_secs(9)).await });
    /// machine.run_for(Span::from_secs(8));
    /// assert!(!task.is_finished());
    /// machine.run_for(Span::from_secs(1));
    /// assert!(task.is_finished());
    /// ```
    ///
    /// # Panics
    /// If a task panics that nobody can join.
    pub fn run_for(&self, span: Span) {
        self.run_until(self.now() + span);
    }

    /// Runs the spawned tasks up to and including what happens at `end`, and stops with the clock
    /// there, or later if it jumped. An end in the past runs only what is ready now.
    ///
    /// # Panics
    /// If a task panics that nobody can join.
    pub fn run_until(&self, end: Instant) {
        self.simulation.run_until(end.max(self.now()));
    }

    /// Simulated time.
    pub fn now(&self) -> Instant {
        self.simulation.now()
    }

    /// A hash of everything that happened so far, in order: what, when, to which task.
    pub fn trace_hash(&self) -> u64 {
        self.simulation.trace_hash()
    }

    /// The tasks that have not ended, oldest first.
    pub fn tasks(&self) -> Vec<TaskReport> {
        self.simulation.tasks()
    }

    /// How the simulated processors have spent their time so far, all together.
    pub fn processor_times(&self) -> ProcessorTimes {
        self.simulation.processor_times()
    }

    /// How long each simulated processor has worked so far.
    pub fn processor_busy(&self) -> Vec<Span> {
        self.simulation.processor_busy()
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        self.simulation.close();
    }
}

impl fmt::Debug for Virtual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Virtual")
            .field("now", &self.now())
            .field("tasks", &self.tasks())
            .finish_non_exhaustive()
    }
}
