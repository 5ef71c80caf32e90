//! Makes long series short without hiding anything.

/// Neighbouring points of a series, merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The middle of its points on the x axis.
    pub at: f64,
    /// Smallest value of its points.
    pub least: f64,
    /// Their mean.
    pub mean: f64,
    /// Largest value of its points.
    pub most: f64,
    /// How many points.
    pub points: usize,
}

/// `points`, sorted by x, as at most `columns` buckets of equally many points.
///
/// ```
/// use forebay_chart::envelope;
/// let points: Vec<(f64, f64)> = (0..1000).map(|n| (f64::from(n), f64::from(n % 10))).collect();
/// let buckets = envelope(&points, 100);
/// assert_eq!(buckets.len(), 100);
/// assert!(buckets.iter().all(|bucket| (bucket.least, bucket.most) == (0.0, 9.0)));
/// ```
pub fn envelope(points: &[(f64, f64)], columns: usize) -> Vec<Bucket> {
    let size = points.len().div_ceil(columns.max(1)).max(1);
    points.chunks(size).map(bucket).collect()
}

fn bucket(points: &[(f64, f64)]) -> Bucket {
    let values = || points.iter().map(|(_, value)| *value);
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    Bucket {
        at: f64::midpoint(first, last),
        least: values().fold(f64::INFINITY, f64::min),
        mean: values().sum::<f64>() / points.len() as f64,
        most: values().fold(f64::NEG_INFINITY, f64::max),
        points: points.len(),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_short_series_stays_as_it_is() {
        let points = [(0.0, 5.0), (1.0, 7.0)];
        let buckets = envelope(&points, 100);
        let again: Vec<(f64, f64)> = buckets.iter().map(|b| (b.at, b.mean)).collect();
        assert_eq!(again, points);
    }

    #[test]
    fn one_spike_among_thousands_is_still_there() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 1.0)).collect();
        points[5_432].1 = 99.0;
        let buckets = envelope(&points, 300);
        assert!(buckets.len() <= 300);
        assert_eq!(
            buckets.iter().filter(|bucket| bucket.most == 99.0).count(),
            1
        );
        assert_eq!(
            buckets.iter().map(|bucket| bucket.points).sum::<usize>(),
            10_000
        );
    }
}
