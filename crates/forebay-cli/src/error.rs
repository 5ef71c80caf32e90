//! Why a command failed, as one line for people.

use forebay_demo::DemoError;
use forebay_host::{HostError, StepError};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command failed. Its text is one line: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The system or the cache refused a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// An image cannot be served.
    #[error("{}: {reason}", path.display())]
    Image { path: PathBuf, reason: String },
    /// An image cannot be opened; the text says which one and why.
    #[error("{0}")]
    Opened(String),
    /// A server cannot be started; the text says where and why.
    #[error("{0}")]
    Served(String),
    /// The call asks for something impossible, which only the work itself could find out.
    #[error("{0}")]
    BadCall(String),
    /// A setting cannot be used here; the text says why. A file of settings has it under `key`.
    #[error("{text}")]
    Setting { key: String, text: String },
    /// The computer does not let it go on.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The demo cannot go on.
    #[error(transparent)]
    Demo(#[from] DemoError),
}

impl CommandError {
    /// The exit status for this error.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            CommandError::BadCall(_) | CommandError::Setting { .. } => 2,
            _ => 1,
        }
    }

    /// Refuses the setting that files have under `key`.
    pub(crate) fn setting(key: impl Into<String>, text: &dyn Display) -> CommandError {
        CommandError::Setting {
            key: key.into(),
            text: text.to_string(),
        }
    }

    /// Makes a [`StepError::Path`] for `map_err`, with the text that `advice` gives for the error.
    pub(crate) fn advised(
        action: &'static str,
        path: &Path,
        advice: fn(&io::Error) -> &'static str,
    ) -> impl FnOnce(io::Error) -> CommandError {
        let step = StepError::advised(action, path, advice);
        move |source| step(source).into()
    }

    /// Makes a [`StepError::System`] for `map_err`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> CommandError {
        let step = StepError::system(action);
        move |source| step(source).into()
    }
}
