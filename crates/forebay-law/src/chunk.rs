//! How many pages of one file the flusher writes before it turns to the next.
//!
//! # Question
//!
//! How much of one file is written in one turn, so that a disk writes long runs and a large file
//! does not keep the others waiting?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `average_pages_per_s` | pages/s | 0 and up | the bandwidth law |
//! | `dirty_limit` | pages | 0 and up | the limits law |
//! | `remaining_pages` | pages | 0 and up | the flusher's work |
//! | chunk | pages | a multiple of 1024, at least one | output |
//!
//! # Formula
//!
//! ```text
//! chunk = (min(average / 2, dirty_limit / 8, remaining) + 1024) rounded down to 1024s
//! ```
//!
//! # Conditions
//!
//! 1. A chunk is a multiple of 1024 pages and at least 1024.
//! 2. It exceeds half a second of bandwidth, and an eighth of the limit, by no more than 1024
//!    pages.
//! 3. It never shrinks as any of its inputs grows.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/chunk.svg")]
//!
//! The chunk over the bandwidth, with a dirty limit of 200 000 pages. It is held at an eighth of
//! the limit.
//!
//! # Example
//!
//! A disk of 100 MB/s with a limit of 200 000 pages writes 13 312 pages (52 MiB) of a file in a
//! turn: half a second of its time.
//!
//! ```
//! use forebay_law::chunk::write_chunk;
//!
//! assert_eq!(write_chunk(25_600, 200_000, u64::MAX), 13_312);
//! ```
//!
//! # Why not the simpler one
//!
//! 4 MiB at a time make a fast array seek between files all day. A whole file at a time lets one
//! that grows keep every other file dirty past its age.
//!
//! # Edges
//!
//! Work with less than 4 MiB left still gets a chunk of 4 MiB: it ends by itself. Syncs have no
//! chunk; the caller does not ask for one.
//!
//! # Lineage
//!
//! Linux: chunks by bandwidth (3.1); a fixed 4 MiB before.

/// The least the flusher writes of a file at once, and the grain of the chunk: 4 MiB.
pub const MIN_WRITEBACK_PAGES: u64 = 1024;

/// The part of the dirty limit that one chunk may cover.
const DIRTY_SCOPE: u64 = 8;

/// Pages to write of one file in one turn; `remaining_pages` is what is left of the whole work.
pub fn write_chunk(average_pages_per_s: u64, dirty_limit: u64, remaining_pages: u64) -> u64 {
    let pages = (average_pages_per_s / 2)
        .min(dirty_limit / DIRTY_SCOPE)
        .min(remaining_pages);
    (pages / MIN_WRITEBACK_PAGES + 1).saturating_mul(MIN_WRITEBACK_PAGES)
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
