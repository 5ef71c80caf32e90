//! Requests that wait, and requests that have ended.

use crate::job::ReadJob;
use forebay_store::{Failure, Io};
use std::collections::VecDeque;

/// Requests that wait.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) reads: VecDeque<Box<ReadJob>>,
    /// Writes and discards that wait for room, for a chunk, or for a commit.
    pub(crate) changes: VecDeque<Io>,
    /// Commits that the next record is for, and those that came too late for it.
    pub(crate) committing: Vec<Io>,
    pub(crate) commits: Vec<Io>,
}

/// Requests that have ended. Finish them once the lock is released.
#[derive(Default)]
#[must_use = "each request has to be finished"]
pub struct Ended(Vec<(Io, Result<(), Failure>)>);

impl Ended {
    /// Notes how `io` ended.
    pub fn push(&mut self, io: Io, result: Result<(), Failure>) {
        self.0.push((io, result));
    }

    /// The requests that ended well.
    pub fn succeeded(&self) -> impl Iterator<Item = &Io> {
        let well = self.0.iter().filter(|(_, result)| result.is_ok());
        well.map(|(io, _)| io)
    }

    /// Tells their submitters. Hold no lock.
    pub fn finish(self) {
        for (io, result) in self.0 {
            match result {
                Ok(()) => io.succeed(),
                Err(failure) => io.fail(failure),
            }
        }
    }
}
