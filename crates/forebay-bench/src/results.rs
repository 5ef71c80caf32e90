//! All measured numbers: the median over the rounds and the spread of the rounds.

use crate::contender::{Concurrency, Percentiles, Phase, Sample, Who};

/// The key of a measured number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) phase: Phase,
    pub(crate) metric: String,
    pub(crate) load: Concurrency,
}

/// One number of one contender, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: Name,
    pub(crate) unit: String,
    pub(crate) who: Who,
    /// Median over the rounds.
    pub(crate) value: f64,
    /// Half the difference between the extreme rounds, in percent of the median.
    pub(crate) spread_percent: f64,
    /// The largest value of a round.
    pub(crate) highest: f64,
    /// Medians over the rounds; for the largest value, the largest of all rounds.
    pub(crate) percentiles: Option<Percentiles>,
    /// Half the difference between the extreme rounds of each percentile, in percent of its median;
    /// for the largest value there is none.
    pub(crate) percentile_spreads_percent: Option<Percentiles>,
    pub(crate) rounds: usize,
}

/// The samples of every number, in the order in which it was first measured.
#[derive(Default)]
pub(crate) struct Results(Vec<(Name, Who, Vec<Sample>)>);

impl Results {
    /// Adds what `who` measured in one round of `load`.
    pub(crate) fn add(&mut self, phase: Phase, load: Concurrency, who: Who, samples: Vec<Sample>) {
        for sample in samples {
            let name = Name {
                phase,
                metric: sample.metric.clone(),
                load,
            };
            let is_it = |(other, whose, _): &&mut (Name, Who, _)| *other == name && *whose == who;
            match self.0.iter_mut().find(is_it) {
                Some((_, _, rounds)) => rounds.push(sample),
                None => self.0.push((name, who, vec![sample])),
            }
        }
    }

    /// Every number, in order.
    pub(crate) fn figures(&self) -> impl Iterator<Item = Figure> {
        let figure = |(name, who, rounds): &(Name, Who, Vec<Sample>)| figure(name, *who, rounds);
        self.0.iter().map(figure)
    }

    /// All keys that were measured in `phase`, by any contender, in order.
    pub(crate) fn names(&self, phase: Phase) -> Vec<&Name> {
        let mut names = Vec::new();
        for (name, _, _) in &self.0 {
            if name.phase == phase && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The number `name` of `who`.
    pub(crate) fn find(&self, name: &Name, who: Who) -> Option<Figure> {
        let found = self.0.iter().find(|it| it.0 == *name && it.1 == who);
        found.map(|(name, who, rounds)| figure(name, *who, rounds))
    }
}

fn figure(name: &Name, who: Who, rounds: &[Sample]) -> Figure {
    let mut values: Vec<f64> = rounds.iter().map(|sample| sample.value).collect();
    let (value, spread_percent) = median_and_spread(&mut values);
    let distributions: Vec<Percentiles> = rounds.iter().filter_map(|s| s.percentiles).collect();
    let distributions = merge(&distributions);
    Figure {
        name: name.clone(),
        unit: rounds[0].unit.clone(),
        who,
        value,
        spread_percent,
        highest: values[values.len() - 1],
        percentiles: distributions.map(|(medians, _)| medians),
        percentile_spreads_percent: distributions.map(|(_, spreads)| spreads),
        rounds: rounds.len(),
    }
}

/// The distribution over all rounds, and the spread of each percentile in percent.
fn merge(rounds: &[Percentiles]) -> Option<(Percentiles, Percentiles)> {
    if rounds.is_empty() {
        return None;
    }
    let middle = |of: fn(&Percentiles) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        median_and_spread(&mut values)
    };
    let [p50, p99, p999] = [middle(|p| p.p50), middle(|p| p.p99), middle(|p| p.p999)];
    let medians = Percentiles {
        p50: p50.0,
        p99: p99.0,
        p999: p999.0,
        max: rounds.iter().map(|p| p.max).fold(0.0, f64::max),
    };
    let spreads_percent = Percentiles {
        p50: p50.1,
        p99: p99.1,
        p999: p999.1,
        max: 0.0,
    };
    Some((medians, spreads_percent))
}

/// The lower middle of `values`, which are sorted here, and half the difference between the
/// extremes, in percent of it.
///
/// # Panics
/// If there are none.
fn median_and_spread(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values[(values.len() - 1) / 2];
    let distance = values[values.len() - 1] - values[0];
    if middle == 0.0 {
        return (middle, 0.0);
    }
    (middle, 50.0 * distance / middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Concurrency = Concurrency::new(1, 1);

    fn sample(value: f64, max: f64) -> Sample {
        Sample {
            percentiles: Some(Percentiles {
                p50: value,
                p99: value,
                p999: value,
                max,
            }),
            ..Sample::plain("copy", "ns a page", value)
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_one_of_them() {
        for (mut values, middle) in [(vec![4.0, 1.0, 3.0, 2.0], 2.0), (vec![5.0, 9.0, 1.0], 5.0)] {
            assert!((median_and_spread(&mut values).0 - middle).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn the_spread_is_half_the_distance_and_nothing_about_zero() {
        let (middle, spread_percent) = median_and_spread(&mut [90.0, 120.0, 100.0]);
        assert!((middle - 100.0).abs() < 1e-9 && (spread_percent - 15.0).abs() < 1e-9);
        let (_, spread_percent) = median_and_spread(&mut [0.0, -5.0, 5.0]);
        assert!(spread_percent.abs() < 1e-9);
    }

    #[test]
    fn rounds_are_joined_by_their_median_and_their_worst() {
        let mut results = Results::default();
        for (value, max) in [(100.0, 500.0), (90.0, 900.0), (120.0, 300.0)] {
            results.add(Phase::Hit, ONE, Who::Kernel, vec![sample(value, max)]);
        }
        let found = results.figures().next().unwrap();
        assert!((found.value - 100.0).abs() < 1e-9);
        assert!((found.spread_percent - 15.0).abs() < 1e-9);
        let (medians, spreads) = (found.percentiles, found.percentile_spreads_percent);
        assert!((medians.unwrap().max - 900.0).abs() < 1e-9);
        assert!((medians.unwrap().p99 - 100.0).abs() < 1e-9);
        assert!((spreads.unwrap().p99 - 15.0).abs() < 1e-9);
        assert_eq!(found.rounds, 3);
    }

    #[test]
    fn contenders_and_threads_are_told_apart() {
        let mut results = Results::default();
        for threads in [1, 2] {
            let load = Concurrency::new(threads, threads);
            for who in [Who::Kernel, Who::Floor] {
                results.add(Phase::Hit, load, who, vec![sample(f64::from(threads), 1.0)]);
            }
        }
        let names = results.names(Phase::Hit);
        assert_eq!(names.len(), 2);
        let second = results.find(names[1], Who::Floor).unwrap();
        assert!((second.value - 2.0).abs() < 1e-9);
        assert!(results.find(names[1], Who::Forebay).is_none());
        assert!(results.names(Phase::Miss).is_empty());
    }
}
