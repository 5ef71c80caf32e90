//! For tests of short steps on a busy machine.

use crate::contender::{Load, Phase, Sample, Step};
use crate::files::write_files;
use crate::layout::Layout;
use forebay_host::Interrupts;

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

/// A step with a number of threads and nothing else.
pub(crate) fn bare_step(phase: Phase, load: Load, threads: u32) -> Step {
    Step {
        threads,
        depth: threads,
        ..Step::bare(phase, load, 1)
    }
}

/// A short step by two threads.
pub(crate) fn short_step(phase: Phase, load: Load) -> Step {
    Step {
        span_ms: 5,
        settle_ms: 1,
        bytes: 4 << 20,
        call_bytes: 64 << 10,
        ..bare_step(phase, load, 2)
    }
}

/// The files of a bench with this budget, in a new folder.
pub(crate) fn small_files(memory_bytes: u64) -> (tempfile::TempDir, Layout) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path(), memory_bytes);
    write_files(&layout, &Interrupts::none()).unwrap();
    (folder, layout)
}
