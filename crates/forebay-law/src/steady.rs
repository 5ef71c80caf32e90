//! When a store has another rate than before.
//!
//! # Question
//!
//! The average of the [bandwidth law](crate::bandwidth) knows half a rate after 14 s. When can the
//! last few seconds be believed instead?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `sample` | [`Sample`] | | the runtime, every 200 ms as a rule |
//! | `known` | [`Bandwidth`] | | what the bandwidth law makes of that sample |
//! | [`Steady`] | | | the last samples |
//! | [`Bandwidth`] | pages/s | | output: `known`, or the mean of the run as both its estimates |
//! | [`Steady::has_leapt`] | | | output: whether the last leap is fresh |
//!
//! # Formula
//!
//! ```text
//! run  : the last 12 samples of 200 ms or more, if all of them are full and have pages
//! leap : if each sample of the run is within 1/5 of their mean, and the mean is 3/10 or more away
//!        from the average: write = average = mean
//! fresh: for the 15 samples of 200 ms or more after a leap, while the run lasts
//! ```
//!
//! A sample is *full* if it is not [partial](Sample::is_partial). Shorter ones, of which
//! the first seconds of a store are made, are not counted.
//!
//! # Conditions
//!
//! 1. Without a run of 12 samples the estimates are those of the bandwidth law.
//! 2. A mean that is less than three tenths away from the average changes nothing.
//! 3. After a leap both estimates lie between the least and the greatest sample of the run.
//! 4. A store that keeps half or twice its rate, with samples within a twentieth of it, is
//!    known to within a tenth after 3 s, wherever in a run the change comes.
//! 5. A store of which every other sample is less than half of the one before is never leapt for.
//! 6. A sample that is not full, and one without a page, ends the run: a store that has too little
//!    to do, or stands still, says nothing about its rate.
//! 7. A leap is fresh for 3 s, and for no longer than its run.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/steady.svg")]
//!
//! The average of a store whose rate falls from 25 600 to 12 800 pages a second at time 0, by both
//! laws, and by this one if every second sample is a third of what it should be.
//!
//! # Example
//!
//! A disk of 30 MB/s, 7 324 pages a second, that was one of 60: after 2.4 s that is its rate.
//!
//! ```
//! use forebay_law::bandwidth::{Bandwidth, Sample};
//! use forebay_law::steady::Steady;
//!
//! let fast = Bandwidth { write_pages_per_s: 14_648, average_pages_per_s: 14_648 };
//! let sample =
//!     Sample { written_pages: 1_465, elapsed_ms: 200, busy_us: 200_000, ..Sample::default() };
//! let (mut run, mut known) = (Steady::default(), fast);
//! for _ in 0..12 {
//!     (run, known) = run.advanced(known.sampled(sample), sample);
//! }
//! assert_eq!(known.average_pages_per_s, 7_325);
//! ```
//!
//! # Why not the simpler one
//!
//! A shorter window of the average is noisier for every store and still too slow: with 1 s, half a
//! rate is known after 6 s, and a disk that seeks is off by up to a quarter. A leap when two halves
//! of the last seconds agree believes such a disk whenever it happens to agree with itself.
//!
//! # Edges
//!
//! A store whose rate changes more often than every 2.4 s, or whose samples scatter, is known as
//! before. A change by less than three tenths is left to the average, which is at most that far
//! off. A store that is steady at a lower rate because it gets its requests one at a time counts as
//! slow after 2.4 s, and as fast again 2.4 s after it gets more.
//!
//! # Lineage
//!
//! Forebay's own (docs/decisions/writeback-and-throttling.md). That agreement of all samples of a
//! window is asked for is the way of tests for a change point; TCP Westwood (2001) and BBR (2016)
//! keep a greatest or least sample of a window instead.

use crate::arithmetic::MS_PER_S;
use crate::bandwidth::{BANDWIDTH_INTERVAL_MS, Bandwidth, Sample};

/// Samples of a run.
const RUN: usize = 12;
/// Each sample is within this part of the mean.
const LIKE_PERCENT: u64 = 20;
/// A mean is another rate if it is so far from the average.
const OTHER_PERCENT: u64 = 30;
/// Samples for which a leap is fresh.
const FRESH: usize = 15;
/// How long a change is unknown at most, if the store keeps its new rate, milliseconds: the sample
/// in which it comes, and a run.
pub const KNOWN_MS: u64 = (RUN as u64 + 1) * BANDWIDTH_INTERVAL_MS;

const _: () = assert!(KNOWN_MS <= 3 * MS_PER_S);

/// The last samples of a store, as many as are in a row without one that says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// Pages a second. Rates of samples fit: they are at most 2^24.
    rates: [u32; RUN],
    /// How many of them there are, and where the next one goes.
    known: usize,
    next: usize,
    /// For so many more samples the last leap is fresh.
    fresh: usize,
}

impl Steady {
    /// The run after `sample`, and what is known of the store then; `known` is what the bandwidth
    /// law makes of it.
    #[must_use]
    pub fn advanced(self, known: Bandwidth, sample: Sample) -> (Steady, Bandwidth) {
        if sample.is_partial() || sample.written_pages == 0 {
            return (Steady::default(), known);
        }
        if sample.elapsed_ms < BANDWIDTH_INTERVAL_MS {
            return (self, known);
        }
        let mut run = self.with(sample.pages_per_s());
        let Some(mean) = run.agreed().filter(|&mean| is_other(mean, known)) else {
            return (run, known);
        };
        run.fresh = FRESH;
        let leapt = Bandwidth {
            write_pages_per_s: mean,
            average_pages_per_s: mean.max(1),
        };
        (run, leapt)
    }

    /// Whether the store was leapt for in the last 3 s.
    pub fn has_leapt(&self) -> bool {
        self.fresh > 0
    }

    fn with(mut self, rate: u64) -> Steady {
        self.rates[self.next] = u32::try_from(rate).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % RUN;
        self.known = (self.known + 1).min(RUN);
        self.fresh = self.fresh.saturating_sub(1);
        self
    }

    /// The mean of a whole run whose samples are like each other.
    fn agreed(&self) -> Option<u64> {
        let rates = || self.rates.iter().map(|&rate| u64::from(rate));
        let sum: u64 = rates().sum();
        // A part of the mean is compared without the rounding of the mean.
        let is_like = |rate: u64| {
            let hundredths = rate * RUN as u64 * 100;
            hundredths <= sum * (100 + LIKE_PERCENT) && hundredths >= sum * (100 - LIKE_PERCENT)
        };
        (self.known == RUN && rates().all(is_like)).then_some(sum / RUN as u64)
    }
}

fn is_other(mean: u64, known: Bandwidth) -> bool {
    let average = known.average_pages_per_s;
    let away = u128::from(mean.abs_diff(average)) * 100;
    away >= u128::from(average) * u128::from(OTHER_PERCENT)
}

#[cfg(test)]
#[path = "steady_tests.rs"]
mod tests;
