//! How much is done at a time, and how much may lie around.

/// Objects that are removed with one job at most.
pub const REMOVED_AT_ONCE: usize = 256;

/// How much a store does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages that are staged at most.
    pub staged_pages: usize,
    /// Chunks that are uploaded at once at most.
    pub uploads: usize,
    /// Useless objects are removed, the oldest first, while these have more than this percentage of
    /// the bytes of those that are needed. None: they stay.
    pub dead_percent: Option<u32>,
    /// Chunks of no use that stay in any case, for those who opened the volume a little earlier.
    pub free_dead_chunks: u64,
    /// A map is made after so many records. None: when it is worth it, see
    /// [`forebay_volume::Writer::map_to_make`].
    pub map_records: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            staged_pages: 4096,
            uploads: 4,
            dead_percent: None,
            free_dead_chunks: 64,
            map_records: None,
        }
    }
}
