//! The measured samples, by name and contender, over the rounds, and how they are joined.

/// Samples of rounds, in the order in which their names first appeared.
pub(crate) struct Rounds<N, W, S> {
    entries: Vec<(N, W, Vec<S>)>,
}

impl<N, W, S> Default for Rounds<N, W, S> {
    fn default() -> Rounds<N, W, S> {
        Rounds {
            entries: Vec::new(),
        }
    }
}

impl<N: PartialEq + Clone, W: PartialEq + Copy, S> Rounds<N, W, S> {
    /// Adds a round of `name` by `who`.
    pub(crate) fn add(&mut self, name: N, who: W, sample: S) {
        let known = self
            .entries
            .iter_mut()
            .find(|(other, whose, _)| *other == name && *whose == who);
        match known {
            Some((_, _, rounds)) => rounds.push(sample),
            None => self.entries.push((name, who, vec![sample])),
        }
    }

    /// Every name with every contender that has rounds of it; there is at least one round.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&N, W, &[S])> {
        self.entries
            .iter()
            .map(|(name, who, rounds)| (name, *who, rounds.as_slice()))
    }

    /// The names that `are_wanted`, each of them once.
    pub(crate) fn names(&self, are_wanted: impl Fn(&N) -> bool) -> Vec<N> {
        let mut names = Vec::new();
        for (name, _, _) in &self.entries {
            if are_wanted(name) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// The lower middle of `values`, which are sorted here.
///
/// # Panics
/// If there are none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// The median of `values`, which are sorted here, and half the difference between the extremes, in
/// percent of the median.
///
/// # Panics
/// If there are none.
pub(crate) fn median_and_spread(values: &mut [f64]) -> (f64, f64) {
    let middle = median(values);
    let distance = values[values.len() - 1] - values[0];
    if middle == 0.0 {
        return (middle, 0.0);
    }
    (middle, 50.0 * distance / middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_one_of_them() {
        assert!((median(&mut [4.0, 1.0, 3.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&mut [5.0, 9.0, 1.0]) - 5.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_spread_is_half_the_distance_and_nothing_about_zero() {
        let (middle, spread_percent) = median_and_spread(&mut [90.0, 120.0, 100.0]);
        assert!((middle - 100.0).abs() < 1e-9 && (spread_percent - 15.0).abs() < 1e-9);
        let (_, spread_percent) = median_and_spread(&mut [0.0, -5.0, 5.0]);
        assert!(spread_percent.abs() < 1e-9);
    }

    #[test]
    fn names_come_once_and_in_their_first_order() {
        let mut rounds = Rounds::default();
        for (name, who) in [("b", 1), ("a", 1), ("b", 2), ("b", 1)] {
            rounds.add(name, who, ());
        }
        assert_eq!(rounds.names(|_| true), ["b", "a"]);
        assert_eq!(rounds.names(|name| *name == "a"), ["a"]);
        let counts: Vec<_> = rounds.entries().map(|(n, w, r)| (*n, w, r.len())).collect();
        assert_eq!(counts, [("b", 1, 2), ("a", 1, 1), ("b", 2, 1)]);
    }
}
