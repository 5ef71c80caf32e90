//! Why a check could not run.

use std::path::PathBuf;

/// Why a check could not run; the results of a check are [`crate::tidy::Finding`]s.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("cannot start `{command}`: {cause}; is it installed and in PATH?")]
    Start {
        command: String,
        cause: std::io::Error,
    },
    #[error("`{command}` failed: {message}")]
    Failed { command: String, message: String },
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error("cannot understand `cargo metadata`: {0}; is cargo the pinned one?")]
    Metadata(String),
}
