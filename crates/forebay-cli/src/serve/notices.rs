//! What the server reports of its connections, so that strangers cannot fill a log.

use crate::daemon::say::say;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_nbd::Notice;
use forebay_rt::thread::Stopwatch;

/// A notice of one kind is said once in so long. The next one tells how many were not.
const EVERY: Span = Span::from_secs(60);

/// The connections that ended with an error, and those that were turned away.
#[derive(Debug, Default)]
pub(super) struct Notices {
    failed: Mutex<Kind>,
    refused: Mutex<Kind>,
}

#[derive(Debug, Default)]
struct Kind {
    since: Option<Stopwatch>,
    unsaid: u64,
}

impl Notices {
    /// Says `notice` if it is one for an operator, and one of its kind has not just been said.
    pub(super) fn say(&self, notice: &Notice) {
        let kind = match notice {
            Notice::Failed { .. } => &self.failed,
            Notice::Refused { .. } => &self.refused,
            _ => return,
        };
        match lock(kind).next() {
            Some(0) => say(notice),
            Some(unsaid) => say(format_args!(
                "{notice}; {unsaid} more since the last such line"
            )),
            None => {}
        }
    }
}

impl Kind {
    /// How many notices were not said before this one, if this one is to be said.
    fn next(&mut self) -> Option<u64> {
        if self
            .since
            .as_ref()
            .is_some_and(|since| since.elapsed() < EVERY)
        {
            self.unsaid += 1;
            return None;
        }
        self.since = Some(Stopwatch::start());
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_said_once_and_counted_after_that() {
        let mut kind = Kind::default();
        assert_eq!(kind.next(), Some(0));
        for _ in 0..5 {
            assert_eq!(kind.next(), None);
        }
        kind.since = None;
        assert_eq!(kind.next(), Some(5), "a minute is over");
        assert_eq!(kind.next(), None);
        kind.since = None;
        assert_eq!(kind.next(), Some(1));
    }
}
