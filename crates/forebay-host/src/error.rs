//! Why this computer does not let a program go on, as one line for people.

use crate::step_error::StepError;
use std::io;
use std::path::{Path, PathBuf};

/// Why this computer does not let a program go on. Its text is one line: what failed, where, and
/// what to do.
///
/// # Examples
/// ```
/// let error = forebay_host::HostError::Interrupted { signal: 2 };
/// assert_eq!(error.to_string(), "interrupted; the scratch folder was removed");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The system refused a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The scratch folder's disk has too little room.
    #[error(
        "{} has {available} free and {needed} are needed: give a --dir on a larger disk",
        path.display()
    )]
    NoRoom {
        /// The scratch folder.
        path: PathBuf,
        /// The room that all files take, as a size with its unit.
        needed: String,
        /// The room that there is, as a size with its unit.
        available: String,
    },
    /// A program that is needed failed or is missing; the text says which.
    #[error("{0}")]
    Program(String),
    /// A signal asked for the end.
    #[error("interrupted; the scratch folder was removed")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
}

impl HostError {
    /// Makes a [`StepError::Path`] for `map_err`, without advice.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
        let step = StepError::at(action, path);
        move |source| step(source).into()
    }

    /// The same for a path in the scratch folder, with advice on how to find a better place.
    pub fn in_scratch(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
        let step = StepError::advised(action, path, advice);
        move |source| step(source).into()
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub fn system(action: &'static str) -> impl FnOnce(io::Error) -> HostError {
        let step = StepError::system(action);
        move |source| step(source).into()
    }

    /// Ends the program by the signal that interrupted it, if one did, so that a shell that waits
    /// for it sees what ended it. Returns for every other error.
    pub fn end_by_signal(&self) {
        let HostError::Interrupted { signal } = self else {
            return;
        };
        if let Err(refused) = signal_hook::low_level::emulate_default_handler(*signal) {
            forebay_rt::say(format_args!("cannot end by signal {signal}: {refused}"));
        }
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
            "; give a --dir on a larger disk"
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
        let error = HostError::in_scratch("write", Path::new("/scratch/data"))(full).to_string();
        assert!(error.starts_with("cannot write /scratch/data: "), "{error}");
        assert!(error.contains("--dir"), "{error}");
        assert!(!error.contains('\n'));
    }
}
