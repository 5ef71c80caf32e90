//! What explores every order of the steps of a few threads.

/// Runs `body` in every order in which at most `preemptions` threads lose the processor in the
/// middle of a step.
pub(super) fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}
