//! Tests that need what the machine may not have.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write;

/// Reports that this test is left out, and why. The harness names the thread of a test after it.
pub(crate) fn report(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // Written past the capture of the test's output, because the person who runs the tests has to
    // see it.
    let line = format!("test {test} ... ignored, {reason}\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("standard error takes a line");
}

/// Whether this test is left out because nothing can be mounted here; reports the reason.
pub(crate) fn is_left_out() -> bool {
    let Err(missing) = forebay_fuse::can_mount() else {
        return false;
    };
    report(&format!("cannot mount: {missing}"));
    true
}
