//! Whether a thread polls its client's socket for the next request before it sleeps.
//!
//! On a machine with a free processor the wake-up of a sleeper takes far longer than a request for
//! cached bytes: the processor sleeps too, and in a virtual machine only its host can wake it. A
//! client that asks one thing at a time pays for two of these for each request, its own and the
//! server's. A thread that polls for a moment longer spares one of them. Where the client cannot
//! run meanwhile, because no processor is free, the polls are in vain, and there are fewer and
//! fewer of them.

use forebay_base::sync::atomic::{AtomicUsize, Ordering};

/// Polls before a sleep, each one call of the system: about as long as a client takes to wake up.
const POLLS: u32 = 256;
/// Most sleeps before the next polls, after polls that were in vain.
const LONGEST_REST: u32 = 256;

/// What a connection's thread knows of the use of its polls.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    /// Sleeps that are still to come without a poll.
    rest: u32,
    /// How many there were after the last polls in vain; 0 if the last ones found something.
    last_rest: u32,
}

impl BusyPoll {
    /// How often to poll before the sleep that is due now.
    pub(crate) fn polls(&mut self) -> u32 {
        if self.rest == 0 {
            return POLLS;
        }
        self.rest -= 1;
        0
    }

    /// The polls have ended: because something has come, or because it has not.
    pub(crate) fn ended(&mut self, has_come: bool) {
        self.last_rest = if has_come {
            0
        } else {
            (self.last_rest * 2).clamp(1, LONGEST_REST)
        };
        self.rest = self.last_rest;
    }
}

/// How many connections of a server serve requests now.
#[derive(Debug, Default)]
pub(crate) struct Presence(AtomicUsize);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Present<'p>(&'p Presence);

impl Presence {
    pub(crate) fn enter(&self) -> Present<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Present(self)
    }
}

impl Present<'_> {
    /// Whether there is no other one, which the polls could keep from a processor.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sleeps without a poll until the next one.
    fn rest(busy_poll: &mut BusyPoll) -> u32 {
        let mut rest = 0;
        while busy_poll.polls() == 0 {
            rest += 1;
        }
        rest
    }

    #[test]
    fn polls_in_vain_become_seldom_and_a_find_makes_them_frequent() {
        let mut busy_poll = BusyPoll::default();
        for expected in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert_eq!(rest(&mut busy_poll), expected);
            busy_poll.ended(false);
        }
        assert_eq!(rest(&mut busy_poll), 256);
        for _ in 0..3 {
            busy_poll.ended(true);
            assert_eq!(rest(&mut busy_poll), 0);
        }
        busy_poll.ended(false);
        assert_eq!(rest(&mut busy_poll), 1);
    }

    #[test]
    fn who_is_alone_knows_it() {
        let presence = Presence::default();
        let first = presence.enter();
        assert!(first.is_alone());
        let second = presence.enter();
        assert!(!first.is_alone() && !second.is_alone());
        drop(first);
        assert!(second.is_alone());
    }
}
