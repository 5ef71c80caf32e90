//! What is wrong with a store, as JSON.

use forebay::trouble::{Trouble, kind_name};
use serde::{Deserialize, Serialize};

/// A kind of requests that a store refuses now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleWords {
    pub kind: String,
    /// Why the last one was refused.
    pub reason: String,
    pub requests: u64,
    /// Since the first one failed.
    pub lasted_us: u64,
    /// For people.
    pub text: String,
}

/// A trouble of the store that people call `name`.
pub(crate) fn trouble_of(name: &str, kept_pages: u64, trouble: &Trouble) -> TroubleWords {
    TroubleWords {
        kind: kind_name(trouble.kind).into(),
        reason: trouble.failure.to_string(),
        requests: trouble.requests,
        lasted_us: trouble.lasted.as_micros(),
        text: trouble.text(name, kept_pages),
    }
}
