//! Why the demo failed, as one line for people.

use forebay_host::{HostError, StepError};
use std::io;
use std::path::Path;

/// Why the demo cannot go on. Its text is one line: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The computer does not let it go on.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A contender's process failed; it said why.
    #[error("the {contender} contender failed: {reason}")]
    Contender {
        /// Which one.
        contender: &'static str,
        /// Why.
        reason: String,
    },
    /// A contender's process ended without a word.
    #[error("the process of the {contender} contender ended before its time")]
    Ended {
        /// Which one.
        contender: &'static str,
    },
}

impl From<StepError> for DemoError {
    fn from(step: StepError) -> DemoError {
        DemoError::Host(step.into())
    }
}

impl DemoError {
    /// Makes a [`StepError::Path`] for `map_err`.
    pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DemoError {
        let failed = HostError::at(action, path);
        move |source| failed(source).into()
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> DemoError {
        let failed = HostError::system(action);
        move |source| failed(source).into()
    }
}
