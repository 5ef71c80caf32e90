//! When a store was at work: how long it was busy, and how long it stood idle although one of its
//! writers was paused.
//!
//! A store is busy while it has requests (writes of files, and commits) and while a round chooses
//! what to write next. Its rate is what it wrote while it was busy: a store that gets too little to
//! do is not slow (docs/decisions/writeback-and-throttling.md).
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
    /// Writes and commits: they make the store busy.
    requests: Answers,
    /// Reads, discards and new lengths.
    asides: Answers,
    rounds: u32,
    paused: u32,
    /// There was something to write when the store became idle, or when a writer began to pause.
    has_work: bool,
    times: ActivityTimes,
    /// The instant up to which `times` are.
    until: Instant,
    silences: Silences,
    /// When the last request or round ended.
    idle_since: Instant,
}

/// Requests that the store has to answer.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    waiting: u32,
    /// When one last ended, or when the first of those under way began.
    last: Instant,
}

impl Answers {
    fn begins(&mut self, now: Instant) {
        if self.waiting == 0 {
            self.last = now;
        }
        self.waiting += 1;
    }

    /// Returns how long nothing was answered before.
    fn ends(&mut self, now: Instant) -> Span {
        let silent = self.silent(now);
        self.waiting = self.waiting.checked_sub(1).expect("what ends has begun");
        self.last = self.last.max(now);
        silent
    }

    fn silent(self, now: Instant) -> Span {
        match self.waiting {
            0 => Span::ZERO,
            _ => now.since(self.last),
        }
    }
}

/// Times in which the store had requests and answered nothing for [`SILENCE`] or longer, and then
/// did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silences {
    pub(crate) count: u64,
    pub(crate) last: Span,
}

/// A store that has requests and has answered none for this long stands still.
pub(crate) const STANDS_STILL: Span = Span::from_millis(500);

/// A store that answers nothing for this long is silent.
const SILENCE: Span = Span::from_secs(5);

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A write of file pages, or a commit, that the store has.
    Request,
    /// A read, a discard or a new length that the store has. It does not make the store busy: its
    /// rate is that of its writes.
    Aside,
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

    fn begins(&mut self, part: Part, now: Instant) {
        match part {
            Part::Request => self.requests.begins(now),
            Part::Aside => self.asides.begins(now),
            Part::Round => self.rounds += 1,
            Part::Pause => self.paused += 1,
        }
    }

    fn ends(&mut self, part: Part, now: Instant) {
        let less = |count: u32| count.checked_sub(1).expect("what ends has begun");
        let silent = match part {
            Part::Request => self.requests.ends(now),
            Part::Aside => self.asides.ends(now),
            Part::Round => {
                self.rounds = less(self.rounds);
                Span::ZERO
            }
            Part::Pause => {
                self.paused = less(self.paused);
                Span::ZERO
            }
        };
        if silent >= SILENCE {
            self.silences.count += 1;
            self.silences.last = silent;
        }
    }

    fn is_busy(&self) -> bool {
        self.requests.waiting > 0 || self.rounds > 0
    }

    fn is_idle_while_throttled(&self) -> bool {
        self.requests.waiting == 0 && self.paused > 0
    }
}

impl Activity {
    /// `part` begins at `now`. True if a writer is paused now and the store has nothing to do: the
    /// caller then notes whether it should have.
    pub(crate) fn begins(&self, part: Part, now: Instant) -> bool {
        let mut inner = lock(&self.0);
        inner.advance(now);
        inner.begins(part, now);
        inner.is_idle_while_throttled()
    }

    /// `part` ends at `now`. Returns the same as [`Activity::begins`].
    pub(crate) fn ends(&self, part: Part, now: Instant) -> bool {
        let mut inner = lock(&self.0);
        inner.advance(now);
        inner.ends(part, now);
        if !inner.is_busy() && part != Part::Aside {
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

    /// For how long the store has had requests and answered none: writes and commits, or the
    /// others. A store that reads may hang in a commit.
    pub(crate) fn silent(&self, now: Instant) -> Span {
        let inner = lock(&self.0);
        inner.requests.silent(now).max(inner.asides.silent(now))
    }

    /// The times of silence that are over.
    pub(crate) fn silences(&self) -> Silences {
        lock(&self.0).silences
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
    fn a_store_is_silent_while_it_answers_neither_or_one_of_both() {
        let activity = Activity::default();
        activity.begins(Part::Aside, at(0));
        activity.begins(Part::Request, at(1_000));
        activity.ends(Part::Aside, at(2_000));
        activity.begins(Part::Aside, at(3_000));
        activity.ends(Part::Aside, at(8_999));
        let one = Silences {
            count: 1,
            last: Span::from_millis(5_999),
        };
        assert_eq!(activity.silences(), one);
        assert_eq!(
            activity.silent(at(9_000)),
            Span::from_secs(8),
            "it reads, and writes nothing"
        );
        activity.ends(Part::Request, at(9_500));
        assert_eq!(
            activity.silent(at(99_000)),
            Span::ZERO,
            "it has nothing to answer"
        );
        let two = Silences {
            count: 2,
            last: Span::from_millis(8_500),
        };
        assert_eq!(activity.silences(), two);
        assert_eq!(
            activity.times(at(99_000)).busy,
            Span::from_millis(8_500),
            "by its writes"
        );
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
