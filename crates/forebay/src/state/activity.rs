//! When a store was at work: how long it was busy, and how long it stood idle although one of its
//! writers was paused.
//!
//! A store is busy while it has requests (writes of files, and commits) and while a round chooses
//! what to write next. Its rate is what it wrote while it was busy: a store that gets too little to
//! do is not slow (docs/decisions/0031).
//!
//! invariant A1: no instant is counted twice in one of these sums: they follow the clock, however
//! many requests, rounds or pauses are under way.

use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};

/// Sums of time, up to the instant at which they were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActivityTimes {
    /// Requests were under way, or a round.
    pub(crate) busy: Span,
    /// At least one writer was paused.
    pub(crate) throttled: Span,
    /// At least one writer was paused, there was something to write in the background, and no
    /// request was under way.
    pub(crate) idle_while_throttled: Span,
}

/// What a store does, and the writers that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Activity(Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    requests: u32,
    rounds: u32,
    paused: u32,
    /// There was something to write when the store became idle, or when a writer began to pause.
    has_work: bool,
    times: ActivityTimes,
    /// The instant up to which `times` are.
    until: Instant,
    /// When a request last ended, or when the first of those under way began.
    answered: Instant,
    /// When the last request or round ended.
    idle_since: Instant,
}

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A write of file pages, or a commit, that the store has.
    Request,
    /// A round that chooses pages and submits them.
    Round,
    /// A writer that pauses.
    Pause,
}

impl Now {
    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.until);
        if self.is_busy() {
            self.times.busy += passed;
        }
        if self.paused > 0 {
            self.times.throttled += passed;
        }
        if self.is_idle_while_throttled() && self.has_work {
            self.times.idle_while_throttled += passed;
        }
        self.until = self.until.max(now);
    }

    fn count(&mut self, part: Part) -> &mut u32 {
        match part {
            Part::Request => &mut self.requests,
            Part::Round => &mut self.rounds,
            Part::Pause => &mut self.paused,
        }
    }

    fn is_busy(&self) -> bool {
        self.requests > 0 || self.rounds > 0
    }

    fn is_idle_while_throttled(&self) -> bool {
        self.requests == 0 && self.paused > 0
    }
}

impl Activity {
    /// `part` begins at `now`. True if a writer is paused now and the store has nothing to do: the
    /// caller then notes whether it should have.
    pub(crate) fn begins(&self, part: Part, now: Instant) -> bool {
        let mut inner = lock(&self.0);
        inner.advance(now);
        if part == Part::Request && inner.requests == 0 {
            inner.answered = now;
        }
        *inner.count(part) += 1;
        inner.is_idle_while_throttled()
    }

    /// `part` ends at `now`. Returns the same as [`Activity::begins`].
    pub(crate) fn ends(&self, part: Part, now: Instant) -> bool {
        let mut inner = lock(&self.0);
        inner.advance(now);
        let count = inner.count(part);
        *count = count.checked_sub(1).expect("what ends has begun");
        if part == Part::Request {
            inner.answered = now;
        }
        if !inner.is_busy() {
            inner.idle_since = now;
        }
        inner.is_idle_while_throttled()
    }

    /// Whether there is something to write while the store is idle and a writer is paused.
    pub(crate) fn note_work(&self, has_work: bool) {
        lock(&self.0).has_work = has_work;
    }

    /// The sums up to `now`.
    pub(crate) fn times(&self, now: Instant) -> ActivityTimes {
        let mut inner = lock(&self.0);
        inner.advance(now);
        inner.times
    }

    /// For how long the store has had requests and answered none.
    pub(crate) fn silent(&self, now: Instant) -> Span {
        let inner = lock(&self.0);
        if inner.requests == 0 {
            Span::ZERO
        } else {
            now.since(inner.answered)
        }
    }

    /// For how long the store has been idle; none if it is at work.
    pub(crate) fn idle(&self, now: Instant) -> Span {
        let inner = lock(&self.0);
        if inner.is_busy() {
            Span::ZERO
        } else {
            now.since(inner.idle_since)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn times(busy: u64, throttled: u64, idle: u64) -> ActivityTimes {
        ActivityTimes {
            busy: Span::from_millis(busy),
            throttled: Span::from_millis(throttled),
            idle_while_throttled: Span::from_millis(idle),
        }
    }

    #[test]
    fn invariant_a1_times_go_on_by_the_clock_however_many_are_at_work() {
        let activity = Activity::default();
        activity.begins(Part::Round, at(10));
        activity.begins(Part::Request, at(20));
        activity.begins(Part::Request, at(20));
        activity.ends(Part::Round, at(30));
        activity.ends(Part::Request, at(40));
        assert_eq!(activity.times(at(50)), times(40, 0, 0));
        assert_eq!(activity.idle(at(60)), Span::ZERO);
        activity.ends(Part::Request, at(60));
        assert_eq!(activity.idle(at(75)), Span::from_millis(15));
        assert_eq!(activity.times(at(75)), times(50, 0, 0));
    }

    #[test]
    fn a_store_is_idle_while_throttled_only_with_something_to_write() {
        let activity = Activity::default();
        assert!(!activity.begins(Part::Request, at(0)));
        assert!(!activity.begins(Part::Pause, at(0)));
        assert!(!activity.begins(Part::Pause, at(5)));
        assert!(activity.ends(Part::Request, at(10)));
        activity.note_work(true);
        // A round alone does not keep a device busy.
        assert!(activity.begins(Part::Round, at(12)));
        activity.note_work(true);
        assert!(!activity.begins(Part::Request, at(20)));
        assert!(activity.ends(Part::Request, at(30)));
        activity.note_work(false);
        assert!(activity.ends(Part::Pause, at(40)));
        assert!(!activity.ends(Part::Pause, at(50)));
        assert_eq!(activity.times(at(60)), times(58, 50, 10));
    }

    #[test]
    fn a_clock_read_late_by_another_thread_takes_nothing_back() {
        let activity = Activity::default();
        activity.begins(Part::Request, at(10));
        activity.times(at(20));
        activity.ends(Part::Request, at(15));
        assert_eq!(activity.times(at(30)), times(10, 0, 0));
    }
}
