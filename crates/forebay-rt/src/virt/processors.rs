//! The simulated processors and their one run queue.
//!
//! A job takes its place at the end of the queue. The job at the head gets the next processor that
//! is free, for its rest or for one time slice; after a slice it goes to the end again.

use super::events::{Event, Events};
use super::tasks::Waiter;
use crate::sleep::TimerId;
use forebay_base::{Instant, Span};
use std::collections::VecDeque;
use std::task::Poll;

#[derive(Debug)]
pub(super) struct Processors {
    slice: Span,
    each: Vec<Processor>,
    /// Those without a job; the one that had one last comes first.
    idle: Vec<usize>,
    queue: VecDeque<u32>,
    jobs: Vec<Job>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Processor {
    /// The job, since when it runs here, and the end of its slice.
    runs: Option<(u32, Instant, TimerId)>,
    busy: Span,
}

#[derive(Debug)]
struct Job {
    rest: Span,
    stage: Stage,
    waiter: Option<Waiter>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Queued,
    Running(usize),
    Done,
}

impl Processors {
    pub(super) fn new(count: usize, slice: Span) -> Processors {
        let idle = |_| Processor {
            runs: None,
            busy: Span::ZERO,
        };
        Processors {
            slice,
            each: (0..count).map(idle).collect(),
            idle: (0..count).rev().collect(),
            queue: VecDeque::new(),
            jobs: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Queues a job of `cost`.
    pub(super) fn submit(
        &mut self,
        cost: Span,
        waiter: Waiter,
        now: Instant,
        events: &mut Events,
    ) -> u32 {
        let job = Job {
            rest: cost,
            stage: Stage::Queued,
            waiter: Some(waiter),
        };
        let index = if let Some(index) = self.free.pop() {
            self.jobs[index as usize] = job;
            index
        } else {
            self.jobs.push(job);
            (self.jobs.len() - 1) as u32
        };
        self.queue.push_back(index);
        if let Some(processor) = self.idle.pop() {
            self.start_next(processor, now, events);
        }
        index
    }

    /// Frees a job that is done; otherwise lets it wake `waiter` instead. What is returned beside
    /// is to be dropped without the lock.
    pub(super) fn poll(&mut self, index: u32, waiter: Waiter) -> (Poll<()>, Option<Waiter>) {
        let job = &mut self.jobs[index as usize];
        if matches!(job.stage, Stage::Done) {
            self.free.push(index);
            return (Poll::Ready(()), Some(waiter));
        }
        (Poll::Pending, job.waiter.replace(waiter))
    }

    /// Ends a job before its time. Returns what is to be dropped without the lock.
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

    /// Takes the job from `processor` and books the time it had.
    fn stop(&mut self, processor: usize, now: Instant) -> Option<u32> {
        let processor = &mut self.each[processor];
        let (index, since, _) = processor.runs.take()?;
        let had = now.since(since);
        processor.busy += had;
        let job = &mut self.jobs[index as usize];
        job.rest = job.rest.saturating_sub(had);
        Some(index)
    }

    /// Gives `processor`, which has no job, the head of the queue.
    fn start_next(&mut self, processor: usize, now: Instant, events: &mut Events) {
        let Some(index) = self.queue.pop_front() else {
            self.idle.push(processor);
            return;
        };
        let job = &mut self.jobs[index as usize];
        job.stage = Stage::Running(processor);
        let slice_end = events.set(now + job.rest.min(self.slice), Event::SliceEnd(processor));
        self.each[processor].runs = Some((index, now, slice_end));
    }
}
