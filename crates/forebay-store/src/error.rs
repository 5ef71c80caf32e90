//! What can fail in a store, and what is true afterwards.

use crate::request::{IoKind, Request};
use std::fmt;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium is full: nothing, or only a part, of the range was written.
    NoSpace,
    /// The quota of the user, group or folder is used up, though the medium may have room.
    OverQuota,
    /// The device or the system refused with this `errno` value; the range is in doubt.
    Device(i32),
    /// The object does not exist, was closed, or was removed below the store.
    Gone,
    /// The store may not be written.
    ReadOnly,
    /// The request is outside of what the store can address.
    OutOfRange,
    /// The store cannot do this at all.
    Unsupported,
    /// The store gave no answer in time; what became of the range is not known.
    NoAnswer,
    /// Of a commit: the store restarted, and may have forgotten writes that it had finished and
    /// not made durable. Only a store that is [`crate::Durability::Unstable`] reports this. A
    /// caller that kept those writes repeats them, and nothing is lost.
    Forgotten,
    /// Another writer has taken the object over: no write and no commit of this one will ever end
    /// well again. What it had not committed is lost, and its users should be informed.
    Fenced,
    /// The store dropped the request without an answer; what became of the range is not known.
    Dropped,
    /// The store, or a wrapper of it, panicked; what became of the range is not known.
    Panicked,
}

impl Failure {
    /// The failure that an `errno` value stands for.
    ///
    /// ```
    /// use forebay_store::Failure;
    /// assert_eq!(Failure::from_errno(28), Failure::NoSpace);
    /// assert_eq!(Failure::from_errno(5), Failure::Device(5));
    /// ```
    pub fn from_errno(errno: i32) -> Failure {
        const EBADF: i32 = 9;
        const ENODEV: i32 = 19;
        const EFBIG: i32 = 27;
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        const EOPNOTSUPP: i32 = 95;
        const ESTALE: i32 = 116;
        const EDQUOT: i32 = 122;
        match errno {
            ENOSPC => Failure::NoSpace,
            EDQUOT => Failure::OverQuota,
            EROFS => Failure::ReadOnly,
            EBADF | ENODEV | ESTALE => Failure::Gone,
            EFBIG => Failure::OutOfRange,
            EOPNOTSUPP => Failure::Unsupported,
            other => Failure::Device(other),
        }
    }

    /// The `errno` value for the same failure, for callers that use those.
    pub fn errno(self) -> i32 {
        match self {
            Failure::NoSpace => 28,
            Failure::OverQuota => 122,
            Failure::Device(errno) => errno,
            Failure::Gone => 116,
            Failure::ReadOnly => 30,
            Failure::OutOfRange => 27,
            Failure::Unsupported => 95,
            Failure::NoAnswer => 110,
            Failure::Forgotten | Failure::Fenced | Failure::Dropped | Failure::Panicked => 5,
        }
    }

    /// Whether the same request may succeed later without a change to the request itself.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Failure::NoSpace
                | Failure::OverQuota
                | Failure::Device(_)
                | Failure::NoAnswer
                | Failure::Forgotten
                | Failure::Dropped
                | Failure::Panicked
        )
    }
}

impl Failure {
    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Failure::NoSpace => "make room and try again",
            Failure::OverQuota => "raise the quota or remove files, and try again",
            Failure::Device(_) => {
                "look at the device; the request is tried again if it was a write"
            }
            Failure::Gone => "open it again",
            Failure::ReadOnly => "open it for writing",
            Failure::OutOfRange => "stay within its size",
            Failure::Unsupported => "use another store",
            Failure::NoAnswer => "look at the device or the network",
            Failure::Forgotten => "write it again",
            Failure::Fenced => "stop this one; what it had not made durable is not in the store",
            Failure::Dropped | Failure::Panicked => "report it to the author of the store",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Device(errno) => {
                return write!(f, "the device answered with error {errno}");
            }
            Failure::NoSpace => "no space is left",
            Failure::OverQuota => "the quota is used up",
            Failure::Gone => "the object is gone",
            Failure::ReadOnly => "the store is read-only",
            Failure::OutOfRange => "the range is outside of the store",
            Failure::Unsupported => "the store cannot do this",
            Failure::NoAnswer => "the store did not answer in time",
            Failure::Forgotten => "the store restarted and may have lost it",
            Failure::Fenced => "another writer has taken it over",
            Failure::Dropped => "the store dropped the request without an answer",
            Failure::Panicked => "the store panicked",
        })
    }
}

