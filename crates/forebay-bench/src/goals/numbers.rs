//! The results in the form that the goals need.

use crate::contender::{Concurrency, Percentiles, Phase, Who};
use crate::contenders::forebay::IDLE_WHILE_THROTTLED;
use crate::results::{Figure, Name, Results};

/// The results for the goals of one contender.
pub(crate) struct Numbers<'a> {
    pub(super) results: &'a Results,
    pub(super) who: Who,
}

pub(super) fn named(phase: Phase, metric: &str, load: Concurrency) -> Name {
    Name {
        phase,
        metric: metric.to_owned(),
        load,
    }
}

impl Numbers<'_> {
    /// The value of `who`.
    pub(super) fn of(&self, who: Who, name: &Name) -> Option<f64> {
        self.results.find(name, who).map(|figure| figure.value)
    }

    fn figure(&self, phase: Phase, metric: &str, load: Concurrency) -> Option<Figure> {
        self.results.find(&named(phase, metric, load), self.who)
    }

    /// The contender's own value.
    pub(super) fn own(&self, phase: Phase, metric: &str, load: Concurrency) -> Option<f64> {
        self.of(self.who, &named(phase, metric, load))
    }

    /// The contender's value divided by that of `other`.
    pub(super) fn over(&self, other: Who, name: &Name) -> Option<f64> {
        Some(self.of(self.who, name)? / self.of(other, name)?)
    }

    /// The contender's value divided by the floor's.
    pub(super) fn over_floor(&self, phase: Phase, metric: &str, load: Concurrency) -> Option<f64> {
        self.over(Who::Floor, &named(phase, metric, load))
    }

    /// The contender's value divided by the kernel's.
    pub(super) fn over_kernel(&self, phase: Phase, metric: &str, load: Concurrency) -> Option<f64> {
        self.over(Who::Kernel, &named(phase, metric, load))
    }

    /// A percentile of the contender, divided by the same percentile of `other`.
    pub(super) fn part_over(
        &self,
        other: Who,
        of: fn(&Percentiles) -> f64,
        name: &Name,
    ) -> Option<f64> {
        let part = |who| Some(of(&self.results.find(name, who)?.percentiles?));
        Some(part(self.who)? / part(other)?)
    }

    /// How many times more two threads do than one, from the time for a page in each case.
    pub(super) fn scaling(&self, phase: Phase, one: &str, two: &str) -> Option<f64> {
        Some(2.0 * self.own(phase, one, ONE)? / self.own(phase, two, TWO)?)
    }

    /// Percentiles of the contender, in microseconds.
    pub(super) fn percentiles(
        &self,
        phase: Phase,
        metric: &str,
        load: Concurrency,
    ) -> Option<Percentiles> {
        self.figure(phase, metric, load)?.percentiles
    }

    /// The worst share of the throttled time in which the disk was idle, over the loads whose
    /// writers were throttled.
    pub(super) fn idle_while_throttled(&self, phase: Phase, loads: &[Concurrency]) -> Option<f64> {
        let idle = |&load| self.own(phase, IDLE_WHILE_THROTTLED, load);
        loads.iter().filter_map(idle).reduce(f64::max)
    }

    /// The worst round of 1 and of 4 writers.
    pub(super) fn longest_gap_ms(&self, phase: Phase) -> Option<f64> {
        let of = |writers| Some(self.figure(phase, "longest gap", writers)?.highest);
        most_of(&[ONE, FOUR], of)
    }
}

pub(super) const ONE: Concurrency = Concurrency::new(1, 1);
pub(super) const TWO: Concurrency = Concurrency::new(2, 2);
pub(super) const FOUR: Concurrency = Concurrency::new(4, 4);
pub(super) const SIXTEEN: Concurrency = Concurrency::new(16, 16);
pub(super) const DEEP: Concurrency = Concurrency::new(1, 32);

/// The smallest value of `measure` over `loads`, if all were measured.
pub(super) fn least_of(
    loads: &[Concurrency],
    measure: impl Fn(Concurrency) -> Option<f64>,
) -> Option<f64> {
    let all: Option<Vec<f64>> = loads.iter().map(|&load| measure(load)).collect();
    all?.into_iter().reduce(f64::min)
}

/// The largest value of `measure` over `loads`, if all were measured.
pub(super) fn most_of(
    loads: &[Concurrency],
    measure: impl Fn(Concurrency) -> Option<f64>,
) -> Option<f64> {
    least_of(loads, |load| measure(load).map(|value| -value)).map(|least| -least)
}
