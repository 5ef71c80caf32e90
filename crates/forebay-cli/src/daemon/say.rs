//! What a server says of itself. Nobody may listen: the terminal was closed, the log's reader died.
//! The server goes on then, and above all writes what it holds; the macros that print would end it
//! by a panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Says one line on standard error, as one write, so that lines of several threads stay whole.
pub(crate) fn say(text: impl Display) {
    // Whoever could be told of the failure reads that same stream.
    let _ = io::stderr().write_all(format!("forebay: {text}\n").as_bytes());
}

/// Says on standard output, for whoever started us, that clients may come.
pub(crate) fn say_ready(text: impl Display) {
    let mut output = io::stdout();
    // Who started us may be gone; the clients need not be.
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}
