//! What is wrong with a scenario's text, and where.

use crate::machine::{MachineError, SourceLine};

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ScenarioError {
    /// Where in the text.
    pub place: SourceLine,
    /// What is wrong and what is allowed.
    pub problem: String,
}

impl ScenarioError {
    /// The same with the name of the file in front: `disk.toml:12: ...`.
    pub fn in_file(&self, path: &str) -> String {
        format!("{path}:{}: {}", self.place.line, self.problem)
    }
}

/// The text that is checked, to say where something is wrong.
pub(crate) struct Source<'a>(pub(crate) &'a str);

impl Source<'_> {
    /// Something is wrong at byte `offset_bytes`.
    pub(crate) fn wrong(&self, offset_bytes: usize, problem: impl Into<String>) -> ScenarioError {
        ScenarioError {
            place: SourceLine::of_offset(self.0, offset_bytes),
            problem: problem.into(),
        }
    }

    /// `field` of the table at byte `start_bytes` is wrong.
    pub(crate) fn wrong_field(
        &self,
        start_bytes: usize,
        field: &str,
        problem: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError {
            place: SourceLine::of_field(self.0, start_bytes, field),
            problem: problem.into(),
        }
    }

    /// The machine of the text at byte `offset_bytes` is impossible.
    pub(crate) fn machine(&self, offset_bytes: usize, error: MachineError) -> ScenarioError {
        match error {
            MachineError::Text { place, problem } => ScenarioError { place, problem },
            other => self.wrong(offset_bytes, other.to_string()),
        }
    }

    /// A name that is none of `known`.
    pub(crate) fn unknown(
        &self,
        offset_bytes: usize,
        what: &str,
        name: &str,
        known: &[String],
    ) -> ScenarioError {
        let known = known.join(", ");
        let problem = format!("there is no {what} '{name}'; there are: {known}");
        self.wrong(offset_bytes, problem)
    }
}
