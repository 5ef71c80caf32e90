//! The whole state of a virtual runtime, and the loop that drives it.

use super::events::{Event, Events};
use super::processors::{Job, Processors};
use super::tasks::{Body, TaskKey, Tasks, Waiter};
use super::{ProcessorTimes, TaskReport, VirtualSettings};
use crate::costs::{JobCost, WorkCosts};
use crate::task::{Ending, Outcome, TaskFuture, poll_task, say_panicked};
use crate::timer::TimerId;
use forebay_base::hash::TraceHash;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use std::panic::resume_unwind;
use std::task::{Context, Poll, Waker};

/// What the handles and the driving thread share. Only arithmetic happens under its lock:
/// no future is polled or dropped there, and no waker run or dropped.
pub(crate) struct Simulation {
    now_ns: AtomicU64,
    /// The running task has asked to go after the others.
    gave_way: AtomicBool,
    costs: WorkCosts,
    streams: Prng,
    state: Mutex<State>,
}

struct State {
    events: Events,
    processors: Processors,
    tasks: Tasks,
    trace: TraceHash,
    driven: bool,
    closed: bool,
}

/// The kinds of things in the trace.
#[derive(Clone, Copy)]
enum Kind {
    Spawn = 1,
    Poll,
    End,
    Wake,
    SliceEnd,
}

/// What the driving thread does next, without the lock.
enum Step {
    Poll(TaskKey, Body),
    WakeDue,
    /// Nothing is left to do up to the end of the run.
    Rest,
}

