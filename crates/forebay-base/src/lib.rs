//! The workshop: units, time as plain numbers, seeded chance, hashes.
//!
//! The rule of this crate: no clock, no I/O, no threads, no allocation on a hot path. It knows
//! nothing of caches; everything above it may use it.

pub mod hash;
pub mod prng;
pub mod sync;
pub mod time;
pub mod units;

pub use prng::Prng;
pub use time::{Instant, Span};
pub use units::{PAGE_BYTES, PAGE_SHIFT};
