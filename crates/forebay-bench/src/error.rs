//! Why a bench failed, as one line for people.

use crate::step_error::StepError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a bench failed. Its text is one line: what failed, where, and what to do.
///
/// # Examples
/// ```
/// let error = forebay_bench::BenchError::Interrupted { signal: 2 };
/// assert_eq!(error.to_string(), "interrupted; the scratch folder was removed");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The system or the cache refused a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The scratch folder's disk has too little room.
    #[error(
        "{} has {available} free and the bench needs {needed}: give a smaller --memory, or a \
         --dir on a larger disk", path.display()
    )]
    NoRoom {
        /// The scratch folder.
        path: PathBuf,
        /// The room that all files take, as a size with its unit.
        needed: String,
        /// The room that there is, as a size with its unit.
        available: String,
    },
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
    /// A program that the bench needs failed or is missing; the text says which.
    #[error("{0}")]
    Program(String),
    /// A signal asked for the end.
    #[error("interrupted; the scratch folder was removed")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl BenchError {
    /// Makes a [`StepError::Path`] for `map_err`, without advice.
    pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
        let step = StepError::at(action, path);
        move |source| step(source).into()
    }

    /// The same for a path in the scratch folder, with advice on how to find a better place.
    pub(crate) fn in_scratch(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> BenchError {
        let step = StepError::advised(action, path, advice);
        move |source| step(source).into()
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> BenchError {
        let step = StepError::system(action);
        move |source| step(source).into()
    }
}

/// What a person can do about a scratch folder that the system refuses with `error`.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; give a folder that may be written with --dir"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "; give an existing folder with --dir"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; give a smaller --memory, or a --dir on a larger disk"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_one_line_that_says_what_to_do() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = BenchError::in_scratch("write", Path::new("/scratch/data"))(full).to_string();
        assert!(error.starts_with("cannot write /scratch/data: "), "{error}");
        assert!(error.contains("--memory"), "{error}");
        assert!(!error.contains('\n'));
    }
}
