//! The two copies of the record that is being made.

use crate::job::Job;
use forebay_store::Failure;
use forebay_volume::Twin;

/// What a record is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It was in doubt when a commit came, or leaves no room.
    InDoubt,
    /// It is the last one.
    Last,
    /// It holds what the commits want.
    Commit,
}

/// The record, while threads make it.
pub(crate) struct RecordCopies {
    purpose: Option<Purpose>,
    /// The copies that no thread has begun yet, and how many are under way.
    unbegun: Vec<Twin>,
    under_way: usize,
    /// How those ended that are not under way.
    result: Result<(), Failure>,
}

impl RecordCopies {
    /// No thread makes one.
    pub(crate) fn none() -> RecordCopies {
        RecordCopies {
            purpose: None,
            unbegun: Vec::new(),
            under_way: 0,
            result: Ok(()),
        }
    }

    pub(crate) fn are_being_made(&self) -> bool {
        self.purpose.is_some()
    }

    /// Both copies are to be made. Returns the job of one.
    pub(crate) fn begin(&mut self, purpose: Purpose) -> Option<Job> {
        self.purpose = Some(purpose);
        self.result = Ok(());
        self.unbegun = Twin::BOTH.to_vec();
        self.next_job()
    }

    pub(crate) fn next_job(&mut self) -> Option<Job> {
        let twin = self.unbegun.pop()?;
        self.under_way += 1;
        Some(Job::Record(twin))
    }

    /// A copy has ended. Nobody begins another if the writer `is_fenced`. Returns how the record
    /// ended, and what it was for, once no copy is left.
    pub(crate) fn ended(
        &mut self,
        result: Result<(), Failure>,
        is_fenced: bool,
    ) -> Option<(Purpose, Result<(), Failure>)> {
        self.under_way -= 1;
        self.result = self.result.and(result);
        if is_fenced {
            self.unbegun.clear();
        }
        if self.under_way > 0 || !self.unbegun.is_empty() {
            return None;
        }
        Some((self.purpose.take()?, self.result))
    }
}
