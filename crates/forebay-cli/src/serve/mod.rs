//! `forebay serve`: fronts for clients that speak a protocol of their own.

mod arguments;
mod images;
mod losses;
mod memory;
mod nbd;

pub(crate) use arguments::{ServeArguments, TypedServe};
pub(crate) use nbd::run;
