//! Runs side by side.

use super::comparison::{Comparison, column, group, stalls};
use super::rows;
use crate::outcome::Outcome;

impl Comparison {
    /// Merges and compares `outcomes`, which are of one workload on one machine.
    pub fn of(outcomes: &[Outcome]) -> Comparison {
        let groups = group(outcomes);
        let setting = outcomes.first().map(|outcome| &outcome.setting);
        Comparison {
            workload: setting.map_or_else(String::new, |setting| setting.workload.clone()),
            machine: setting.map_or_else(String::new, |setting| setting.machine.clone()),
            columns: groups.iter().map(|runs| column(runs, &groups)).collect(),
            blocks: rows::blocks(&groups),
            stalls: groups
                .iter()
                .flat_map(|runs| stalls(runs, &groups))
                .collect(),
        }
    }
}
