//! Sums of the recent past, kept in two rings: of the last minutes, and of the last minute in
//! steps of five seconds.

use forebay_base::{Instant, Span};

/// Minutes whose sums are kept.
const MINUTES: usize = 10;
pub(crate) const MINUTE: Span = Span::from_secs(60);
/// Steps whose sums are kept: a minute of them, and the one that is under way.
const STEPS: usize = 13;
const STEP: Span = Span::from_secs(5);

/// Orders rows by the `minute` that was last written to, and then by what it holds.
pub(crate) fn freshness(minute: u64, held: u32) -> u64 {
    minute.min(u64::from(u32::MAX)) << 32 | u64::from(held)
}

/// The last few minutes or steps, including the one that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    now: Instant,
    of_steps: bool,
    count: usize,
}

impl Window {
    /// The time `last` before `now`, rounded up to steps, and to minutes if it is more than a
    /// minute. None if the rings do not go back that far: then everything since the start counts.
    pub(crate) fn of(now: Instant, last: Span) -> Option<Window> {
        let of_steps = last <= MINUTE;
        let each = if of_steps { STEP } else { MINUTE };
        let count = last.as_nanos().div_ceil(each.as_nanos()) + 1;
        let window = Window {
            now,
            of_steps,
            count: usize::try_from(count).unwrap_or(usize::MAX),
        };
        (of_steps || window.count <= MINUTES).then_some(window)
    }

    /// The last `count` minutes, the one that is under way included.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn minutes(now: Instant, count: usize) -> Window {
        Window {
            now,
            of_steps: false,
            count,
        }
    }

    /// How much of the time before now it covers.
    pub(crate) fn length(self) -> Span {
        let all = self.now.since(Instant::ZERO);
        let each = if self.of_steps { STEP } else { MINUTE };
        let begun = Span::from_nanos(all.as_nanos() % each.as_nanos());
        all.min(begun + each.saturating_mul(self.count as u64 - 1))
    }
}

/// A ring of sums, each over a time of equal length.
#[derive(Clone, Copy, Debug)]
struct Ring<T, const PLACES: usize> {
    sums: [T; PLACES],
    /// The number of the time that was last written to.
    last: u64,
}

impl<T: Copy + Default, const PLACES: usize> Ring<T, PLACES> {
    fn new() -> Ring<T, PLACES> {
        Ring {
            sums: [T::default(); PLACES],
            last: 0,
        }
    }

    /// The place of the time numbered `number`.
    fn place(number: u64) -> usize {
        (number % PLACES as u64) as usize
    }

    /// Forgets what is older than the ring if `number` is the time of now.
    fn turn_to(&mut self, number: u64) {
        let passed = number.saturating_sub(self.last).min(PLACES as u64);
        for step in 1..=passed {
            self.sums[Self::place(self.last + step)] = T::default();
        }
        self.last = self.last.max(number);
    }

    /// Spreads `us` over the times before `now`: `add` gets each sum and its part, and whether it
    /// is the first part, that of now.
    fn spread(&mut self, each: Span, now: Instant, us: u64, add: impl Fn(&mut T, u64, bool)) {
        let number = now.as_nanos() / each.as_nanos();
        self.turn_to(number);
        let (mut left, mut room) = (us, now.as_micros() - number * each.as_micros());
        let late = self.last - number;
        for back in 0..(PLACES as u64).saturating_sub(late).min(number + 1) {
            let part = left.min(room);
            add(&mut self.sums[Self::place(number - back)], part, back == 0);
            left -= part;
            room = each.as_micros();
            if left == 0 {
                break;
            }
        }
    }

    fn add(&mut self, other: &Ring<T, PLACES>, add: impl Fn(&mut T, T)) {
        let mut other = *other;
        self.turn_to(other.last);
        other.turn_to(self.last);
        for (sum, added) in self.sums.iter_mut().zip(other.sums) {
            add(sum, added);
        }
    }

    /// The last `count` sums if `number` is the time of now.
    fn latest(&self, number: u64, count: usize, mut each: impl FnMut(T)) {
        let mut ring = *self;
        ring.turn_to(number);
        for back in 0..(count.min(PLACES) as u64).min(number + 1) {
            each(ring.sums[Self::place(number - back)]);
        }
    }
}

