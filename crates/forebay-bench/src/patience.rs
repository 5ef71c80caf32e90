//! For tests of short steps on a busy machine.

use crate::contender::Sample;

/// The span of a step may pass before any of its threads gets to run.
const ATTEMPTS: usize = 20;

/// The result of `step` once something was measured, or of the last try.
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
