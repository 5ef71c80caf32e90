//! Means and spreads of a few values.

use serde::{Deserialize, Serialize};

/// One figure over the runs of one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation between runs, dividing by one less than their number; 0 for one run.
    pub stddev: f64,
    /// Smallest.
    pub least: f64,
    /// Largest.
    pub most: f64,
    /// How many runs had the figure.
    pub runs: u32,
}

impl Spread {
    /// The spread of `values`; none without values.
    ///
    /// ```
    /// use forebay_lab::report::statistics::Spread;
    /// let spread = Spread::of(&[1.0, 3.0]).unwrap();
    /// assert_eq!((spread.mean, spread.least, spread.most, spread.runs), (2.0, 1.0, 3.0, 2));
    /// assert!((spread.stddev - 2_f64.sqrt()).abs() < 1e-12);
    /// assert!(Spread::of(&[]).is_none());
    /// ```
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mean = mean(values)?;
        Some(Spread {
            mean,
            stddev: deviation(values, mean, values.len().saturating_sub(1)),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: values.len() as u32,
        })
    }
}

/// Arithmetic mean; none without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation dividing by the count, as within one run; 0 without values.
pub fn stddev(values: &[f64]) -> f64 {
    mean(values).map_or(0.0, |mean| deviation(values, mean, values.len()))
}

/// 100 x (new - old) / old; none if `old` is 0.
pub fn change_percent(old: f64, new: f64) -> Option<f64> {
    (old != 0.0).then(|| 100.0 * (new - old) / old)
}

/// Element number floor(n x percent / 100) of the sorted values, counting from 1, as the reports of
/// the field take it; at least the first; none without values.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let number = (sorted.len() as f64 * percent / 100.0).floor() as usize;
    sorted.get(number.max(1) - 1).copied()
}

fn deviation(values: &[f64], mean: f64, divisor: usize) -> f64 {
    if divisor == 0 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / divisor as f64).sqrt();
    // Equal values have no spread, even if their mean was rounded.
    if deviation < mean.abs() * 1e-12 {
        return 0.0;
    }
    deviation
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_element_that_the_field_takes() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 50.0), Some(50.0));
        assert_eq!(percentile(&[7.0], 50.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn a_change_from_nothing_has_no_percentage() {
        assert_eq!(change_percent(0.0, 5.0), None);
        assert_eq!(change_percent(4.0, 3.0), Some(-25.0));
    }

    #[test]
    fn equal_values_have_no_spread() {
        assert_eq!(Spread::of(&[0.7; 3]).map(|spread| spread.stddev), Some(0.0));
    }

    #[test]
    fn the_deviation_within_a_run_divides_by_the_count() {
        assert_eq!(stddev(&[1.0, 3.0]), 1.0);
        assert_eq!(stddev(&[]), 0.0);
    }
}
