//! What a cache tells its operators, as JSON and as text, and the knobs that they turn.
//!
//! A server answers with these words over its control socket, `forebay why`, `top` and `set` read
//! them, and the lab writes its traces in them.

// The fields are the keys of the JSON that docs/man describes; a second description here could
// only differ from it.
#![allow(missing_docs)]

pub mod incidents;
pub mod knobs;
pub mod place;
pub mod state;
pub mod time;
pub mod trace;
pub mod troubles;
pub mod waits;
