//! The control laws of a page cache: how much to reclaim, when to write, how long a writer pauses.
//!
//! A law is a pure function of whole numbers. It reads no clock, keeps nothing, allocates nothing
//! and never waits; time is an argument in milliseconds. The same inputs give the same bits on
//! every machine, so that the recorded inputs of a decision are enough to repeat it.
//!
//! Quantities are pages of 4 KiB unless a name ends in another unit. A fraction that ends in
//! `ratio` is fixed point with ten fraction bits: 1024 is one.
//!
//! Every file opens with the same nine items: the question, the inputs and the output, the
//! formula, the numbered conditions it satisfies, the picture, an example with real sizes, why not
//! the simpler formula, the edges, and the lineage.

#![forbid(unsafe_code)]

mod arithmetic;

pub mod at_risk;
pub mod bandwidth;
pub mod blame;
pub mod chunk;
pub mod decision;
pub mod drain;
pub mod elastic;
pub mod group_commit;
pub mod history;
pub mod limits;
pub mod line;
pub mod pace;
pub mod pause;
pub mod plot;
pub mod position;
pub mod rate;
pub mod reach;
pub mod readahead;
pub mod refault;
pub mod s3_fifo;
pub mod scan;
pub mod share;
pub mod shrink;
pub mod steady;
pub mod swapahead;
pub mod throttle;
pub mod watermark;
