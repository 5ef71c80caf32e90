//! How fast a store writes.

use crate::arithmetic::MS_PER_S;

/// What is assumed of a store before it has written: 100 MiB a second.
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

impl Bandwidth {
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
