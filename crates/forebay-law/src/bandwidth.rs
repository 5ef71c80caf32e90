//! How fast a store writes.
//!
//! # Question
//!
//! How many pages a second can be expected of a store, when its completions come in bursts?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `written_pages` | pages | 0 and up | what the store took since the last step |
//! | `refused_pages` | pages | 0 and up | what it refused |
//! | `elapsed_ms` | ms | 1 and up, 200 as a rule | the runtime |
//! | `busy_us` | us | 0 to `elapsed_ms` | in which the store had work |
//! | `write_pages_per_s` | pages/s | 0 and up | output: average over about 4 s |
//! | `average_pages_per_s` | pages/s | 1 and up | output: the one that other laws use |
//!
//! # Formula
//!
//! ```text
//! window = 4096 ms
//! elapsed > window : write = average = written * 1000 / elapsed
//! otherwise        : new   = (written * 1000 + write * (window - elapsed)) / window
//!                    average -= (average - write) / 8   if average > write >= new
//!                    average += (write - average) / 8   if average < write <= new
//!                    write  = new
//!
//! busy < 7/8 elapsed, or refused > 1/8 (written + refused):
//!                        rate  = written / busy, at most 2^24 pages/s
//!                        rate <= write : as it was
//!                        otherwise     : as above, with rate * busy pages in the time busy
//! ```
//!
//! # Conditions
//!
//! 1. A store that keeps its pace keeps its estimate.
//! 2. A new estimate lies between the last one and what was just measured.
//! 3. The average moves towards the last estimate only, and by no more than an eighth of the gap.
//! 4. The average is at least 1.
//! 5. After a store halves its speed, the estimate is within 5 % after 14.0 s; after it doubles,
//!    after 11.2 s.
//!
//! 6. A store that had too little to do, or refused more than an eighth of what it was given, never
//!    counts as slower than before.
//! 7. What it wrote in a short time of work raises the estimate by the length of that time.
//! 8. Pages that it refused raise no estimate, however many they are.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/bandwidth.svg")]
//!
//! Both estimates after the store's speed fell from 25 600 to 12 800 pages a second at time 0,
//! with a step every 200 ms.
//!
//! # Example
//!
//! A disk of 100 MB/s finishes 8000 pages in 200 ms, after it has been faster than its average for
//! a while: the average follows by an eighth of its gap to the former estimate.
//!
//! ```
//! use forebay_law::bandwidth::Bandwidth;
//!
//! let before = Bandwidth { write_pages_per_s: 30_000, average_pages_per_s: 25_600 };
//! let after = before.advanced(8_000, 200);
//! assert_eq!((after.write_pages_per_s, after.average_pages_per_s), (30_488, 26_150));
//! ```
//!
//! # Why not the simpler one
//!
//! The pages written in the last interval jump between none and a whole queue. One moving
//! average still follows every pause of a disk, and all pauses of all writers with it. The second
//! average moves only while the first keeps going away from it, so that a swing and its return
//! cancel out. If all time counts, a store whose writers are held up by something else seems slow,
//! and then it holds them up itself. If time without requests is left out by starting anew at each
//! round, a store that answers at once is never measured.
//!
//! # Edges
//!
//! After a gap longer than the window the old estimate means nothing and is dropped. A store that
//! wrote nothing because it had no requests must not be measured: the caller skips idle gaps. One
//! that answers in no time counts as busy for a microsecond. If a store becomes slower while it has
//! little to do, the estimate follows once it has enough to do, when it matters. A store that
//! refuses most of what it is given answers at once, or after a long time: neither is the rate at
//! which it writes, so such a sample counts as one with too little to do. An estimate of 0 would
//! stop every writer for good, so the average is at least 1. An elapsed time of 0 counts as 1
//! ms.
//!
//! # Lineage
//!
//! Linux: bandwidth estimation of the backing device (3.1). Samples in which the sender had too
//! little to send only raise the estimate: BBR congestion control (2016).

use crate::arithmetic::MS_PER_S;

const US_PER_MS: u64 = 1_000;

/// More than any store writes, 64 GiB a second: laws that multiply by a rate stay in their range.
const HIGHEST_PAGES_PER_S: u64 = 1 << 24;

/// The assumed bandwidth of a store before it has written: 100 MiB a second.
pub const INITIAL_PAGES_PER_S: u64 = 25_600;

/// The window of the moving average, as a shift of milliseconds: 4.096 s.
const WINDOW_BITS: u32 = 12;

/// The window of the moving average in milliseconds.
pub const WINDOW_MS: u64 = 1 << WINDOW_BITS;

/// Milliseconds between two steps of the estimates.
pub const BANDWIDTH_INTERVAL_MS: u64 = 200;

/// The part of its gap by which the slow average moves, as a shift.
const SMOOTHING_BITS: u32 = 3;

