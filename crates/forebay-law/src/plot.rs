//! Laws as rows of numbers, for pictures and for tests: one law over a range, and the loop of
//! laws that holds the dirty pages of a store.

use crate::bandwidth::BANDWIDTH_INTERVAL_MS;
use crate::limits::DirtyLimits;
use crate::position::{PositionInputs, position};
use crate::rate::{DirtyRate, RateInputs, task_ratelimit};

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the law was asked.
    pub x: u64,
    /// What it said.
    pub y: u64,
}

/// A law asked at `steps + 1` evenly spaced places from `first` to `last`, both included.
///
/// ```
/// use forebay_law::plot::sampled;
/// let rows = sampled(0, 10, 2, |x| x * x);
/// assert_eq!(rows.map(|row| (row.x, row.y)).collect::<Vec<_>>(), [(0, 0), (5, 25), (10, 100)]);
/// ```
pub fn sampled(
    first: u64,
    last: u64,
    steps: u64,
    law: impl Fn(u64) -> u64,
) -> impl Iterator<Item = Row> {
    let width = last.saturating_sub(first);
    (0..=steps).map(move |step| {
        let x = first + crate::arithmetic::scaled(width, step, steps.max(1));
        Row { x, y: law(x) }
    })
}

/// The state of the loop of laws at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopSample {
    /// Milliseconds since the start.
    pub now_ms: u64,
    /// Base rate of each writer in pages a second.
    pub ratelimit: u64,
    /// Dirty pages.
    pub dirty: u64,
}

/// A store that writes `pages_per_s`, and `writers` that only write, from a cold start: dirty pages
/// at the end of the free run, the rate as if each writer were alone on a fast disk. The writers
/// are a steady flow, the bandwidth is known; one sample for each step of the rate.
///
/// ```
/// use forebay_law::limits::DirtyLimits;
/// use forebay_law::plot::closed_loop;
/// let limits = DirtyLimits { thresh: 200_000, background: 100_000 };
/// let last = closed_loop(limits, 10, 25_600).take(150).last().unwrap();
/// assert!((2_000..=3_200).contains(&last.ratelimit));
/// ```
pub fn closed_loop(
    limits: DirtyLimits,
    writers: u64,
    pages_per_s: u64,
) -> impl Iterator<Item = LoopSample> {
    let mut rate = DirtyRate::default();
    let mut dirty_thousandths = limits.freerun() * 1_000;
    let mut now_ms = 0;
    std::iter::repeat_with(move || {
        let sample = LoopSample {
            now_ms,
            ratelimit: rate.ratelimit,
            dirty: dirty_thousandths / 1_000,
        };
        let mut dirtied_thousandths = 0;
        for _ in 0..BANDWIDTH_INTERVAL_MS {
            let at = position(&alone(limits, dirty_thousandths / 1_000, pages_per_s));
            let flow = writers * task_ratelimit(rate.ratelimit, at.ratio);
            dirtied_thousandths += flow;
            dirty_thousandths = (dirty_thousandths + flow).saturating_sub(pages_per_s);
        }
        now_ms += BANDWIDTH_INTERVAL_MS;
        let dirty = dirty_thousandths / 1_000;
        let at = position(&alone(limits, dirty, pages_per_s));
        rate = rate.advanced(&RateInputs {
            position_ratio: at.ratio,
            average_pages_per_s: pages_per_s,
            dirtied_pages: dirtied_thousandths / 1_000,
            elapsed_ms: BANDWIDTH_INTERVAL_MS,
            dirty,
            setpoint: at.setpoint,
        });
        sample
    })
}

/// The position of a store that has the whole limit for itself.
pub fn alone(limits: DirtyLimits, dirty: u64, pages_per_s: u64) -> PositionInputs {
    PositionInputs {
        thresh: limits.thresh,
        background: limits.background,
        dirty,
        hard_limit: limits.thresh,
        store_thresh: limits.thresh,
        store_dirty: dirty,
        average_pages_per_s: pages_per_s,
        strict: false,
        store_background: limits.background,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_sampled_from_first_to_last() {
        let rows: Vec<u64> = sampled(10, 20, 2, |x| x).map(|row| row.x).collect();
        assert_eq!(rows, [10, 15, 20]);
    }

    #[test]
    fn the_loop_begins_at_the_end_of_the_free_run_and_settles() {
        let limits = DirtyLimits {
            thresh: 200_000,
            background: 100_000,
        };
        let samples: Vec<LoopSample> = closed_loop(limits, 10, 25_600).take(150).collect();
        assert_eq!((samples[0].now_ms, samples[0].dirty), (0, 150_000));
        assert_eq!(samples[1].now_ms, BANDWIDTH_INTERVAL_MS);
        assert!((2_000..=3_200).contains(&samples[149].ratelimit));
    }
}
