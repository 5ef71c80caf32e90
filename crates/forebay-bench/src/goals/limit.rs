//! Limits, and which side of them is good.

use std::fmt;

/// Which side of the limit is good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    fn is_met(self, measured: f64) -> bool {
        match self {
            Limit::AtMost(most) => measured <= most,
            Limit::AtLeast(least) => measured >= least,
        }
    }

    /// The verdict on a goal, in one word.
    pub(crate) fn verdict(self, measured: Option<f64>) -> &'static str {
        match measured.map(|measured| self.is_met(measured)) {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(most) => write!(f, "at most {most}"),
            Limit::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}
