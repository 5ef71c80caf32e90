//! `forebay serve`: fronts for clients that speak a protocol of their own.

mod arguments;
mod ending;
mod images;
mod memory;
mod metrics;
mod nbd;
mod scrape;

pub(crate) use arguments::{ServeArguments, TypedServe};
pub(crate) use nbd::run;
