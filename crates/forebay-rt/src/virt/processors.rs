//! The simulated processors and their one run queue.
//!
//! A job takes its place at the end of the queue. The job at the head gets the next processor that
//! is free, and its task keeps that processor for one time slice, in one job or in many: when a job
//! ends, the processor stays with the task as long as the task asks for more in the same instant.
//! So a task that works in small steps has the same share as one that works in large ones. A job
//! whose slice is over goes to the end of the queue. A processor that starts a task other than its
//! last one switches to it first. A job that needs a lock takes its turn for it when it starts, and
//! its processor spins until then.

use super::events::{Event, Events};
use super::tasks::{TaskKey, Waiter};
use super::{ProcessorTimes, VirtualSettings};
use crate::costs::JobCost;
use crate::timer::TimerId;
use forebay_base::{Instant, Span};
use std::collections::VecDeque;
use std::task::Poll;

#[derive(Debug)]
pub(super) struct Processors {
    slice: Span,
    each: Vec<Processor>,
    /// Those without a job, the most recently busy one first.
    idle: Vec<usize>,
    /// Those whose job has ended in this instant and whose task may have more.
    kept: Vec<usize>,
    queue: VecDeque<u32>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    switch_cost: Span,
    /// When each lock is free again.
    locks: Vec<Instant>,
    user: Span,
    spinning: Span,
    switches: u64,
    busy_by_group: Vec<Span>,
}

#[derive(Debug)]
struct Processor {
    /// The job, the time since which it runs here, and the end of its slice.
    runs: Option<(u32, Instant, TimerId)>,
    busy: Span,
    /// The task that it served last, and until when.
    served: Option<(TaskKey, Instant)>,
    /// What that task has left of its slice.
    slice_left: Span,
}

#[derive(Debug)]
pub(super) struct Job {
    rest: Span,
    /// The first part of it that is user code.
    user_rest: Span,
    /// A lock that it still has to take, and how long it holds it.
    lock: Option<(u32, Span)>,
    /// The task and the number of its name, unless it came from outside.
    task: Option<(TaskKey, usize)>,
    stage: Stage,
    waiter: Option<Waiter>,
}

