//! Limits of the system that would end a server with everything that is dirty, or keep it from
//! what it promises: looked at before it starts.

use crate::error::CommandError;
use forebay_base::sync::Arc;
use forebay_base::sync::atomic::AtomicBool;
use forebay_rt::block_on;
use forebay_rt::thread::{Joiner, spawn_small};
use forebay_rt::wait::Gate;
use signal_hook::consts::SIGXFSZ;

/// Makes a write past RLIMIT_FSIZE fail with EFBIG, as a write to a full disk fails: its pages are
/// kept and its client is told. By default the signal that comes with it ends the process.
pub(crate) fn survive_file_size_limit() -> Result<(), CommandError> {
    // Nobody reads the flag: the error of the write says more than the signal.
    let unread = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, unread)
        .map(|_registration| ())
        .map_err(CommandError::system("listen for signals"))
}

/// Refuses to start where the system does not allow `needed` threads more: one that is missing
/// later would be missing in the middle of the work. They are started, and end again at once.
pub(crate) fn check_threads(needed: usize) -> Result<(), CommandError> {
    let gate = Arc::new(Gate::new(false));
    let mut threads = Vec::new();
    let mut refused = None;
    while threads.len() < needed && refused.is_none() {
        let gate = gate.clone();
        match spawn_small("probe", move || block_on(gate.wait())) {
            Ok(thread) => threads.push(thread),
            Err(error) => refused = Some(error),
        }
    }
    let granted = threads.len();
    gate.open();
    threads.into_iter().for_each(Joiner::join);
    let Some(error) = refused else {
        return Ok(());
    };
    Err(CommandError::Served(format!(
        "the system allows {granted} more threads ({error}), and {needed} are needed at least: \
         raise ulimit -u (or -v, which their stacks need), or pids.max of the cgroup (TasksMax in \
         a unit)"
    )))
}
