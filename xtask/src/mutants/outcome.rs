//! The report of the tool: the parts of `mutants.out/outcomes.json` that matter here.

use crate::error::TaskError;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    Caught,
    Missed,
    /// Its tests did not end.
    Timeout,
    /// It does not compile, so it shows nothing.
    Unviable,
}

/// A mutant that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) file: String,
    /// The change, without its place.
    pub(super) mutation: String,
    /// The line of the change, from 1.
    pub(super) line: usize,
    pub(super) summary: Summary,
}

#[derive(Deserialize)]
struct Report {
    outcomes: Vec<Tried>,
}

#[derive(Deserialize)]
struct Tried {
    scenario: serde_json::Value,
    summary: String,
}

#[derive(Deserialize)]
struct Mutant {
    name: String,
    file: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
}

#[derive(Deserialize)]
struct Place {
    line: usize,
}

/// The mutants of the report at `path`.
pub(super) fn read(path: &Path) -> Result<Vec<Outcome>, TaskError> {
    let text = fs::read_to_string(path).map_err(|cause| TaskError::Read {
        path: path.to_owned(),
        cause,
    })?;
    parse(&text).map_err(|message| TaskError::Failed {
        command: format!("read {}", path.display()),
        message,
    })
}

fn parse(text: &str) -> Result<Vec<Outcome>, String> {
    let report: Report = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut outcomes = Vec::new();
    for Tried { scenario, summary } in report.outcomes {
        // The other scenario is the unchanged code.
        let Some(mutant) = scenario.get("Mutant") else {
            continue;
        };
        let mutant: Mutant =
            serde_json::from_value(mutant.clone()).map_err(|error| error.to_string())?;
        let summary = match summary.as_str() {
            "CaughtMutant" => Summary::Caught,
            "MissedMutant" => Summary::Missed,
            "Timeout" => Summary::Timeout,
            "Unviable" => Summary::Unviable,
            other => return Err(format!("{}: what is {other}?", mutant.name)),
        };
        // The name is `file:line:column: what`.
        let (_, mutation) = mutant
            .name
            .split_once(": ")
            .ok_or_else(|| format!("{} does not say where it is", mutant.name))?;
        outcomes.push(Outcome {
            mutation: mutation.to_owned(),
            file: mutant.file,
            line: mutant.span.start.line,
            summary,
        });
    }
    Ok(outcomes)
}

impl Outcome {
    pub(super) fn name(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.mutation)
    }

    /// The text of the line that was changed.
    pub(super) fn line_of(&self, root: &Path) -> String {
        let text = fs::read_to_string(root.join(&self.file)).unwrap_or_default();
        let line = text.lines().nth(self.line.saturating_sub(1));
        line.unwrap_or_default().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_without_its_baseline() {
        let text = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            {"scenario": {"Mutant": {"name": "a.rs:6:5: replace f -> u64 with 0", "file": "a.rs",
                "span": {"start": {"line": 6, "column": 5}, "end": {"line": 7, "column": 1}}}},
             "summary": "MissedMutant", "phase_results": []}
        ]}"#;
        let expected = Outcome {
            file: "a.rs".into(),
            mutation: "replace f -> u64 with 0".into(),
            line: 6,
            summary: Summary::Missed,
        };
        assert_eq!(parse(text), Ok(vec![expected]));
        let unknown = text.replace("MissedMutant", "Odd");
        assert!(parse(&unknown).is_err_and(|message| message.contains("Odd")));
    }
}
