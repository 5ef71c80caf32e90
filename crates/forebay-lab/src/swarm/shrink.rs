//! Shrinking a failing run: parts and operations are left out as long as the run fails in the same
//! way.

use super::part::Part;
use super::plan::Reduction;
use super::run::run_seed;
use super::verdict::{Oracle, Violation};

/// Leaves out of the run of `seed` everything that the failure does not need. Returns what is left
/// out, and the violation that the smaller run finds; none if the whole run finds nothing.
pub fn shrink(seed: u64) -> Option<(Reduction, Violation)> {
    let mut reduction = Reduction::default();
    let mut violation = run_seed(seed, &reduction).violation?;
    let oracle = violation.oracle;
    for part in Part::ALL {
        let mut smaller = reduction.clone();
        smaller.without.push(part);
        if let Some(found) = still_fails(seed, &smaller, oracle) {
            (reduction, violation) = (smaller, found);
        }
    }
    // This is a search, not a bisection, because a failing run does not always fail with fewer
    // operations.
    for operations in [1, 2, 3, 5, 8, 12, 18, 25, 35, 50, 70] {
        let smaller = Reduction {
            operations: Some(operations),
            ..reduction.clone()
        };
        if let Some(found) = still_fails(seed, &smaller, oracle) {
            return Some((smaller, found));
        }
    }
    Some((reduction, violation))
}

fn still_fails(seed: u64, reduction: &Reduction, oracle: Oracle) -> Option<Violation> {
    let found = run_seed(seed, reduction).violation;
    found.filter(|violation| violation.oracle == oracle)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_run_that_finds_nothing_is_not_shrunk() {
        assert_eq!(super::shrink(3), None);
    }
}
