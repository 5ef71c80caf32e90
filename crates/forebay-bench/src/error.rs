//! Why a bench failed, as one line for people.

use forebay_host::{HostError, StepError};
use std::io;
use std::path::Path;

/// Why a bench failed. Its text is one line: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The computer does not let it go on.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A page held bytes other than those written to it.
    #[error(
        "page {page} of {contender} holds the bytes of page {found}: the result of this run is \
         void, please report it"
    )]
    WrongBytes {
        /// Whose page it is.
        contender: &'static str,
        /// The page that was read.
        page: u64,
        /// The page whose bytes came.
        found: u64,
    },
    /// A contender's process failed; it said why.
    #[error("the {contender} contender failed: {reason}")]
    Contender {
        /// Which one.
        contender: &'static str,
        /// Why.
        reason: String,
    },
    /// A contender's process ended while it was to answer.
    #[error("the process of the {contender} contender ended before its time")]
    Ended {
        /// Which one.
        contender: &'static str,
    },
}

impl From<StepError> for BenchError {
    fn from(step: StepError) -> BenchError {
        BenchError::Host(step.into())
    }
}

impl BenchError {
    /// Makes a [`StepError::Path`] for `map_err`, without advice.
    pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
        let failed = HostError::at(action, path);
        move |source| failed(source).into()
    }

    /// The same for a path in the scratch folder, with advice on how to find a better place.
    pub(crate) fn in_scratch(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> BenchError {
        let failed = HostError::in_scratch(action, path);
        move |source| failed(source).into()
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> BenchError {
        let failed = HostError::system(action);
        move |source| failed(source).into()
    }

    /// A program that the bench needs failed or is missing; `text` says which.
    pub(crate) fn program(text: String) -> BenchError {
        HostError::Program(text).into()
    }
}
