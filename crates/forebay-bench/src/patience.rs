//! Tests of short steps on a busy machine.

use crate::contender::Sample;

/// The span of a step may pass before any of its threads had its turn.
const ATTEMPTS: usize = 20;

/// What `step` gives once something is measured, or at last.
pub(crate) fn measured(
    mut step: impl FnMut() -> Vec<Sample>,
    is_measured: impl Fn(&[Sample]) -> bool,
) -> Vec<Sample> {
    let mut samples = step();
    for _ in 1..ATTEMPTS {
        if is_measured(&samples) {
            break;
        }
        samples = step();
    }
    samples
}
