//! Threads for calls that may wait, so that they do not hold up calls that need not.
//!
//! A few threads read the kernel's requests. Each of them needs a seat for a call that may wait (a
//! write that is slowed down, a sync). If no seat is free, another thread does the call, so
//! that some thread is always left to answer reads.

use crate::shares::COPIES;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::thread::Joiner;
use forebay_rt::wait::{OwnedPermit, Permit, Permits, WaitQueue};
use std::collections::VecDeque;
use std::fmt;
use std::io;

/// A call that the workers will make.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The seats, and the workers for calls that find none.
pub(crate) struct WorkerPool {
    seats: Permits,
    /// Copies of bytes that may wait with their jobs.
    copies: Arc<Permits>,
    line: Mutex<Line>,
    arrivals: WaitQueue,
}

/// Jobs that have not begun: at most one for each request of the kernel, and for each content that
/// was replaced because its file was changed below.
#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    stopped: bool,
}

enum Next {
    Do(Job),
    Wait,
    End,
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool")
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// A pool of `threads` workers and `seats` seats.
    pub(crate) fn start(
        seats: usize,
        threads: usize,
        request_bytes: u32,
    ) -> io::Result<(Arc<WorkerPool>, Vec<Joiner>)> {
        let workers = Arc::new(WorkerPool {
            seats: Permits::new(seats),
            copies: Arc::new(Permits::new(COPIES * units(request_bytes as usize))),
            line: Mutex::new(Line::default()),
            arrivals: WaitQueue::new(),
        });
        let mut joiners = Vec::with_capacity(threads);
        for _ in 0..threads {
            let workers = workers.clone();
            joiners.push(forebay_rt::thread::spawn("forebay-worker", move || {
                workers.work();
            })?);
        }
        Ok((workers, joiners))
    }

    /// A seat for a call that may wait, if one is free.
    pub(crate) fn seat(&self) -> Option<Permit<'_>> {
        self.seats.try_acquire(1)
    }

    /// Room for a copy of the bytes of a job, if there is some.
    pub(crate) fn room_for_copy(&self, length_bytes: usize) -> Option<OwnedPermit> {
        self.copies.try_acquire_owned(units(length_bytes))
    }

    /// Runs `job` here if a seat is free, otherwise leaves it to the workers.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        match self.seat() {
            Some(_seat) => job(),
            None => self.leave(Box::new(job)),
        }
    }

    /// Leaves `job` to the workers.
    pub(crate) fn leave(&self, job: Job) {
        lock(&self.line).jobs.push_back(job);
        self.arrivals.wake_one();
    }

    /// Lets the workers end once nothing is left to do.
    pub(crate) fn stop(&self) {
        lock(&self.line).stopped = true;
        self.arrivals.wake_all();
    }

    fn work(&self) {
        loop {
            let next = forebay_rt::block_on(async {
                loop {
                    let arrival = self.arrivals.listen();
                    match self.next() {
                        Next::Do(job) => return Some(job),
                        Next::End => return None,
                        Next::Wait => arrival.await,
                    }
                }
            });
            match next {
                Some(job) => job(),
                None => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut line = lock(&self.line);
        match line.jobs.pop_front() {
            Some(job) => Next::Do(job),
            None if line.stopped => Next::End,
            None => Next::Wait,
        }
    }
}

/// The unit in which the memory of copies is counted.
fn units(length_bytes: usize) -> usize {
    length_bytes.div_ceil(PAGE_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_rt::wait::Slot;

    #[test]
    fn a_job_without_a_seat_is_done_by_a_worker_while_the_seat_is_taken() {
        let (workers, joiners) = WorkerPool::start(1, 1, 1 << 20).unwrap();
        let seat = workers.seat().expect("no seat is taken yet");
        let done = Arc::new(Slot::new());
        let reported = done.clone();
        workers.run(move || reported.set(7));
        assert_eq!(forebay_rt::block_on(done.take()), 7);
        drop(seat);
        assert!(workers.seat().is_some());
        workers.stop();
        joiners.into_iter().for_each(Joiner::join);
    }
}
