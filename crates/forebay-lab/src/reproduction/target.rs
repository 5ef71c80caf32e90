//! The 89 tests: what a reproduction must show.

use super::published::read;
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("../../data/targets.csv");

/// One test of one claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `A3.1` is the first test of claim A3.
    pub test: String,
    /// The claim.
    pub claim: String,
    /// Whether a reproduction must show it.
    pub required: bool,
    /// What is measured, in words of the table.
    pub metric: String,
    /// Which part of it.
    pub param: String,
    /// What is compared.
    pub form: Form,
    /// What the original shows.
    pub original: String,
    /// Smallest accepted value.
    pub low: Option<f64>,
    /// Largest accepted value.
    pub high: Option<f64>,
    /// How many cells must lie between them.
    pub cells_needed: CellsNeeded,
    /// The claim in words.
    pub words: String,
    /// What else must be known.
    pub remark: String,
}

/// What is compared with the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// After / before.
    Ratio,
    /// After minus before.
    Diff,
    /// The value after.
    Patched,
    /// The value before.
    Baseline,
    /// A number of cells.
    Count,
    /// As the test says.
    Derived,
}

/// How many cells must lie between the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellsNeeded {
    /// All that there are.
    Every,
    /// All, in every single run and not only in the mean.
    EveryRun,
    /// This many of this many.
    Of(u32, u32),
}

#[derive(Deserialize)]
struct Line {
    test_id: String,
    claim_id: String,
    required: String,
    metric: String,
    param: String,
    form: Form,
    seed_value: String,
    low: String,
    high: String,
    cells_needed: String,
    claim: String,
    remark: String,
}

impl Target {
    /// Whether `value` lies between the bounds, both included.
    pub fn accepts(&self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }

    /// The bounds as a table says them.
    ///
    /// ```
    /// use forebay_lab::reproduction::target::targets;
    /// assert_eq!(targets()[4].bounds(), "0.6 to 0.995");
    /// ```
    pub fn bounds(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) if low.to_bits() == high.to_bits() => format!("{low}"),
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("{low} or more"),
            (None, Some(high)) => format!("{high} or less"),
            (None, None) => "any".into(),
        }
    }
}

/// All tests in the order of their claims.
pub fn targets() -> Vec<Target> {
    read::<Line>(TABLE).into_iter().map(target).collect()
}

fn target(line: Line) -> Target {
    let bound = |text: &str| {
        let number = || text.parse().expect("a bound is a number or empty");
        (!text.is_empty()).then(number)
    };
    Target {
        low: bound(&line.low),
        high: bound(&line.high),
        cells_needed: cells_needed(&line.cells_needed),
        required: line.required == "yes",
        test: line.test_id,
        claim: line.claim_id,
        metric: line.metric,
        param: line.param,
        form: line.form,
        original: line.seed_value,
        words: line.claim,
        remark: line.remark,
    }
}

fn cells_needed(text: &str) -> CellsNeeded {
    match text.split_once('/') {
        Some((needed, all)) => {
            let count = |text: &str| text.parse().expect("'10/12' is two whole numbers");
            CellsNeeded::Of(count(needed), count(all))
        }
        None if text == "every run" => CellsNeeded::EveryRun,
        None => CellsNeeded::Every,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_47_claims_as_89_tests_and_27_are_required() {
        let targets = targets();
        let claims: BTreeSet<&str> = targets.iter().map(|target| target.claim.as_str()).collect();
        assert_eq!((targets.len(), claims.len()), (89, 47));
        assert_eq!(targets.iter().filter(|target| target.required).count(), 27);
    }

    #[test]
    fn bounds_include_their_ends() {
        let targets = targets();
        let test = |name: &str| targets.iter().find(|target| target.test == name).unwrap();
        assert!(test("A3.1").accepts(0.6) && !test("A3.1").accepts(0.996));
        assert!(test("A10.1").accepts(10.0), "+10 is a number");
        assert!(test("A8.2").accepts(-5.0) && !test("A8.2").accepts(1.31));
        assert_eq!(test("A2.1").cells_needed, CellsNeeded::Of(20, 24));
        assert_eq!(test("D2.3").cells_needed, CellsNeeded::EveryRun);
    }
}
