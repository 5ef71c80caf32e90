//! What is asked of a bucket, and what it answers.

use std::ops::Range;
use std::sync::Arc;

/// One request to a bucket. All of them may be repeated: a repeated one changes nothing that the
/// first has not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Make an object that is not there.
    Make {
        /// Its key.
        key: String,
        /// Its bytes, which tries share.
        bytes: Arc<Vec<u8>>,
    },
    /// Read an object, or a range of it.
    Get {
        /// Its key.
        key: String,
        /// Which bytes; all of them if it is none.
        range: Option<Range<u64>>,
    },
    /// Name every object whose key begins with a prefix, with its length.
    List {
        /// The prefix, which ends with a slash.
        prefix: &'static str,
    },
    /// Remove an object; one that is not there is no error.
    Remove {
        /// Its key.
        key: String,
    },
}

/// What a bucket answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done: an object was made or removed.
    Done,
    /// An object of that key is there already, perhaps from an earlier try.
    Exists,
    /// No object of that key is there.
    Missing,
    /// The bytes of an object, as many of the range as it has.
    Bytes(Vec<u8>),
    /// Keys and lengths, in any order.
    Keys(Vec<(String, u64)>),
    /// No answer, or one that leaves open whether it was done. It may still be done later.
    Unknown,
}

/// How far a machine of this crate has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// Ask it for the next call.
    More,
    /// It has ended with this.
    Done(T),
}
