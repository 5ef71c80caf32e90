//! Scenarios: what would happen to a machine if. A text names or spells out the machine, its
//! processes, what happens to its devices, and what is expected of it in control terms;
//! docs/reference/scenarios.md has the form.

mod capacity;
mod check;
mod error;
mod happening;
mod known;
mod places;
mod play;
mod process;
mod progress;
mod sampling;
mod script;
mod surroundings;
mod text;

pub use error::ScenarioError;
pub(crate) use error::Source;
pub(crate) use known::SCENARIO;

use crate::expect::{Expectation, judge};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::workload::Work;
use crate::world::World;
use forebay_base::Span;
use progress::Progress;
use script::{Group, Happening, SharedFile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// One line that says what it shows.
    pub summary: String,
    /// The policy that it is written for.
    pub policy: String,
    /// The seed that it is written for.
    pub seed: u64,
    /// Knobs of the machine and the policy.
    pub knobs: BTreeMap<String, String>,
    /// The machine.
    pub machine: Machine,
    length: Span,
    /// Nothing before this is measured.
    warm_up: Span,
    /// Latencies and pauses before this are not measured either.
    latencies_from: Span,
    /// How often levels are sampled.
    sample: Span,
    /// The columns that are kept; all if there is none.
    sampled: Vec<String>,
    files: Vec<SharedFile>,
    groups: Vec<Group>,
    events: Vec<Happening>,
    /// The file systems in which requests go wrong at some time.
    pub(crate) faulty: Vec<String>,
    pub(crate) expectations: Vec<Expectation>,
}

impl Scenario {
    /// The scenario that `text` describes.
    ///
    /// # Errors
    /// [`ScenarioError`] with the line, what is wrong there and what is allowed.
    ///
    /// ```
    /// use forebay_lab::run::{Plan, run};
    /// use forebay_lab::scenario::Scenario;
    /// let scenario = Scenario::parse(r#"
    ///     name = "one-writer"
    ///     summary = "a paced writer is not slowed"
    ///     machine = "amd4-512m"
    ///     length_s = 4
    ///
    ///     [[processes]]
    ///     name = "log"
    ///     writes = { block = "4K", rate = "1M" }
    ///
    ///     [[expect]]
    ///     mean = { of = "rate@log", at_least = "900K" }
    /// "#)?;
    /// let outcome = run(&Plan::of_scenario(scenario))?;
    /// assert!(outcome.expectations.iter().all(|expectation| expectation.held));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        check::parse(text)
    }

    /// Whether `text` is meant to be a scenario and not a machine: it has processes.
    pub fn is_meant_by(text: &str) -> bool {
        toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("processes"))
    }

    /// How many expectations it has.
    pub fn expectations(&self) -> usize {
        self.expectations.len()
    }
}

/// Runs `scenario` on the machine that `launch` switches on, and judges what it expects.
///
/// # Errors
/// Those of `launch`.
pub(crate) fn run<E>(
    scenario: &Arc<Scenario>,
    launch: impl FnOnce(Box<dyn FnOnce(World) -> Work>) -> Result<Outcome, E>,
) -> Result<Outcome, E> {
    let progress = Arc::new(Progress::new(scenario));
    let (script, seen) = (scenario.clone(), progress.clone());
    let body = |world: World| -> Work { Box::pin(play::play(world, script, seen)) };
    let mut outcome = launch(Box::new(body))?;
    progress.add_columns(&mut outcome.series);
    outcome.expectations = judge(&scenario.expectations, &outcome);
    if !scenario.sampled.is_empty() {
        let columns = &mut outcome.series.columns;
        columns.retain(|column| scenario.sampled.contains(&column.name));
    }
    Ok(outcome)
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
