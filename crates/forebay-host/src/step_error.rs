//! Why one step of a command failed, as one line for people.

use std::io;
use std::path::{Path, PathBuf};

/// A step that the system or the cache refused. Every command shows such a failure in these words.
///
/// # Examples
/// ```
/// use forebay_host::StepError;
///
/// let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
/// let error = StepError::at("read", std::path::Path::new("/data"))(denied);
/// assert_eq!(error.to_string(), "cannot read /data: permission denied");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The operating system refused something on a path.
    #[error("cannot {action} {}: {source}{advice}", path.display())]
    Path {
        /// The refused action, as a verb with its object.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
        /// What the user can do about it, printed after the reason; may be empty.
        advice: &'static str,
    },
    /// The operating system refused something that has no path.
    #[error("cannot {action}: {source}")]
    System {
        /// The refused action, as a verb with its object.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The cache refused or failed.
    #[error("the cache failed to {action}: {reason}")]
    Cache {
        /// The failed action, as a verb with its object.
        action: &'static str,
        /// The reason.
        reason: String,
    },
}

impl StepError {
    /// Makes a [`StepError::Path`] for `map_err`, without advice.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StepError {
        StepError::advised(action, path, |_| "")
    }

    /// The same with the text that `advice` gives for the error.
    pub fn advised(
        action: &'static str,
        path: &Path,
        advice: fn(&io::Error) -> &'static str,
    ) -> impl FnOnce(io::Error) -> StepError {
        let path = path.to_owned();
        move |source| StepError::Path {
            action,
            path,
            advice: advice(&source),
            source,
        }
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub fn system(action: &'static str) -> impl FnOnce(io::Error) -> StepError {
        move |source| StepError::System { action, source }
    }

    /// The failure of the cache to do `action`.
    pub fn cache(action: &'static str, reason: impl std::fmt::Display) -> StepError {
        StepError::Cache {
            action,
            reason: reason.to_string(),
        }
    }
}
