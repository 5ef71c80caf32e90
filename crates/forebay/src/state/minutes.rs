//! Sums of the last minutes, kept in a ring: which place is whose.

use forebay_base::{Instant, Span};

/// Minutes whose sums are kept.
pub(crate) const MINUTES: u64 = 10;
pub(crate) const MINUTE: Span = Span::from_secs(60);

/// The minute in which `now` is.
pub(crate) fn minute_of(now: Instant) -> u64 {
    now.as_millis() / MINUTE.as_millis()
}

/// The places of minutes that begin after minute `last`, up to `minute`: what they hold is older
/// than the ring.
pub(crate) fn cleared_between(last: u64, minute: u64) -> impl Iterator<Item = usize> {
    let passed = minute.saturating_sub(last).min(MINUTES);
    (1..=passed).map(move |step| ((last + step) % MINUTES) as usize)
}

/// Orders rows by the `minute` that was last written to, and then by what it holds.
pub(crate) fn freshness(minute: u64, held: u32) -> u64 {
    minute.min(u64::from(u32::MAX)) << 32 | u64::from(held)
}

/// The last few minutes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The last minute.
    pub(crate) minute: u64,
    count: u64,
}

impl Window {
    /// The last `count` minutes, including that of `now`.
    pub(crate) fn of(now: Instant, count: u64) -> Window {
        let minute = minute_of(now);
        Window { minute, count }
    }

    /// The places of its minutes.
    pub(crate) fn places(self) -> impl Iterator<Item = usize> {
        let Window { minute, count } = self;
        let back = 0..count.min(MINUTES).min(minute + 1);
        back.map(move |back| ((minute - back) % MINUTES) as usize)
    }
}
