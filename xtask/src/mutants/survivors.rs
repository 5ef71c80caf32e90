//! The list of survivors: `mutants-survivors.toml`.

use super::list::Mutant;
use serde::Deserialize;
use std::fmt;

/// Where the list is, from the root of the repository.
pub(crate) const PATH: &str = "mutants-survivors.toml";

/// A mutant that no test notices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Survivor {
    pub(crate) file: String,
    /// The change in the words of the tool, which name the function too.
    pub(crate) mutation: String,
    /// The line that it changes, without the spaces around it. Line numbers would move.
    pub(crate) line: String,
    pub(crate) reason: Reason,
    /// The explanation of the reason.
    pub(crate) why: String,
}

/// Why it may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// The code does the same for every input.
    Equivalent,
    /// The code does the same, only faster or slower.
    Performance,
    /// A test should notice it, and does not exist yet.
    MissingTest,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Equivalent => "equivalent",
            Reason::Performance => "performance only",
            Reason::MissingTest => "missing test",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

/// The survivors of the list `text`, or why it cannot be read.
pub(crate) fn parse(text: &str) -> Result<Vec<Survivor>, String> {
    let list: List = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(list.survivor)
}

impl Survivor {
    /// Whether it is this mutant, which changed the line `line`.
    pub(super) fn is(&self, mutant: &Mutant, line: &str) -> bool {
        self.file == mutant.file && self.mutation == mutant.mutation() && self.line == line
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::{Genre, example};
    use super::*;

    #[test]
    fn a_survivor_is_known_by_its_line_and_not_by_the_number_of_it() {
        let text = "[[survivor]]\nfile = 'a.rs'\nmutation = 'replace x with <= in f'\n\
                    line = 'if a < b {'\nreason = 'missing-test'\nwhy = 'c'\n";
        let list = parse(text).unwrap();
        let mutant = |with: &str, line| example(Genre::BinaryOperator, line, 1, with);
        let known = mutant("<=", 4);
        assert!(list[0].is(&known, "if a < b {"));
        assert!(!list[0].is(&known, "if a < c {"));
        assert!(!list[0].is(&mutant(">", 4), "if a < b {"));
        assert_eq!(list[0].reason.to_string(), "missing test");
        assert!(parse(&text.replace("missing-test", "none")).is_err());
    }
}
