//! One goal, and how a table of goals is written.

use super::limit::Limit;

/// A goal of the part `part` of a bench.
pub(crate) struct Goal<Part, Measure> {
    pub(crate) part: Part,
    pub(crate) text: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) limit: Limit,
    /// Measures it in the results of a bench.
    pub(crate) measure: Measure,
}

/// What a goal is about. A limit makes it a goal.
pub(crate) struct About<Part> {
    part: Part,
    text: &'static str,
}

/// What a goal is about.
pub(crate) const fn goal<Part>(part: Part, text: &'static str) -> About<Part> {
    About { part, text }
}

impl<Part: Copy> About<Part> {
    pub(crate) const fn at_most<Measure: Copy>(
        self,
        most: f64,
        unit: &'static str,
        measure: Measure,
    ) -> Goal<Part, Measure> {
        self.within(Limit::AtMost(most), unit, measure)
    }

    pub(crate) const fn at_least<Measure: Copy>(
        self,
        least: f64,
        unit: &'static str,
        measure: Measure,
    ) -> Goal<Part, Measure> {
        self.within(Limit::AtLeast(least), unit, measure)
    }

    const fn within<Measure: Copy>(
        self,
        limit: Limit,
        unit: &'static str,
        measure: Measure,
    ) -> Goal<Part, Measure> {
        Goal {
            part: self.part,
            text: self.text,
            unit,
            limit,
            measure,
        }
    }
}
