//! Commands that ask a running server over its control socket.

mod arguments;
mod http;
mod set;
mod top;
mod why;

pub(crate) use arguments::{
    SetArguments, TopArguments, TypedSet, TypedTop, TypedWhy, WhyArguments,
};
pub(crate) use set::run as run_set;
pub(crate) use top::run as run_top;
pub(crate) use why::run as run_why;