/// Polls the future that was given to a run; true when it is ready.
type PollMain<'a> = &'a mut dyn FnMut(&mut Context<'_>) -> bool;

/// More polls than any real work makes in one instant. Tasks that only wake each other would go on
/// for ever, and the time that would end it would never come.
const POLLS_OF_AN_INSTANT: u64 = 2_000_000;

/// Watches for a run in which tasks go on and time does not.
#[derive(Default)]
struct Standstill {
    at: Instant,
    polls: u64,
}

impl Standstill {
    fn note(&mut self, now: Instant, task: impl FnOnce() -> &'static str) {
        if self.at != now {
            *self = Standstill { at: now, polls: 0 };
        }
        self.polls += 1;
        assert!(
            self.polls <= POLLS_OF_AN_INSTANT,
            "time stands still at {}: {} polls, the last one of task '{}'",
            now - Instant::ZERO,
            self.polls,
            task()
        );
    }
}

impl Simulation {
    pub(super) fn new(settings: VirtualSettings) -> Simulation {
        let root = Prng::from_seed(settings.seed);
        Simulation {
            now_ns: AtomicU64::new(0),
            gave_way: AtomicBool::new(false),
            costs: settings.costs,
            streams: root.child("streams"),
            state: Mutex::new(State {
                events: Events::default(),
                processors: Processors::new(&settings),
                tasks: Tasks::new(root.child("order")),
                trace: TraceHash::default(),
                driven: false,
                closed: false,
            }),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn stream(&self, name: &str) -> Prng {
        self.streams.child(name)
    }

    pub(crate) fn costs(&self) -> &WorkCosts {
        &self.costs
    }

    pub(super) fn jump(&self, span: Span) {
        self.now_ns.fetch_add(span.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn give_way(&self) {
        self.gave_way.store(true, Ordering::Relaxed);
    }

    pub(crate) fn spawn(&self, name: &'static str, future: TaskFuture, ending: Ending) {
        let now = self.now();
        let mut state = lock(&self.state);
        if state.closed {
            drop(state);
            drop((future, ending));
            return;
        }
        let key = state.tasks.add(name, now, Some(future), Some(ending));
        state.trace_spawn(key, now);
    }

    pub(crate) fn poll_timer(
        &self,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.now() >= deadline {
            // The clock passes a time only together with its events, unless it jumped.
            if let Some(passed) = timer.take() {
                self.cancel_timer(passed);
            }
            return Poll::Ready(());
        }
        // An event that never comes is none: a run that has only such events left cannot go on.
        if deadline == Instant::NEVER {
            return Poll::Pending;
        }
        let mut state = lock(&self.state);
        let waiter = state.tasks.waiter(context.waker());
        let mut replaced = None;
        if let Some(id) = timer {
            replaced = Some(state.events.renew(*id, waiter));
        } else {
            *timer = Some(state.events.set(deadline, Event::Wake(waiter)));
        }
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    pub(crate) fn cancel_timer(&self, timer: TimerId) {
        let event = lock(&self.state).events.cancel(timer);
        drop(event);
    }

    pub(crate) fn poll_job(
        &self,
        cost: JobCost,
        job: &mut Option<u32>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let now = self.now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let waiter = state.tasks.waiter(context.waker());
        let Some(index) = *job else {
            let group = state.tasks.group(&waiter);
            let index =
                state
                    .processors
                    .submit(Job::new(cost, group, waiter), now, &mut state.events);
            *job = Some(index);
            return Poll::Pending;
        };
        let (polled, replaced) = state.processors.poll(index, waiter);
        drop(guard);
        drop(replaced);
        polled
    }

    pub(crate) fn cancel_job(&self, job: u32) {
        let now = self.now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let waiter = state.processors.cancel(job, now, &mut state.events);
        drop(guard);
        drop(waiter);
    }

    pub(super) fn trace_hash(&self) -> u64 {
        lock(&self.state).trace.value()
    }

    pub(super) fn tasks(&self) -> Vec<TaskReport> {
        lock(&self.state).tasks.report()
    }

    pub(super) fn processor_busy(&self) -> Vec<Span> {
        let now = self.now();
        lock(&self.state).processors.busy(now)
    }

    pub(crate) fn processor_times(&self) -> ProcessorTimes {
        let now = self.now();
        let state = lock(&self.state);
        let mut times = state.processors.times(now);
        times.by_task_name = state.tasks.by_name(state.processors.busy_by_group());
        times
    }

    /// Drops every task; what is spawned afterwards is dropped at once.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let bodies = state.tasks.take_all();
        let events = state.events.cancel_all();
        drop(state);
        drop(bodies);
        drop(events);
    }

    /// Drives until `main` is ready.
    pub(super) fn run(&self, main: PollMain<'_>) {
        let mut driving = Driving::start(self);
        let now = self.now();
        {
            let mut state = lock(&self.state);
            let key = state.tasks.add("main", now, None, None);
            state.trace_spawn(key, now);
            driving.main = Some(key);
        }
        if !self.drive(Instant::NEVER, main) {
            let waits = lock(&self.state).tasks.describe_waits(self.now());
            panic!("{waits}");
        }
    }

    /// Drives until nothing is left to do up to `end`, and sets the clock there, or leaves it where
    /// it jumped to.
    pub(super) fn run_until(&self, end: Instant) {
        let driving = Driving::start(self);
        self.drive(end, &mut |_| false);
        self.now_ns.fetch_max(end.as_nanos(), Ordering::Relaxed);
        drop(driving);
    }

    /// True when `main` is ready, false when nothing is left to do up to `end`.
    fn drive(&self, end: Instant, main: PollMain<'_>) -> bool {
        let mut due = Vec::new();
        let mut polled = None;
        let mut standstill = Standstill::default();
        loop {
            let step = self.next_step(polled.take(), end, &mut due);
            if let Step::Poll(key, _) = &step {
                standstill.note(self.now(), || lock(&self.state).tasks.name(*key));
            }
            match step {
                Step::Poll(key, body) if body.ending.is_none() => {
                    if main(&mut Context::from_waker(&body.waker)) {
                        return true;
                    }
                    polled = Some((key, body));
                }
                Step::Poll(key, body) => polled = self.poll(key, body),
                Step::WakeDue => due.drain(..).for_each(Waker::wake),
                Step::Rest => return false,
            }
        }
    }

    /// Polls a spawned task; gives it back if it has to wait.
    fn poll(&self, key: TaskKey, mut body: Body) -> Option<(TaskKey, Body)> {
        let polled = poll_task(&mut body.future, &mut Context::from_waker(&body.waker));
        let Poll::Ready(outcome) = polled else {
            return Some((key, body));
        };
        let name = self.remove(key);
        let ending = body.ending.take()?;
        match outcome {
            Outcome::Panicked(panic) => {
                say_panicked(name);
                if ending.is_detached() {
                    resume_unwind(panic);
                }
                ending.report(Outcome::Panicked(panic));
            }
            other => ending.report(other),
        }
        None
    }

    fn remove(&self, key: TaskKey) -> &'static str {
        let now = self.now();
        let mut state = lock(&self.state);
        state.trace_event(now, Kind::End, key.id);
        let name = state.tasks.name(key);
        let rest = state.tasks.remove(key);
        drop(state);
        drop(rest);
        name
    }

    fn next_step(
        &self,
        polled: Option<(TaskKey, Body)>,
        end: Instant,
        due: &mut Vec<Waker>,
    ) -> Step {
        let now = self.now();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut gave_way = None;
        if let Some((key, body)) = polled {
            let asked = self.gave_way.load(Ordering::Relaxed);
            gave_way = asked.then_some(key);
            state.tasks.put_back(key, body, now);
        }
        self.gave_way.store(false, Ordering::Relaxed);
        state.tasks.collect_woken(gave_way, now);
        loop {
            let now = self.now();
            if let Some((key, body)) = state.tasks.take_next(now) {
                state.trace_event(now, Kind::Poll, key.id);
                return Step::Poll(key, body);
            }
            state.processors.release_kept(now, &mut state.events);
            match state.events.next_time() {
                Some(time) if time <= end => {
                    // What was due before a jump happens late, but in its order.
                    self.now_ns.fetch_max(time.as_nanos(), Ordering::Relaxed);
                    state.take_due(time, due);
                }
                _ => return Step::Rest,
            }
            if !due.is_empty() {
                return Step::WakeDue;
            }
        }
    }
}

impl State {
    /// Lets everything happen that happens at `time`.
    fn take_due(&mut self, time: Instant, due: &mut Vec<Waker>) {
        while let Some((sequence, event)) = self.events.pop_at(time) {
            let (kind, waiter) = match event {
                Event::Wake(waiter) => (Kind::Wake, Some(waiter)),
                Event::SliceEnd(processor) => {
                    let events = &mut self.events;
                    (
                        Kind::SliceEnd,
                        self.processors.end_slice(processor, time, events),
                    )
                }
            };
            self.trace_event(time, kind, sequence);
            match waiter {
                Some(Waiter::Task(key)) => self.tasks.make_ready(key, time),
                Some(Waiter::Outside(waker)) => due.push(waker),
                None => {}
            }
        }
    }

    fn trace_event(&mut self, now: Instant, kind: Kind, value: u64) {
        self.trace.note(now.as_nanos().rotate_left(8) ^ kind as u64);
        self.trace.note(value);
    }

    fn trace_spawn(&mut self, key: TaskKey, now: Instant) {
        self.trace_event(now, Kind::Spawn, key.id);
        for byte in self.tasks.name(key).bytes() {
            self.trace.note(u64::from(byte));
        }
    }
}

/// One thread drives at a time, and no task drives the machine on which it runs.
struct Driving<'a> {
    simulation: &'a Simulation,
    /// The future that was given to the run; it is forgotten when the run ends in any way.
    main: Option<TaskKey>,
}

impl<'a> Driving<'a> {
    fn start(simulation: &'a Simulation) -> Driving<'a> {
        let was_driven = std::mem::replace(&mut lock(&simulation.state).driven, true);
        assert!(
            !was_driven,
            "this virtual runtime is being driven already; await instead of running it again"
        );
        Driving {
            simulation,
            main: None,
        }
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if let Some(main) = self.main {
            self.simulation.remove(main);
        }
        lock(&self.simulation.state).driven = false;
    }
}
