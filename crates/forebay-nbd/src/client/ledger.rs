//! Which finished writes no flush has covered, across restarts of the server: the write verifier
//! of the NFS client, with numbers.
//!
//! Writes are numbered in the order in which they finish. A flush that the server answers covers
//! all writes that had finished before it was sent, if the server has not started anew since.
//!
//! invariant V1: a commit that ends well covers no write that was answered before a restart, if its
//! flush came after that restart.
//! invariant V2: a forgotten write is reported by a commit whose submitter knew the end of the
//! write when it submitted the commit; an earlier commit reports it too, and does not settle it.

/// The books of one server.
///
/// ```
/// use forebay_nbd::client::ledger::Ledger;
/// let mut ledger = Ledger::default();
/// ledger.write_finished();
/// let heard = 1;
/// ledger.started_anew();
/// let commit = ledger.covers(heard);
/// assert!(ledger.is_forgotten(&commit));
/// ledger.reported(&commit);
/// let next = ledger.covers(heard);
/// assert!(!ledger.is_forgotten(&next));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Writes that have finished.
    finished: u64,
    /// The server may have forgotten those of this many first writes that are not settled.
    forgotten: u64,
    /// This many first writes are durable, or were reported as forgotten.
    settled: u64,
}

/// What a commit covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Writes whose end the submitter surely knew when it submitted the commit.
    heard: u64,
    /// Writes that had finished when the flush was about to be sent; at least as many.
    finished: u64,
}

impl Ledger {
    /// One more write has finished.
    pub fn write_finished(&mut self) {
        self.finished += 1;
    }

    /// The server started anew, or a flush has failed: what it had not made durable may be gone.
    pub fn started_anew(&mut self) {
        self.forgotten = self.finished;
    }

    /// What a commit covers whose flush is sent now. Its submitter knew the end of `heard` writes
    /// when it submitted the commit.
    pub fn covers(&self, heard: u64) -> Covered {
        Covered {
            heard: heard.min(self.finished),
            finished: self.finished,
        }
    }

    /// Whether writes that the commit covers may be forgotten: then it must not end well.
    pub fn is_forgotten(&self, commit: &Covered) -> bool {
        self.forgotten.min(commit.finished) > self.settled
    }

    /// How many finished writes are neither durable nor reported.
    pub fn unsettled(&self) -> u64 {
        self.finished - self.settled
    }

    /// The server has answered the flush of `commit`.
    pub fn flushed(&mut self, commit: &Covered) {
        self.settled = self.settled.max(commit.finished);
    }

    /// `commit` has failed, and its submitter repeats the writes whose end it knew.
    pub fn reported(&mut self, commit: &Covered) {
        self.settled = self.settled.max(commit.heard);
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