impl Job {
    /// A job of `cost` for a task, with the number of its name, or for a waiter from outside.
    pub(super) fn new(cost: JobCost, task: Option<(TaskKey, usize)>, waiter: Waiter) -> Job {
        Job {
            rest: cost.total,
            user_rest: cost.user,
            lock: cost.lock,
            task,
            stage: Stage::Queued,
            waiter: Some(waiter),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Queued,
    Running(usize),
    Done,
}

impl Processors {
    pub(super) fn new(settings: &VirtualSettings) -> Processors {
        let count = settings.processors;
        let idle = |_| Processor {
            runs: None,
            busy: Span::ZERO,
            served: None,
            slice_left: Span::ZERO,
        };
        Processors {
            slice: settings.slice,
            switch_cost: Span::from_nanos(settings.costs.switch_ns),
            locks: Vec::new(),
            user: Span::ZERO,
            spinning: Span::ZERO,
            switches: 0,
            busy_by_group: Vec::new(),
            each: (0..count).map(idle).collect(),
            idle: (0..count).rev().collect(),
            kept: Vec::new(),
            queue: VecDeque::new(),
            jobs: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Queues a job.
    pub(super) fn submit(&mut self, job: Job, now: Instant, events: &mut Events) -> u32 {
        let task = job.task;
        let index = if let Some(index) = self.free.pop() {
            self.jobs[index as usize] = job;
            index
        } else {
            self.jobs.push(job);
            (self.jobs.len() - 1) as u32
        };
        if let Some(processor) = self.take_kept(task) {
            self.start(processor, index, now, events);
            return index;
        }
        self.queue.push_back(index);
        if let Some(processor) = self.take_idle(task) {
            self.start_next(processor, now, events);
        }
        index
    }

    /// The processor that is kept for this task, if one is.
    fn take_kept(&mut self, task: Option<(TaskKey, usize)>) -> Option<usize> {
        let (key, _) = task?;
        let served = |&processor: &usize| {
            let served = self.each[processor].served;
            served.is_some_and(|(served, _)| served == key)
        };
        let place = self.kept.iter().position(served)?;
        Some(self.kept.swap_remove(place))
    }

    /// All tasks of this instant have run: processors that were kept for more go to the queue.
    pub(super) fn release_kept(&mut self, now: Instant, events: &mut Events) {
        while let Some(processor) = self.kept.pop() {
            self.start_next(processor, now, events);
        }
    }

    /// An idle processor: the one that served this task last if it is idle.
    fn take_idle(&mut self, task: Option<(TaskKey, usize)>) -> Option<usize> {
        let served = |&processor: &usize| {
            let served = self.each[processor].served;
            served.is_some_and(|(served, _)| Some(served) == task.map(|(key, _)| key))
        };
        match self.idle.iter().rposition(served) {
            Some(place) => Some(self.idle.remove(place)),
            None => self.idle.pop(),
        }
    }

    /// Frees a job that is done; otherwise lets it wake `waiter` instead. The other return value
    /// must be dropped without the lock.
    pub(super) fn poll(&mut self, index: u32, waiter: Waiter) -> (Poll<()>, Option<Waiter>) {
        let job = &mut self.jobs[index as usize];
        if matches!(job.stage, Stage::Done) {
            self.free.push(index);
            return (Poll::Ready(()), Some(waiter));
        }
        (Poll::Pending, job.waiter.replace(waiter))
    }

    /// Ends a job before its time. Returns what must be dropped without the lock.
    pub(super) fn cancel(
        &mut self,
        index: u32,
        now: Instant,
        events: &mut Events,
    ) -> Option<Waiter> {
        match self.jobs[index as usize].stage {
            Stage::Queued => self.queue.retain(|&queued| queued != index),
            Stage::Running(processor) => {
                if let Some((_, _, slice_end)) = self.each[processor].runs {
                    // The waiter is the job's; the event itself holds none.
                    events.cancel(slice_end);
                }
                self.stop(processor, now);
                self.start_next(processor, now, events);
            }
            Stage::Done => {}
        }
        self.free.push(index);
        self.jobs[index as usize].waiter.take()
    }

    /// The slice of `processor` is over: its job is done, and its waiter is returned, or it goes to
    /// the end of the queue.
    pub(super) fn end_slice(
        &mut self,
        processor: usize,
        now: Instant,
        events: &mut Events,
    ) -> Option<Waiter> {
        let index = self.stop(processor, now)?;
        let job = &mut self.jobs[index as usize];
        let mut done = None;
        if job.rest == Span::ZERO {
            job.stage = Stage::Done;
            done = job.waiter.take();
            if job.task.is_some() && self.each[processor].slice_left > Span::ZERO {
                self.kept.push(processor);
                return done;
            }
        } else {
            job.stage = Stage::Queued;
            self.queue.push_back(index);
        }
        self.start_next(processor, now, events);
        done
    }

    /// Time that each processor has worked, up to `now`.
    pub(super) fn busy(&self, now: Instant) -> Vec<Span> {
        let busy = |it: &Processor| match it.runs {
            Some((_, since, _)) => it.busy + now.since(since),
            None => it.busy,
        };
        self.each.iter().map(busy).collect()
    }

    /// What was done up to `now`, without the names.
    pub(super) fn times(&self, now: Instant) -> ProcessorTimes {
        let busy = self.busy(now).into_iter().fold(Span::ZERO, |a, b| a + b);
        ProcessorTimes {
            user: self.user,
            system: busy.saturating_sub(self.user),
            spinning: self.spinning,
            switches: self.switches,
            ..ProcessorTimes::default()
        }
    }

    /// Work by the numbers of names.
    pub(super) fn busy_by_group(&self) -> &[Span] {
        &self.busy_by_group
    }

    /// Takes the job from `processor` and books the time it had.
    fn stop(&mut self, processor: usize, now: Instant) -> Option<u32> {
        let processor = &mut self.each[processor];
        let (index, since, _) = processor.runs.take()?;
        let had = now.since(since);
        processor.busy += had;
        processor.slice_left = processor.slice_left.saturating_sub(had);
        let job = &mut self.jobs[index as usize];
        job.rest = job.rest.saturating_sub(had);
        let user = had.min(job.user_rest);
        job.user_rest = job.user_rest.saturating_sub(user);
        self.user += user;
        if let Some((key, group)) = job.task {
            processor.served = Some((key, now));
            if self.busy_by_group.len() <= group {
                self.busy_by_group.resize(group + 1, Span::ZERO);
            }
            self.busy_by_group[group] += had;
        }
        Some(index)
    }

    /// Gives `processor`, which has no job, the head of the queue.
    fn start_next(&mut self, processor: usize, now: Instant, events: &mut Events) {
        let Some(index) = self.queue.pop_front() else {
            self.idle.push(processor);
            return;
        };
        self.each[processor].slice_left = self.slice;
        self.start(processor, index, now, events);
    }

    /// Lets `processor` work on a job for what is left of its slice.
    fn start(&mut self, processor: usize, index: u32, now: Instant, events: &mut Events) {
        let job = &mut self.jobs[index as usize];
        job.stage = Stage::Running(processor);
        if job.task.map(|(key, _)| (key, now)) != self.each[processor].served {
            self.switches += 1;
            job.rest += self.switch_cost;
        }
        if let Some((lock, held)) = job.lock.take() {
            let spun = take_turn(&mut self.locks, lock as usize, held, now);
            self.spinning += spun;
            job.rest += spun;
        }
        let slice_end = events.set(
            now + job.rest.min(self.each[processor].slice_left),
            Event::SliceEnd(processor),
        );
        self.each[processor].runs = Some((index, now, slice_end));
    }
}

/// Takes the lock number `lock` for `held` when it is free, and returns how long that takes.
fn take_turn(locks: &mut Vec<Instant>, lock: usize, held: Span, now: Instant) -> Span {
    if locks.len() <= lock {
        locks.resize(lock + 1, Instant::ZERO);
    }
    let free_at = locks[lock].max(now);
    locks[lock] = free_at + held;
    free_at.since(now)
}
