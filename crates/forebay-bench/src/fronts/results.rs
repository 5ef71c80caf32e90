//! The results of the fronts: medians over the rounds, and the spread of the rounds.

use crate::contender::Percentiles;
use crate::json::Row;
use crate::rounds::{Rounds, median_and_spread};

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// `forebay serve nbd`, `forebay mount`.
    Forebay,
    /// nbdkit with its memory plugin, which keeps everything, or with its file plugin where the
    /// medium matters.
    Nbdkit,
    /// qemu-nbd with the kernel's page cache under it.
    QemuNbd,
    /// A mount that answers immediately and does nothing.
    Floor,
    /// The file itself, past the kernel's page cache.
    Device,
    /// bindfs, which passes on what it is asked.
    Bindfs,
    /// The folder itself.
    Folder,
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Who::Forebay => "forebay",
            Who::Nbdkit => "nbdkit",
            Who::QemuNbd => "qemu-nbd",
            Who::Floor => "floor",
            Who::Device => "device",
            Who::Bindfs => "bindfs",
            Who::Folder => "folder",
        }
    }
}

/// A front of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    Nbd,
    Mount,
    /// The mount again, with small files.
    Files,
}

impl Front {
    /// The name in tables and rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Front::Nbd => "nbd",
            Front::Mount => "mount",
            Front::Files => "files",
        }
    }

    /// The contenders, in the order of the columns and of each round.
    pub(super) fn contenders(self) -> [Who; 3] {
        match self {
            Front::Nbd => [Who::Forebay, Who::Nbdkit, Who::QemuNbd],
            Front::Mount => [Who::Forebay, Who::Floor, Who::Device],
            Front::Files => [Who::Forebay, Who::Bindfs, Who::Folder],
        }
    }
}

/// The key of a measured number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) front: Front,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    pub(super) jobs: u32,
    pub(super) depth: u32,
}

/// One round of one contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) value: f64,
    /// Of the times of the operations, in us.
    pub(super) latency_us: Option<Percentiles>,
}

/// All rounds of one contender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// The median.
    pub(super) value: f64,
    /// Half the difference between the extreme rounds, in percent of the median.
    pub(super) spread_percent: f64,
    pub(super) rounds: usize,
    /// Of the round with the worst ratio of p99.9 to p50.
    pub(super) latency_us: Option<Percentiles>,
}

/// The numbers in the order in which they were first measured.
#[derive(Default)]
pub(super) struct Results(Rounds<Name, Who, Sample>);

impl Results {
    pub(super) fn add(&mut self, name: Name, who: Who, sample: Sample) {
        self.0.add(name, who, sample);
    }

    /// All keys that were measured for `front`, by any contender, in order.
    pub(super) fn names(&self, front: Front) -> Vec<Name> {
        self.0.names(|name| name.front == front)
    }

    /// The numbers of `who` with this front, metric, jobs and depth.
    pub(super) fn find(
        &self,
        front: Front,
        metric: &str,
        load: (u32, u32),
        who: Who,
    ) -> Option<Figure> {
        self.0
            .entries()
            .find(|(name, whose, _)| {
                let named = name.front == front && name.metric == metric;
                named && (name.jobs, name.depth) == load && *whose == who
            })
            .map(|(_, _, rounds)| figure(rounds))
    }

    /// One row for each number.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.0.entries().map(|(name, who, rounds)| {
            let figure = figure(rounds);
            Row {
                phase: name.front.name(),
                metric: name.metric,
                unit: name.unit,
                contender: who.name(),
                threads: name.jobs,
                depth: name.depth,
                value: figure.value,
                spread_percent: figure.spread_percent,
                rounds: figure.rounds,
                distribution: figure.latency_us.into(),
            }
        })
    }
}

fn figure(rounds: &[Sample]) -> Figure {
    let mut values: Vec<f64> = rounds.iter().map(|sample| sample.value).collect();
    let (value, spread_percent) = median_and_spread(&mut values);
    let unevenness = |latency: &Percentiles| latency.p999 / latency.p50.max(f64::MIN_POSITIVE);
    Figure {
        value,
        spread_percent,
        rounds: rounds.len(),
        latency_us: rounds
            .iter()
            .filter_map(|sample| sample.latency_us)
            .max_by(|one, other| unevenness(one).total_cmp(&unevenness(other))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn named(metric: &'static str, load: (u32, u32)) -> Name {
        Name {
            front: Front::Nbd,
            metric,
            unit: "IOPS",
            jobs: load.0,
            depth: load.1,
        }
    }

    pub(crate) fn sample(value: f64) -> Sample {
        Sample {
            value,
            latency_us: None,
        }
    }

    #[test]
    fn rounds_are_joined_by_their_median_and_contenders_told_apart() {
        let mut results = Results::default();
        for value in [90.0, 120.0, 100.0] {
            results.add(named("read", (1, 32)), Who::Forebay, sample(value));
        }
        results.add(named("read", (1, 32)), Who::Nbdkit, sample(50.0));
        results.add(named("read", (1, 1)), Who::Nbdkit, sample(5.0));
        let found = results
            .find(Front::Nbd, "read", (1, 32), Who::Forebay)
            .unwrap();
        assert!((found.value - 100.0).abs() < 1e-9);
        assert!((found.spread_percent - 15.0).abs() < 1e-9);
        assert_eq!(found.rounds, 3);
        assert!(
            results
                .find(Front::Nbd, "read", (1, 1), Who::Forebay)
                .is_none()
        );
        assert_eq!(results.names(Front::Nbd).len(), 2);
        assert!(results.names(Front::Mount).is_empty());
        assert_eq!(results.rows().count(), 3);
    }

    #[test]
    fn the_most_uneven_round_is_the_one_that_counts() {
        let with = |p50, p999| Sample {
            value: 1.0,
            latency_us: Some(Percentiles {
                p50,
                p99: p50,
                p999,
                max: p999,
            }),
        };
        let found = figure(&[with(10.0, 20.0), with(10.0, 90.0), with(100.0, 300.0)]);
        assert!((found.latency_us.unwrap().p999 - 90.0).abs() < 1e-9);
    }
}
