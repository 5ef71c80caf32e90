//! How many pages of one file the flusher writes before it turns to the next.

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
