//! What all servers of tests have: a longest time to live, and lines on standard error.

use forebay_rt::thread::spawn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{BufRead, BufReader};
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

/// Reads the standard error of `server` up to the first line in which `find` finds something.
pub(crate) fn find_line<T>(server: &mut Child, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
    let stderr = server.stderr.take().expect("it is taken once");
    let mut lines = BufReader::new(stderr);
    let mut line = String::new();
    loop {
        line.clear();
        let count = lines.read_line(&mut line).expect("it is a pipe");
        assert!(count > 0, "the server ended without saying {what}");
        if let Some(found) = find(&line) {
            server.stderr = Some(lines.into_inner());
            return found;
        }
    }
}
