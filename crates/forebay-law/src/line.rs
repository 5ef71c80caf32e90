//! How many uploads share a line at once, and for how long one may be without an answer.
//!
//! # Question
//!
//! A bucket is asked over a line whose speed nobody knows. How many objects are sent at once, so
//! that each ends in a reasonable time, and when does a request without an answer count as lost
//! rather than as slow?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `sent_bytes` | bytes | 0 and up | uploads that ended during one of them, and it |
//! | `took_ms` | ms | 0 and up | how long that one took |
//! | `under_way_bytes` | bytes | 0 and up | all uploads under way |
//! | rate | bytes/s | 16 KiB/s and up | state, at first 1 MiB/s |
//! | uploads at once | uploads | 1 and up | output |
//! | patience | ms | 30 000 and up | output |
//!
//! # Formula
//!
//! ```text
//! sample   = sent_bytes / took
//! rate     = sample                         if sample > rate
//!            rate - (rate - sample) / 8     otherwise
//!            rate / 2                       after an upload that had no answer
//! uploads  = rate * 10 s / object_bytes     at least 1
//! patience = 30 s + 4 * under_way_bytes / rate
//! ```
//!
//! # Conditions
//!
//! 1. Patience is 30 s or more. It never shrinks as more bytes are under way, and never grows with
//!    the rate.
//! 2. What is sent at once takes 10 s at most at the known rate, or is one object.
//! 3. After `n` uploads without an answer, one has the time that it needs on a line that was taken
//!    for at most `2^n` times as fast as it is, unless it is below the slowest rate.
//! 4. The rate never leaves its range.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/line.svg")]
//!
//! Uploads of 1 MiB at once over the rate of the line. A line below 200 KiB/s sends one at a time.
//!
//! # Example
//!
//! A line of 64 KiB/s is taken for 1 MiB/s at first. Ten uploads of 1 MiB would take 160 s, and
//! each has 70 s. After four rounds without an answer the rate is 64 KiB/s: one upload at a time,
//! which takes 16 s and has 94 s.
//!
//! ```
//! use forebay_law::line::Line;
//!
//! let mut line = Line::default();
//! assert_eq!(line.uploads_at_once(1 << 20), 10);
//! assert_eq!(line.patience_ms(10 << 20), 70_000);
//! for _ in 0..4 {
//!     line = line.without_answer();
//! }
//! assert_eq!(line.uploads_at_once(1 << 20), 1);
//! assert_eq!(line.patience_ms(1 << 20), 94_000);
//! ```
//!
//! # Why not the simpler one
//!
//! A fixed time for a whole request makes a slow line carry nothing: sixteen uploads share it, all
//! of them run out of time, and all are sent again. A time without a bound makes a server that
//! takes everything and never answers stop a volume for good. Counting the bytes that left is no
//! way out: the system's socket takes a whole object at once, and what the line does with it is
//! not seen.
//!
//! # Edges
//!
//! A line below 16 KiB/s is taken for one of 16 KiB/s: an object of 1 MiB has 286 s. Uploads that
//! end at the same moment count each other: only the last of them sees the whole rate, which is why
//! the greater sample counts at once and lesser ones by an eighth.
//!
//! # Lineage
//!
//! Forebay's own (docs/decisions/remote-storage.md). The halving is that of congestion control
//! (Jacobson 1988), the greatest sample that fades that of BBR (2016).

/// Patience with a request that sends nothing, milliseconds.
pub const SILENCE_MS: u64 = 30_000;
/// What is sent at once takes this long at most, seconds.
const AT_ONCE_S: u64 = 10;
/// A line may be so many times slower than it is taken for, before its uploads count as lost.
const SLACK: u64 = 4;
/// A sample below the rate lowers it by this part of the difference.
const FADE: u64 = 8;
/// Bytes a second.
const FIRST_RATE: u64 = 1 << 20;
const SLOWEST_RATE: u64 = 16 << 10;
const FASTEST_RATE: u64 = 1 << 40;

/// What is known of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    bytes_per_s: u64,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            bytes_per_s: FIRST_RATE,
        }
    }
}

impl Line {
    /// The rate that the line is taken for.
    pub fn bytes_per_s(self) -> u64 {
        self.bytes_per_s
    }

    /// After an upload that took `took_ms`, in which `sent_bytes` were sent in all.
    #[must_use]
    pub fn sent(self, sent_bytes: u64, took_ms: u64) -> Line {
        let sample = sent_bytes.saturating_mul(1_000) / took_ms.max(1);
        let lower = self.bytes_per_s - self.bytes_per_s.saturating_sub(sample) / FADE;
        Line::of(lower.max(sample))
    }

    /// After an upload that had no answer within its patience.
    #[must_use]
    pub fn without_answer(self) -> Line {
        Line::of(self.bytes_per_s / 2)
    }

    fn of(bytes_per_s: u64) -> Line {
        Line {
            bytes_per_s: bytes_per_s.clamp(SLOWEST_RATE, FASTEST_RATE),
        }
    }

    /// How many objects of `object_bytes` are sent at once at most.
    pub fn uploads_at_once(self, object_bytes: u64) -> usize {
        let fitting = self.bytes_per_s * AT_ONCE_S / object_bytes.max(1);
        usize::try_from(fitting).unwrap_or(usize::MAX).max(1)
    }

    /// How long a request may be without an answer while `under_way_bytes` are being sent.
    pub fn patience_ms(self, under_way_bytes: u64) -> u64 {
        let bytes = u128::from(under_way_bytes) * u128::from(SLACK) * 1_000;
        let sending_ms = u64::try_from(bytes / u128::from(self.bytes_per_s)).unwrap_or(u64::MAX);
        SILENCE_MS.saturating_add(sending_ms)
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
