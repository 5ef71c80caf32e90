//! Messages of a server; it is possible that nobody reads them.

use std::fmt::Display;
use std::io::{self, Write};

pub(crate) use forebay_rt::say;

/// Announces on standard output, for the process that started us, that clients may come.
pub(crate) fn say_ready(text: impl Display) {
    let mut output = io::stdout();
    // The process that started us may be gone while the clients are still there.
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}
