//! Spans in an HDR histogram.

use crate::outcome::Distribution;
use forebay_base::Span;
use hdrhistogram::Histogram;

/// Percentiles that a distribution reports.
const PERCENTILES: [f64; 10] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// The longest span that is distinguished from longer ones: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// The ratio of the end of a bucket to its beginning: four buckets double it.
pub(crate) const BUCKET_RATIO: f64 = 1.189_207_115_002_721;

/// Spans in microseconds, with three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// The histogram rounds up, so a bound that was kept would seem to be exceeded.
    longest_us: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 3);
        Latencies {
            histogram: histogram.expect("the bounds and digits are good"),
            longest_us: 0,
        }
    }
}

impl Latencies {
    /// One more span.
    pub fn record(&mut self, span: Span) {
        self.histogram.saturating_record(span.as_micros());
        self.longest_us = self.longest_us.max(span.as_micros());
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value below which `percentile` percent lie, microseconds.
    pub fn percentile_us(&self, percentile: f64) -> f64 {
        let upper_us = self.histogram.value_at_percentile(percentile);
        upper_us.min(self.longest_us) as f64
    }

    /// All of it, in milliseconds.
    pub fn distribution_ms(&self) -> Distribution {
        if self.histogram.is_empty() {
            return Distribution {
                unit: "ms".into(),
                ..Distribution::default()
            };
        }
        let ms = |us: u64| us as f64 / 1_000.0;
        let percentile = |&percentile: &f64| (percentile, self.percentile_us(percentile) / 1_000.0);
        Distribution {
            unit: "ms".into(),
            count: self.histogram.len(),
            min: ms(self.histogram.min()),
            mean: self.histogram.mean() / 1_000.0,
            stddev: self.histogram.stdev() / 1_000.0,
            max: ms(self.longest_us),
            percentiles: PERCENTILES.iter().map(percentile).collect(),
            buckets: self.buckets_ms(),
        }
    }

    fn buckets_ms(&self) -> Vec<(f64, u64)> {
        let logarithmic = self.histogram.iter_log(1, BUCKET_RATIO);
        logarithmic
            .filter(|step| step.count_since_last_iteration() > 0)
            .map(|step| {
                let upper_us = step.value_iterated_to() as f64;
                (upper_us / 1_000.0, step.count_since_last_iteration())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_tells_what_was_recorded() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|ms| latencies.record(Span::from_millis(ms)));
        let reported = latencies.distribution_ms();
        assert_eq!((reported.count, reported.unit.as_str()), (1_000, "ms"));
        assert!((reported.mean - 500.5).abs() < 1.0, "{}", reported.mean);
        let median = reported
            .percentiles
            .iter()
            .find(|(p, _)| (p - 50.0).abs() < 1e-9)
            .expect("the median is there");
        assert!((median.1 - 500.0).abs() < 1.0, "{median:?}");
        assert_eq!(
            reported.buckets.iter().map(|(_, count)| count).sum::<u64>(),
            1_000
        );
        let ascending = reported
            .buckets
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0);
        assert!(ascending, "{:?}", reported.buckets);
    }

    #[test]
    fn a_bucket_ends_above_its_values_by_its_ratio_at_most() {
        for ms in [1, 8, 100, 115, 200] {
            let mut latencies = Latencies::default();
            latencies.record(Span::from_millis(ms));
            let (upper_ms, count) = latencies.distribution_ms().buckets[0];
            let value_ms = ms as f64;
            assert_eq!(count, 1);
            assert!(upper_ms >= value_ms && upper_ms / BUCKET_RATIO < value_ms);
        }
    }

    #[test]
    fn nothing_is_reported_to_have_taken_longer_than_the_longest() {
        let mut latencies = Latencies::default();
        (0..10).for_each(|_| latencies.record(Span::from_micros(200_000)));
        let reported = latencies.distribution_ms();
        assert!((reported.max - 200.0).abs() < 1e-9, "{}", reported.max);
        assert!((latencies.percentile_us(50.0) - 200_000.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_recorded_is_reported_as_nothing() {
        assert_eq!(Latencies::default().distribution_ms().count, 0);
    }
}