/// A failed request: what, where and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// Why it failed.
    pub failure: Failure,
    /// What was asked, and where.
    pub request: Request,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.failure;
        let advice = why.advice();
        let at = self.request;
        let may_have_lost = !matches!(
            self.failure,
            Failure::Gone
                | Failure::NoAnswer
                | Failure::Forgotten
                | Failure::Fenced
                | Failure::Dropped
                | Failure::Panicked
        );
        let advice = if at.kind == IoKind::Commit && may_have_lost {
            "data written since the last successful sync may be lost; open it and write it again"
        } else {
            advice
        };
        write!(
            f,
            "{:?} of {} bytes at {} of object {}: {why}; {advice}",
            at.kind, at.length_bytes, at.offset_bytes, at.object.0
        )
    }
}

impl std::error::Error for StoreError {}

impl Request {
    /// The error that says that this request failed for the reason `failure`.
    pub fn error(self, failure: Failure) -> StoreError {
        StoreError {
            failure,
            request: self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ObjectId;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let request = Request {
            kind: IoKind::Write,
            object: ObjectId(3),
            offset_bytes: 8192,
            length_bytes: 4096,
        };
        let error = request.error(Failure::NoSpace);
        assert_eq!(
            error.to_string(),
            "Write of 4096 bytes at 8192 of object 3: no space is left; make room and try again"
        );
    }

    #[test]
    fn a_failed_commit_says_what_may_be_lost() {
        let request = Request {
            kind: IoKind::Commit,
            object: ObjectId(3),
            offset_bytes: 0,
            length_bytes: 0,
        };
        assert_eq!(
            request.error(Failure::Device(5)).to_string(),
            "Commit of 0 bytes at 0 of object 3: the device answered with error 5; data \
             written since the last successful sync may be lost; open it and write it again"
        );
    }

    #[test]
    fn a_store_that_started_anew_asks_for_the_writes_again() {
        let request = Request {
            kind: IoKind::Commit,
            object: ObjectId(3),
            offset_bytes: 0,
            length_bytes: 0,
        };
        assert_eq!(
            request.error(Failure::Forgotten).to_string(),
            "Commit of 0 bytes at 0 of object 3: the store restarted and may have lost it; \
             write it again"
        );
        assert!(Failure::Forgotten.is_transient());
    }

    #[test]
    fn errno_values_survive_the_round_trip() {
        for errno in [5, 9, 19, 27, 28, 30, 95, 110, 116, 121, 122] {
            let failure = Failure::from_errno(errno);
            assert_eq!(
                Failure::from_errno(failure.errno()),
                failure,
                "errno {errno}"
            );
        }
    }

    #[test]
    fn what_may_pass_by_itself_is_tried_again_and_nothing_else() {
        let passes = [
            Failure::NoSpace,
            Failure::OverQuota,
            Failure::Device(5),
            Failure::NoAnswer,
            Failure::Forgotten,
            Failure::Dropped,
            Failure::Panicked,
        ];
        let stays = [
            Failure::Gone,
            Failure::ReadOnly,
            Failure::OutOfRange,
            Failure::Unsupported,
            Failure::Fenced,
        ];
        assert!(passes.into_iter().all(Failure::is_transient));
        assert!(!stays.into_iter().any(Failure::is_transient));
    }
}
