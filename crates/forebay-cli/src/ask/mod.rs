//! Commands that ask a running server over its control socket.

mod arguments;
mod http;
mod why;

pub(crate) use arguments::{TypedWhy, WhyArguments};
pub(crate) use why::run as run_why;