/// The sums of the last minutes, and of the last steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent<T> {
    minutes: Ring<T, MINUTES>,
    steps: Ring<T, STEPS>,
}

impl<T: Copy + Default> Recent<T> {
    pub(crate) fn new() -> Recent<T> {
        Recent {
            minutes: Ring::new(),
            steps: Ring::new(),
        }
    }

    /// Notes what took `us` before `now`: `add` gets each sum and the part of the time that
    /// belongs to it, and whether this is the sum of now.
    pub(crate) fn spread(&mut self, now: Instant, us: u64, add: impl Fn(&mut T, u64, bool)) {
        self.minutes.spread(MINUTE, now, us, &add);
        self.steps.spread(STEP, now, us, &add);
    }

    /// Notes what happened at `now`.
    pub(crate) fn note(&mut self, now: Instant, add: impl Fn(&mut T)) {
        self.spread(now, 0, |sum, _, _| add(sum));
    }

    pub(crate) fn add(&mut self, other: &Recent<T>, add: impl Fn(&mut T, T)) {
        self.minutes.add(&other.minutes, &add);
        self.steps.add(&other.steps, &add);
    }

    /// Each sum of `window`.
    pub(crate) fn for_each(&self, window: Window, each: impl FnMut(T)) {
        let nanos = window.now.as_nanos();
        if window.of_steps {
            self.steps
                .latest(nanos / STEP.as_nanos(), window.count, each);
        } else {
            self.minutes
                .latest(nanos / MINUTE.as_nanos(), window.count, each);
        }
    }

    /// The minute that was last written to, and its sum.
    pub(crate) fn last_minute(&self) -> (u64, T) {
        let last = self.minutes.last;
        (last, self.minutes.sums[Ring::<T, MINUTES>::place(last)])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn us_in(recent: &Recent<u64>, now: Instant, last: Span) -> u64 {
        let window = Window::of(now, last).expect("it goes back that far");
        let mut sum = 0;
        recent.for_each(window, |us| sum += us);
        sum
    }

    #[test]
    fn a_window_is_rounded_up_to_steps_or_minutes() {
        let now = at(1_000_200);
        let length = |last| Window::of(now, Span::from_secs(last)).map(Window::length);
        assert_eq!(length(20), Some(Span::from_millis(20_200)));
        assert_eq!(length(21), Some(Span::from_millis(25_200)));
        assert_eq!(length(60), Some(Span::from_millis(60_200)));
        assert_eq!(length(61), Some(Span::from_millis(160_200)));
        assert_eq!(length(540), Some(Span::from_millis(580_200)));
        assert_eq!(length(541), None);
        let young = Window::of(at(3_000), Span::from_secs(20)).expect("it is short");
        assert_eq!(young.length(), Span::from_secs(3));
    }

    #[test]
    fn a_long_wait_counts_where_it_was_and_not_where_it_ended() {
        let mut recent = Recent::new();
        recent.spread(at(62_000), 61_000_000, |sum, us, _| *sum += us);
        let last = |secs| us_in(&recent, at(62_000), Span::from_secs(secs));
        assert_eq!((last(5), last(20)), (7_000_000, 22_000_000));
        assert_eq!(last(60), 61_000_000, "13 steps cover all of it");
        assert_eq!(last(120), 61_000_000);
        let later = |secs| us_in(&recent, at(122_000), Span::from_secs(secs));
        assert_eq!((later(60), later(61)), (2_000_000, 61_000_000));
    }

    #[test]
    fn what_is_noted_late_is_not_taken_for_new() {
        let mut recent = Recent::new();
        recent.note(at(100_000), |sum| *sum += 1);
        recent.spread(at(39_000), 39_000_000, |sum, us, _| *sum += us);
        let now = at(100_000);
        assert_eq!(us_in(&recent, now, Span::from_secs(5)), 1);
        assert_eq!(us_in(&recent, now, Span::from_secs(540)), 39_000_001);
    }
}
