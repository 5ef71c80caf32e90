//! What a server says of itself, to whom nobody may listen.

use std::fmt::Display;
use std::io::{self, Write};

pub(crate) use forebay_rt::say;

/// Says on standard output, for whoever started us, that clients may come.
pub(crate) fn say_ready(text: impl Display) {
    let mut output = io::stdout();
    // Who started us may be gone; the clients need not be.
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}
