//! Why a command of the lab failed, as one line for people.

use forebay_bench::BenchError;
use forebay_host::HostError;

/// Why a command failed. Its text is one line: what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The computer does not let it go on.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The bench cannot go on.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A run failed, or a test does not hold; the text says which.
    #[error("{0}")]
    Lab(String),
    /// The call asks for something impossible, which only the work itself could find out.
    #[error("{0}")]
    BadCall(String),
}

impl CommandError {
    /// The exit status for this error.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            CommandError::BadCall(_) => 2,
            _ => 1,
        }
    }

    /// Ends the program by the signal that interrupted its work, if one did.
    pub(crate) fn end_by_signal(&self) {
        if let CommandError::Host(error) | CommandError::Bench(BenchError::Host(error)) = self {
            error.end_by_signal();
        }
    }
}