/// The write bandwidth of a store, twice smoothed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Moving average over about four seconds, in pages a second.
    pub write_pages_per_s: u64,
    /// The slow average that the other laws use, in pages a second; at least 1.
    pub average_pages_per_s: u64,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Bandwidth {
            write_pages_per_s: INITIAL_PAGES_PER_S,
            average_pages_per_s: INITIAL_PAGES_PER_S,
        }
    }
}

/// What a store wrote, and how much of the time it had something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Pages that the store took.
    pub written_pages: u64,
    /// Pages that it refused.
    pub refused_pages: u64,
    /// Milliseconds that passed.
    pub elapsed_ms: u64,
    /// Microseconds of them in which the store had work.
    pub busy_us: u64,
}

impl Sample {
    /// Whether the store had nothing to write for more than an eighth of the time, or refused more
    /// than an eighth of the pages.
    ///
    /// ```
    /// use forebay_law::bandwidth::Sample;
    /// let full =
    ///     Sample { written_pages: 700, refused_pages: 100, elapsed_ms: 200, busy_us: 200_000 };
    /// assert!(!full.is_partial());
    /// assert!(Sample { refused_pages: 101, ..full }.is_partial());
    /// assert!(Sample { busy_us: 174_999, ..full }.is_partial());
    /// ```
    pub fn is_partial(self) -> bool {
        let (written, refused) = (self.written_pages.into(), self.refused_pages.into());
        let elapsed_us = u128::from(self.elapsed_ms) * u128::from(US_PER_MS);
        let refuses = u128::saturating_mul(refused, 7) > written;
        u128::from(self.busy_us) * 8 < elapsed_us * 7 || refuses
    }

    /// Pages a second of the time in which the store had something to do.
    ///
    /// ```
    /// use forebay_law::bandwidth::Sample;
    /// let sample =
    ///     Sample { written_pages: 500, elapsed_ms: 200, busy_us: 10_000, ..Sample::default() };
    /// assert_eq!(sample.pages_per_s(), 50_000);
    /// ```
    pub fn pages_per_s(self) -> u64 {
        let rate = if self.is_partial() {
            let written = u128::from(self.written_pages) * u128::from(MS_PER_S * US_PER_MS);
            written / u128::from(self.busy_us.max(1))
        } else {
            let written = u128::from(self.written_pages) * u128::from(MS_PER_S);
            written / u128::from(self.elapsed_ms.max(1))
        };
        clamped(rate).min(HIGHEST_PAGES_PER_S)
    }
}

impl Bandwidth {
    /// The estimate after `sample`.
    ///
    /// ```
    /// use forebay_law::bandwidth::{Bandwidth, Sample};
    ///
    /// let known = Bandwidth::default();
    /// let light =
    ///     Sample { written_pages: 100, elapsed_ms: 200, busy_us: 4_000, ..Sample::default() };
    /// assert_eq!(known.sampled(light), known);
    /// let quick = Sample { written_pages: 1_000, ..light };
    /// assert_eq!(known.sampled(quick).write_pages_per_s, 25_819);
    /// ```
    #[must_use]
    pub fn sampled(self, sample: Sample) -> Bandwidth {
        if !sample.is_partial() {
            return self.advanced(sample.written_pages, sample.elapsed_ms);
        }
        let rate = sample.pages_per_s();
        if rate <= self.write_pages_per_s {
            return self;
        }
        let busy_ms = (sample.busy_us / US_PER_MS).clamp(1, WINDOW_MS);
        self.advanced(rate * busy_ms / MS_PER_S, busy_ms)
    }

    /// The estimate after `written_pages` completed in the last `elapsed_ms`.
    #[must_use]
    pub fn advanced(self, written_pages: u64, elapsed_ms: u64) -> Bandwidth {
        let elapsed_ms = elapsed_ms.max(1);
        let written = u128::from(written_pages) * u128::from(MS_PER_S);
        if elapsed_ms > WINDOW_MS {
            let rate = clamped(written / u128::from(elapsed_ms));
            return Bandwidth {
                write_pages_per_s: rate,
                average_pages_per_s: rate.max(1),
            };
        }
        let previous = self.write_pages_per_s;
        let kept = u128::from(previous) * u128::from(WINDOW_MS - elapsed_ms);
        let rate = clamped((written + kept) >> WINDOW_BITS);
        let mut average = self.average_pages_per_s;
        if average > previous && previous >= rate {
            average -= (average - previous) >> SMOOTHING_BITS;
        }
        if average < previous && previous <= rate {
            average += (previous - average) >> SMOOTHING_BITS;
        }
        Bandwidth {
            write_pages_per_s: rate,
            average_pages_per_s: average.max(1),
        }
    }
}

fn clamped(rate: u128) -> u64 {
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "bandwidth_tests.rs"]
mod tests;
