//! The outcomes of runs, by cell, position and seed.

use super::Position;
use super::measure::measure;
use crate::outcome::Outcome;
use crate::report::statistics::mean;
use std::collections::BTreeMap;

/// What was run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    runs: BTreeMap<(String, Position), Vec<Outcome>>,
}

impl Evidence {
    /// Adds the outcome of a run of `cell` under the policy of `position`.
    pub fn add(&mut self, cell: &str, position: Position, outcome: Outcome) {
        let runs = self.runs.entry((cell.into(), position)).or_default();
        runs.push(outcome);
    }

    /// The runs of a cell under one policy, in the order in which they were added.
    pub fn runs(&self, cell: &str, position: Position) -> &[Outcome] {
        let key = (cell.to_owned(), position);
        self.runs.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The figure in each run that has it, by seed.
    pub fn values(&self, cell: &str, position: Position, metric: &str) -> BTreeMap<u64, f64> {
        let runs = self.runs(cell, position).iter();
        runs.filter_map(|run| Some((run.setting.seed, measure(run, metric)?)))
            .filter(|(_, value)| value.is_finite())
            .collect()
    }

    /// Its mean over the runs that have it.
    pub fn mean(&self, cell: &str, position: Position, metric: &str) -> Option<f64> {
        let values: Vec<f64> = self.values(cell, position, metric).into_values().collect();
        mean(&values)
    }
}
