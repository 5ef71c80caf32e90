//! The mutants of a part, as `cargo mutants --list --json` prints them.

use crate::error::TaskError;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// A change that the tool would make.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Mutant {
    /// The file that it changes, from the root of the repository.
    pub(super) file: String,
    /// `file:line:column: what`.
    name: String,
    pub(super) genre: Genre,
    pub(super) function: Option<Function>,
    /// The text that is replaced.
    pub(super) span: Span,
    pub(super) replacement: String,
}

/// The kind of text that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Genre {
    /// The body of a function.
    FnValue,
    BinaryOperator,
    UnaryOperator,
    /// An arm of a match, which is removed.
    MatchArm,
    /// The condition of an arm.
    MatchArmGuard,
    /// A field of a literal, which is removed: its value comes from the base.
    StructField,
}

/// The function that has the change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Function {
    pub(super) return_type: String,
    pub(super) span: Span,
}

/// A stretch of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Span {
    pub(super) start: Place,
    pub(super) end: Place,
}

/// A place in a text. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The mutants in `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Mutant {
    /// The change, without its place.
    pub(super) fn mutation(&self) -> &str {
        let cut = self.name.split_once(": ");
        cut.map_or(self.name.as_str(), |(_, mutation)| mutation)
    }

    /// The place and the change.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The line that is changed, as it is below `root`.
    pub(super) fn line_of(&self, root: &Path) -> Result<String, TaskError> {
        let path = root.join(&self.file);
        let text = fs::read_to_string(&path).map_err(|cause| TaskError::Read { path, cause })?;
        let line = text.lines().nth(self.span.start.line.saturating_sub(1));
        Ok(line.unwrap_or_default().trim().to_owned())
    }
}

#[cfg(test)]
pub(super) fn example(genre: Genre, line: usize, column: usize, replacement: &str) -> Mutant {
    let place = Place { line, column };
    Mutant {
        file: "a.rs".into(),
        name: format!("a.rs:{line}:{column}: replace x with {replacement} in f"),
        genre,
        function: None,
        span: Span {
            start: place,
            end: place,
        },
        replacement: replacement.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = r#"[{"diff": "", "file": "a.rs", "genre": "FnValue", "package": "a",
            "function": {"function_name": "f", "return_type": "-> u64",
                "span": {"start": {"line": 5, "column": 1}, "end": {"line": 7, "column": 2}}},
            "name": "a.rs:6:5: replace f -> u64 with 0", "replacement": "0",
            "span": {"start": {"line": 6, "column": 5}, "end": {"line": 6, "column": 9}}}]"#;
        let list = parse(text).unwrap();
        assert_eq!(list[0].mutation(), "replace f -> u64 with 0");
        assert_eq!(list[0].span.start, Place { line: 6, column: 5 });
        assert!(parse(&text.replace("FnValue", "Odd")).is_err_and(|said| said.contains("Odd")));
    }
}
