//! The stalls that a run leaves behind, as a trace.

use forebay_base::sync::{Arc, Mutex, lock};
use forebay_control::trace::trace;
use forebay_control::waits::Stalls;
use forebay_lab::run::Look;

/// The stalls that a look at the end of a workload finds.
#[derive(Clone, Default)]
pub(super) struct SeenStalls(Arc<Mutex<Stalls>>);

impl SeenStalls {
    /// The look that finds them.
    pub(super) fn look(&self) -> Look {
        let seen = self.clone();
        Look::new(move |cache| *lock(&seen.0) = Stalls::all(cache))
    }

    /// Their trace, as JSON. Its times are those of the run.
    pub(super) fn trace(&self) -> String {
        trace(&lock(&self.0)).to_string()
    }
}
