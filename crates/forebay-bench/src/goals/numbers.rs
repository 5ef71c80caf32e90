//! The results in the form that the goals need.

use crate::contender::{Percentiles, Phase, Who};
use crate::contenders::forebay::IDLE_WHILE_THROTTLED;
use crate::results::{Figure, Name, Results};

/// The results for the goals of one contender.
pub(super) struct Numbers<'a> {
    pub(super) results: &'a Results,
    pub(super) who: Who,
}

impl Numbers<'_> {
    pub(super) fn figure_of(
        &self,
        who: Who,
        phase: Phase,
        metric: &str,
        load: (u32, u32),
    ) -> Option<Figure> {
        let name = Name {
            phase,
            metric: metric.to_owned(),
            threads: load.0,
            depth: load.1,
        };
        self.results.find(&name, who)
    }

    fn figure(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<Figure> {
        self.figure_of(self.who, phase, metric, load)
    }

    /// The contender's own value.
    pub(super) fn own(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        self.figure(phase, metric, load).map(|f| f.value)
    }

    /// The value of the floor.
    pub(super) fn floor(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        self.figure_of(Who::Floor, phase, metric, load)
            .map(|f| f.value)
    }

    /// The contender's value divided by the floor's.
    pub(super) fn over_floor(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        Some(self.own(phase, metric, load)? / self.floor(phase, metric, load)?)
    }

    /// The contender's value divided by the kernel's.
    pub(super) fn over_kernel(&self, phase: Phase, metric: &str, load: (u32, u32)) -> Option<f64> {
        let kernel = self.figure_of(Who::Kernel, phase, metric, load)?.value;
        Some(self.own(phase, metric, load)? / kernel)
    }

    /// A percentile of the contender, divided by the same percentile of `who`.
    pub(super) fn part_over(
        &self,
        who: Who,
        of: fn(&Percentiles) -> f64,
        (phase, metric, load): (Phase, &str, (u32, u32)),
    ) -> Option<f64> {
        let own = self.figure(phase, metric, load)?.percentiles?;
        let other = self.figure_of(who, phase, metric, load)?.percentiles?;
        Some(of(&own) / of(&other))
    }

    /// How many times more two threads do than one, from the time for a page in each case.
    pub(super) fn scaling(&self, phase: Phase, one: &str, two: &str) -> Option<f64> {
        Some(2.0 * self.own(phase, one, ONE)? / self.own(phase, two, TWO)?)
    }

    /// Percentiles of the contender's writes, in microseconds.
    pub(super) fn write(&self, phase: Phase, writers: (u32, u32)) -> Option<Percentiles> {
        self.figure(phase, "write", writers)?.percentiles
    }

    /// The worst share of the throttled time in which the disk was idle, over the loads whose
    /// writers were throttled.
    pub(super) fn idle_while_throttled(&self, phase: Phase, loads: &[(u32, u32)]) -> Option<f64> {
        let idle = |&load| self.own(phase, IDLE_WHILE_THROTTLED, load);
        loads.iter().filter_map(idle).reduce(f64::max)
    }

    /// The worst round of 1 and of 4 writers.
    pub(super) fn longest_gap_ms(&self, phase: Phase) -> Option<f64> {
        let of = |writers| Some(self.figure(phase, "longest gap", writers)?.highest);
        worse(of(ONE), of(FOUR))
    }
}

pub(super) const ONE: (u32, u32) = (1, 1);
pub(super) const TWO: (u32, u32) = (2, 2);
pub(super) const FOUR: (u32, u32) = (4, 4);
pub(super) const SIXTEEN: (u32, u32) = (16, 16);
pub(super) const DEEP: (u32, u32) = (1, 32);

/// The smallest value of `measure` over `loads`, if all were measured.
pub(super) fn least_of(
    loads: &[(u32, u32)],
    measure: impl Fn((u32, u32)) -> Option<f64>,
) -> Option<f64> {
    extreme(loads, measure, f64::min)
}

/// The largest value of `measure` over `loads`, if all were measured.
pub(super) fn most_of(
    loads: &[(u32, u32)],
    measure: impl Fn((u32, u32)) -> Option<f64>,
) -> Option<f64> {
    extreme(loads, measure, f64::max)
}

fn extreme(
    loads: &[(u32, u32)],
    measure: impl Fn((u32, u32)) -> Option<f64>,
    worse: fn(f64, f64) -> f64,
) -> Option<f64> {
    let all: Option<Vec<f64>> = loads.iter().map(|&load| measure(load)).collect();
    all?.into_iter().reduce(worse)
}

/// The worse of two measured values, if less is better.
pub(super) fn worse(of_one: Option<f64>, of_four: Option<f64>) -> Option<f64> {
    Some(of_one?.max(of_four?))
}
