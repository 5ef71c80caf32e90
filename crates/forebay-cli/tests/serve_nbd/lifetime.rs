//! The longest that a server of a test may live.

use forebay_rt::thread::spawn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::process::Child;

/// Kills `server` after 400 s if it is still there: its test hangs, and would hold all others with
/// it.
pub(crate) fn end_late(server: &Child) {
    let process = pidfd_open(Pid::from_child(server), PidfdFlags::empty());
    let process = process.expect("the server is ours");
    let watching = spawn("lifetime", move || {
        let limit = Timespec {
            tv_sec: 400,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let mut ended = Err(Errno::INTR);
        while ended == Err(Errno::INTR) {
            ended = poll(&mut fds, Some(&limit));
        }
        if ended == Ok(0) {
            eprintln!("a server is killed: its test does not end");
            // It may have ended by itself.
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    });
    drop(watching.expect("a thread"));
}
