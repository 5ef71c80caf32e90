//! Questions to a running server over its control socket, and its answers: the words that both
//! sides use.

pub(crate) mod incidents;
pub(crate) mod knobs;
pub(crate) mod place;
pub(crate) mod state;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod waits;
