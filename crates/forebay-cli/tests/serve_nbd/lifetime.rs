//! The longest that a server of a test may live.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Kills `server` after 400 s if the returned sender is still there: its test hangs, and would hold
/// all others with it.
pub(crate) fn end_late(server: &Child) -> Sender<()> {
    let (sender, ended) = channel::<()>();
    let process = pidfd_open(Pid::from_child(server), PidfdFlags::empty());
    let process = process.expect("the server is ours");
    std::thread::spawn(move || {
        let limit = Duration::from_secs(400);
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a server is killed: its test does not end");
            // It may have ended by itself.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    });
    sender
}
