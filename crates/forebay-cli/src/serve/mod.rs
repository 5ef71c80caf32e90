//! `forebay serve`: fronts for clients with a protocol.

mod arguments;
mod images;
mod listening;
mod losses;
mod memory;
mod nbd;
mod notices;

pub(crate) use arguments::{ServeArguments, TypedServe};
pub(crate) use nbd::{check, run};
