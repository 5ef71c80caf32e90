//! Which finished writes no flush has covered, across restarts of the server: the write verifier
//! of the NFS client, with numbers.
//!
//! Writes are numbered in the order in which they finish. A flush that the server answers covers
//! all writes that had finished before it was sent, if the server has not restarted since.
//!
//! A flush that fails is as bad as a restart: the kernel of the server may drop what it could not
//! write, and say so only once. It is worse in one way. The server goes on, so it still answers
//! writes that it had before the flush failed, and their bytes may be among those that were
//! dropped. So each write keeps the [`Era`] in which it was sent.
//!
//! invariant V1: a commit that ends well covers no write that was answered before a restart which
//! the flush of that commit came after.
//! invariant V2: a forgotten write is reported by a commit that was submitted after its submitter
//! had heard of the write; a commit that came sooner reports it too, and settles nothing.

/// The books of one server.
///
/// ```
/// use forebay_nbd::client::ledger::Ledger;
/// let mut ledger = Ledger::default();
/// let sent = ledger.era();
/// ledger.write_finished(sent);
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
    /// Of this many first writes, the server may have forgotten those that are not settled.
    forgotten: u64,
    /// This many first writes are durable, or were reported as forgotten.
    settled: u64,
    era: Era,
}

/// The time between two moments at which the server may have forgotten writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Era(u64);

/// What a commit covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Writes whose end the submitter surely knew when it submitted the commit.
    heard: u64,
    /// Writes that had finished when the flush was about to be sent; at least as many.
    finished: u64,
}

impl Ledger {
    /// The era in which a write is sent now.
    pub fn era(&self) -> Era {
        self.era
    }

    /// One more write has finished, which was sent in the era `sent`. If that era is over, the
    /// server may have forgotten the write before it answered.
    pub fn write_finished(&mut self, sent: Era) {
        self.finished += 1;
        if sent != self.era {
            self.forgotten = self.finished;
        }
    }

    /// The server restarted, or a flush has failed: what it had not made durable may be gone.
    pub fn started_anew(&mut self) {
        self.forgotten = self.finished;
        self.era.0 += 1;
    }

    /// What a commit covers if its flush is sent now. Its submitter knew the end of `heard` writes
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

    /// The server has answered the flush of `commit`. False if writes that the commit covers were
    /// forgotten while the flush was under way: then the commit must fail, and is reported.
    #[must_use]
    pub fn flushed(&mut self, commit: &Covered) -> bool {
        if self.is_forgotten(commit) {
            self.reported(commit);
            return false;
        }
        self.settled = self.settled.max(commit.finished);
        true
    }

    /// `commit` has failed, and its submitter repeats the writes whose end it knew.
    pub fn reported(&mut self, commit: &Covered) {
        self.settled = self.settled.max(commit.heard);
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
