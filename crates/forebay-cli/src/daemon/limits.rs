//! Limits of the system whose signal would end a server with everything that is dirty.

use crate::error::CommandError;
use forebay_base::sync::{Arc, atomic::AtomicBool};
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
