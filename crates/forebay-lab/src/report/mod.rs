//! Reports of runs: tables for a terminal, JSON for programs, one page with pictures for people.
//!
//! A report reads only [`Outcome`]s. Runs of one policy with several
//! seeds are merged first ([`Comparison`]), each figure to its mean and its spread; the first
//! policy is the baseline, and every change is 100 x (new - old) / old.
//!
//! ```
//! use forebay_lab::outcome::Outcome;
//! use forebay_lab::report::{Comparison, Document, page, table};
//!
//! let mut before = Outcome { elapsed_s: 4.0, ..Outcome::default() };
//! before.setting.policy = "before".into();
//! let mut after = Outcome { elapsed_s: 3.0, ..Outcome::default() };
//! after.setting.policy = "after".into();
//! let runs = vec![before, after];
//!
//! let comparison = Comparison::of(&runs);
//! assert!(table::render(&comparison).contains("-25.00%"));
//! assert!(page::of_runs("example", &runs).starts_with("<!DOCTYPE html>"));
//! assert!(Document::new(runs).to_json().contains("\"elapsed_s\""));
//! ```

mod compare;
mod comparison;
mod metric;
pub mod page;
pub mod pictures;
mod rows;
pub mod statistics;
pub mod table;

pub use comparison::{Block, Comparison, MergedCell, PolicyColumn, Row, StallLine, StallList};
pub use metric::Better;

use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};

/// What `--json` writes: every run as it was, and the runs merged and compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Every run, in the order of policies and seeds.
    pub outcomes: Vec<Outcome>,
    /// The same, merged over the seeds.
    pub comparison: Comparison,
}

impl Document {
    /// Compares runs of one workload on one machine.
    pub fn new(outcomes: Vec<Outcome>) -> Document {
        Document {
            comparison: Comparison::of(&outcomes),
            outcomes,
        }
    }

    /// The document as JSON; a figure that is not a finite number is `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain values with text keys become JSON")
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
