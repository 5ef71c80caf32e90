//! Waits for writeback: if a reclaimer waits for pages of its node to be written, their end wakes
//! it, not its time-out (spec/reclaim.md 5.5 and 10, I-17).
//!
//! Today only kswapd waits for this. With one waiter, the 33rd page that is written ends its wait.
//! On a machine with one node each page counts. Pages that end at the instant at which the wait
//! begins or ends may come before or after it, and are left out.

use forebay_base::{Instant, Span};
use std::collections::VecDeque;

/// This many written pages for each waiter do not wake it yet.
const PAGES_OF_A_WAITER: u64 = 32;
/// Waits are shorter than this.
const REMEMBERED: Span = Span::from_secs(1);

/// Writes that ended a moment ago.
#[derive(Debug, Default)]
pub(super) struct Written {
    ends: VecDeque<(Instant, u64)>,
}

impl Written {
    pub(super) fn ends(&mut self, now: Instant, pages: u64) {
        self.ends.push_back((now, pages));
        while self
            .ends
            .front()
            .is_some_and(|(at, _)| now.since(*at) > REMEMBERED)
        {
            self.ends.pop_front();
        }
    }

    /// Judges a wait of kswapd that could last for `timeout` and ends after `delayed`.
    pub(super) fn waited(&self, now: Instant, timeout: Span, delayed: Span) -> Option<String> {
        if delayed < timeout {
            return None;
        }
        let is_within = |at: Instant| at < now && now.since(at) < delayed;
        let within = self.ends.iter().filter(|(at, _)| is_within(*at));
        let pages: u64 = within.map(|(_, pages)| pages).sum();
        (pages > PAGES_OF_A_WAITER).then(|| {
            format!(
                "kswapd waited for writes until its time-out of {timeout} at {} ms, and {pages} \
                 pages were written meanwhile; more than {PAGES_OF_A_WAITER} wake it \
                 (spec/reclaim.md 5.5, I-17)",
                now.as_millis()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    #[test]
    fn a_wait_that_writes_should_have_ended_is_found() {
        let long = Span::from_millis(100);
        let mut written = Written::default();
        written.ends(at(1_000), 90);
        written.ends(at(1_050), 32);
        written.ends(at(1_100), 90);
        assert_eq!(written.waited(at(1_100), long, long), None);
        written.ends(at(1_060), 1);
        assert!(written.waited(at(1_100), long, long).is_some());
        assert_eq!(written.waited(at(1_100), long, Span::from_millis(60)), None);
    }
}
