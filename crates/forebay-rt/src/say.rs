//! Messages on standard error. Perhaps nobody reads them: the terminal was closed, the log's reader
//! died, or it is stopped and its pipe is full. The thread then goes on without them; the macros
//! that print would end it with a panic, or wait for ever.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// How long the reader of the messages has to make room for one.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Writes one line to standard error, as one write, so that lines of several threads stay whole.
/// The line is dropped if nobody makes room for it within a second.
///
/// ```
/// forebay_rt::say(format_args!("{} pages are left", 7));
/// ```
pub fn say(text: impl Display) {
    let mut error = io::stderr();
    if !has_room(&error) {
        return;
    }
    // A reader of an error message would read the same stream.
    let _ = error.write_all(format!("forebay: {text}\n").as_bytes());
}

/// Whether a line can be written at once: a pipe says so while it has room for 4 KiB.
fn has_room(stream: &impl AsFd) -> bool {
    let mut streams = [PollFd::new(stream, PollFlags::OUT)];
    // A stream that cannot be polled, or that has no reader, does not make a writer wait.
    poll(&mut streams, Some(&PATIENCE)).map_or(true, |ready| ready > 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::fs::OFlags;
    use std::io::Read;

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(has_room(&writer));
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while writer.write(&[b'x'; 4096]).is_ok() {}
        assert!(!has_room(&writer), "a line would wait for its reader");
        reader.read_exact(&mut [0; 8192]).unwrap();
        assert!(has_room(&writer));
        drop(reader);
        assert!(has_room(&writer), "it fails at once");
    }
}
