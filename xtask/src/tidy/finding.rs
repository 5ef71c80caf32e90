//! What a rule finds.

use crate::source::Source;
use std::fmt;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl Finding {
    /// Line `line` of `source`, counted from 1, breaks a rule as `message` says.
    pub(super) fn new(source: &Source, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: source.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
