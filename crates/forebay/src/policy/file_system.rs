//! What historic policies ask of the file system that a store stands for. Under today's policy no
//! flow asks: reclaim leaves the writing of files to the flusher.

use std::fmt;
use std::sync::Arc;

/// What a file system answers when reclaim asks for the write of one page (spec/writeback.md 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimWrites {
    /// It writes the page.
    #[default]
    Always,
    /// It writes for kswapd and leaves the page dirty for any other caller (XFS).
    KswapdOnly,
    /// It writes a page that has its place in the store. It leaves a page dirty that the file grew
    /// by and that was never written (ext4, whose allocation is delayed).
    Allocated,
    /// It leaves the page dirty (Btrfs).
    Never,
}

/// A question that can be asked at any time, from any thread: is the store congested now?
pub type CongestionSignal = Arc<dyn Fn() -> bool + Send + Sync>;

/// The answers of a file system to what only historic policies ask. A store is attached with them
/// by [`Cache::attach_past`](crate::Cache::attach_past).
///
/// ```
/// use forebay::policy::{PastFileSystem, ReclaimWrites};
/// let xfs = PastFileSystem {
///     reclaim_writes: ReclaimWrites::KswapdOnly,
///     ..PastFileSystem::default()
/// };
/// assert!(xfs.congestion.is_none(), "its queue is never said to be congested");
/// ```
#[derive(Clone, Default)]
pub struct PastFileSystem {
    /// What it answers when reclaim asks for the write of one page.
    pub reclaim_writes: ReclaimWrites,
    /// Whether so many writes are queued that callers should add none that can wait
    /// (spec/reclaim.md 5.1). It is asked after each write that is submitted and each that ends.
    /// If it is missing, the store is never congested.
    pub congestion: Option<CongestionSignal>,
    /// Pages that it writes when reclaim asks for one: that page and the dirty ones right after it,
    /// so many in all; 0 and 1 are that page alone.
    pub reclaim_run_pages: u32,
    /// Pages that it writes as one, at most: their writeback ends together. 0 if each request of
    /// the store ends for itself. Only policies with `write_depth=turns` ask.
    pub whole_turn_pages: u32,
}

impl fmt::Debug for PastFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PastFileSystem")
            .field("reclaim_writes", &self.reclaim_writes)
            .field("congestion", &self.congestion.is_some())
            .field("reclaim_run_pages", &self.reclaim_run_pages)
            .field("whole_turn_pages", &self.whole_turn_pages)
            .finish()
    }
}
