//! Why a command failed, as one line for people.

use forebay_bench::BenchError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed. Its text is one line: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The operating system refused something on a path.
    #[error("cannot {action} {}: {source}{advice}", path.display())]
    Path {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
        /// What a person can do about it, to be put behind it; may be empty.
        advice: &'static str,
    },
    /// The operating system refused something that has no path.
    #[error("cannot {action}: {source}")]
    System {
        action: &'static str,
        source: io::Error,
    },
    /// The cache refused or failed.
    #[error("the cache failed to {action}: {reason}")]
    Cache {
        action: &'static str,
        reason: String,
    },
    /// An image cannot be served.
    #[error("{}: {reason}", path.display())]
    Image { path: PathBuf, reason: String },
    /// An image cannot be opened; the text says which one and why.
    #[error("{0}")]
    Opened(String),
    /// A server cannot be started; the text says where and why.
    #[error("{0}")]
    Served(String),
    /// Work in the lab failed, or one of its tests does not hold; the text says which.
    #[error("{0}")]
    Lab(String),
    /// The call asks for something impossible, which only the work itself could find out.
    #[error("{0}")]
    BadCall(String),
    /// A bench or the demo cannot go on.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl CommandError {
    /// The exit status for this error.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            CommandError::BadCall(_) => 2,
            _ => 1,
        }
    }

    /// A maker of [`CommandError::Path`] for `map_err`, where there is nothing to advise.
    pub(crate) fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CommandError {
        CommandError::advised(action, path, |_| "")
    }

    /// The same with what `advice` says about the error.
    pub(crate) fn advised(
        action: &'static str,
        path: &Path,
        advice: fn(&io::Error) -> &'static str,
    ) -> impl FnOnce(io::Error) -> CommandError {
        let path = path.to_owned();
        move |source| CommandError::Path {
            action,
            path,
            advice: advice(&source),
            source,
        }
    }

    /// A maker of [`CommandError::System`] for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> CommandError {
        move |source| CommandError::System { action, source }
    }
}
