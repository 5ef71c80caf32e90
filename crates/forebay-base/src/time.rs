//! Time as plain numbers. Nobody here can ask what time it is; the runtime can.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A length of time in nanoseconds.
///
/// ```
/// use forebay_base::Span;
/// assert_eq!(Span::from_millis(2).as_micros(), 2_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// A point in time: nanoseconds since the runtime that measured it started.
///
/// ```
/// use forebay_base::{Instant, Span};
/// let start = Instant::ZERO;
/// assert_eq!((start + Span::from_secs(1)).since(start), Span::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span there is, about 584 years.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A span of `micros` microseconds, at most [`Span::MAX`].
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds, at most [`Span::MAX`].
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds, at most [`Span::MAX`].
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds as a floating number, for people; no law uses it.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span less `other`, not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// This span `times` times, at most [`Span::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }
}

impl Instant {
    /// The start of the runtime.
    pub const ZERO: Instant = Instant(0);
    /// A point that is never reached.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The point `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the start: the tick in which the laws count.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    fn add(self, span: Span) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub<Instant> for Instant {
    type Output = Span;
    fn sub(self, earlier: Instant) -> Span {
        self.since(earlier)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..=9_999 => write!(f, "{} ns", self.0),
            10_000..=9_999_999 => write!(f, "{} us", self.as_micros()),
            10_000_000..=9_999_999_999 => write!(f, "{} ms", self.as_millis()),
            _ => write!(f, "{:.1} s", self.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Instant::NEVER + Span::from_secs(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Instant::from_nanos(5), Span::ZERO);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(Span::ZERO.saturating_sub(Span::MAX), Span::ZERO);
    }

    #[test]
    fn a_span_is_shown_with_its_unit() {
        assert_eq!(Span::from_nanos(950).to_string(), "950 ns");
        assert_eq!(Span::from_micros(2_500).to_string(), "2500 us");
        assert_eq!(Span::from_millis(200).to_string(), "200 ms");
        assert_eq!(Span::from_secs(12).to_string(), "12.0 s");
    }
}
