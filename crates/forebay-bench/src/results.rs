//! All measured numbers: the median over the rounds and the spread of the rounds.

use crate::contender::{Percentiles, Phase, Sample, Step, Who};
use crate::rounds::{Rounds, median_and_spread};

/// One number of one contender, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) phase: Phase,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) who: Who,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
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

/// The key of a measured number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) phase: Phase,
    pub(crate) metric: String,
    pub(crate) threads: u32,
    pub(crate) depth: u32,
}

/// The numbers in the order in which they were first measured.
#[derive(Default)]
pub(crate) struct Results(Rounds<Name, Who, Sample>);

impl Results {
    /// Adds the result of one run of `step`.
    pub(crate) fn add(&mut self, step: &Step, who: Who, samples: Vec<Sample>) {
        for sample in samples {
            let name = Name {
                phase: step.phase,
                metric: step.metric(&sample.metric),
                threads: step.threads,
                depth: step.depth,
            };
            self.0.add(name, who, sample);
        }
    }

    /// Every number, in order.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let entries = self.0.entries();
        entries
            .map(|(name, who, it)| figure(name, who, it))
            .collect()
    }

    /// All keys that were measured in `phase`, by any contender, in order.
    pub(crate) fn names(&self, phase: Phase) -> Vec<Name> {
        self.0.names(|name| name.phase == phase)
    }

    /// The number `name` of `who`.
    pub(crate) fn find(&self, name: &Name, who: Who) -> Option<Figure> {
        self.0
            .entries()
            .find(|(other, whose, _)| *other == name && *whose == who)
            .map(|(name, who, rounds)| figure(name, who, rounds))
    }
}

fn figure(name: &Name, who: Who, rounds: &[Sample]) -> Figure {
    let mut values: Vec<f64> = rounds.iter().map(|sample| sample.value).collect();
    let (value, spread_percent) = median_and_spread(&mut values);
    let distributions: Vec<Percentiles> = rounds.iter().filter_map(|s| s.percentiles).collect();
    let distributions = merge(&distributions);
    Figure {
        phase: name.phase,
        metric: name.metric.clone(),
        unit: rounds[0].unit.clone(),
        who,
        threads: name.threads,
        depth: name.depth,
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contender::Load;

    /// A step with only a name.
    pub(crate) fn named_step(phase: Phase, load: Load, threads: u32, depth: u32) -> Step {
        Step {
            phase,
            load,
            threads,
            depth,
            span_ms: 0,
            settle_ms: 0,
            files: 1,
            bytes: 0,
            call_bytes: 0,
            seed: 0,
        }
    }

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
    fn rounds_are_joined_by_their_median_and_their_worst() {
        let step = named_step(Phase::Hit, Load::ReadByCopy, 1, 1);
        let mut results = Results::default();
        for (value, max) in [(100.0, 500.0), (90.0, 900.0), (120.0, 300.0)] {
            results.add(&step, Who::Kernel, vec![sample(value, max)]);
        }
        let found = &results.figures()[0];
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
            let step = named_step(Phase::Hit, Load::ReadByCopy, threads, threads);
            for who in [Who::Kernel, Who::Floor] {
                results.add(&step, who, vec![sample(f64::from(threads), 1.0)]);
            }
        }
        let names = results.names(Phase::Hit);
        assert_eq!(names.len(), 2);
        let second = results.find(&names[1], Who::Floor).unwrap();
        assert!((second.value - 2.0).abs() < 1e-9);
        assert!(results.find(&names[1], Who::Forebay).is_none());
        assert!(results.names(Phase::Miss).is_empty());
    }
}
