//! The loads. Each is one loop over a [`PagedFile`](super::contender::PagedFile) or over numbers.
//! It is written only once, so that every contender runs the same code.

pub(crate) mod cached;
pub(crate) mod commit;
mod gate;
pub(crate) mod miss;
pub(crate) mod mix;
pub(crate) mod mixed;
pub(crate) mod order;
pub(crate) mod slow;
pub(crate) mod stream;
pub(crate) mod writers;
