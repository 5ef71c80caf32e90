//! How a failed request is reported to the client.

use crate::wire::Errno;
use forebay_block::BlockError;

/// Why a request failed, in the protocol's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) errno: Errno,
    /// The same in words, for replies that have room for it.
    pub(crate) reason: String,
}

impl From<BlockError> for RequestError {
    fn from(error: BlockError) -> RequestError {
        RequestError {
            errno: Errno::from_linux(error.errno()),
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{AccessError, SyncError};
    use forebay_store::{Failure, IoKind, ObjectId, Request, StoreError};

    #[test]
    fn every_error_from_below_has_an_error_of_the_protocol() {
        let request = Request {
            kind: IoKind::Write,
            object: ObjectId(1),
            offset_bytes: 0,
            length_bytes: 4096,
        };
        let full = StoreError {
            failure: Failure::NoSpace,
            request,
        };
        for (error, errno) in [
            (AccessError::Closed.into(), Errno::Shutdown),
            (BlockError::Ending, Errno::Shutdown),
            (BlockError::ReadOnly, Errno::NotPermitted),
            (
                AccessError::ReadOnly { object: 1 }.into(),
                Errno::NotPermitted,
            ),
            (SyncError::Store(full).into(), Errno::NoSpace),
        ] {
            let error: BlockError = error;
            let reason = error.to_string();
            assert_eq!(RequestError::from(error), RequestError { errno, reason });
        }
    }
}
