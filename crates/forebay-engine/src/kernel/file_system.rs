//! What older kernels ask of the file system that a store stands for. No flow of today asks:
//! reclaim leaves the writing of files to the flusher.

use forebay_rt::wait::Gate;
use forebay_store::ObjectId;
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

/// The inodes that a file system keeps in memory beside the pages of its files. Policies with
/// `closed_files=awaited` ask it for those that nobody uses.
///
/// It is called while reclaim runs, so it must not wait, nor take a lock that its owner holds
/// across a call on the page cache. What has to be waited for is a gate in its answer.
///
/// ```
/// use forebay_engine::kernel::{GivenUp, InodeCache};
/// use forebay_store::ObjectId;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Inodes that differ from the disk in nothing.
/// #[derive(Default)]
/// struct Clean(AtomicU64);
///
/// impl InodeCache for Clean {
///     fn unused(&self) -> u64 {
///         self.0.load(Ordering::Relaxed)
///     }
///
///     fn retire(&self, _file: ObjectId) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///
///     fn give_up(&self, count: u64) -> GivenUp {
///         let gone = count.min(self.0.load(Ordering::Relaxed));
///         self.0.fetch_sub(gone, Ordering::Relaxed);
///         GivenUp { gone, writing: None }
///     }
/// }
///
/// let inodes = Clean::default();
/// inodes.retire(ObjectId(7));
/// assert_eq!(inodes.give_up(128).gone, 1);
/// ```
pub trait InodeCache: Send + Sync {
    /// Inodes that could be given up: nobody has the file open, and it has no pages.
    fn unused(&self) -> u64;

    /// Reclaim took the pages of `file`, which nobody has open: its inode is of no use here.
    fn retire(&self, file: ObjectId);

    /// Gives up `count` inodes at most.
    fn give_up(&self, count: u64) -> GivenUp;
}

/// What became of the inodes that reclaim asked for.
#[derive(Debug)]
pub struct GivenUp {
    /// So many are gone.
    pub gone: u64,
    /// The next one differs from the disk. The gate opens when it is written.
    pub writing: Option<Arc<Gate>>,
}

/// The answers of a file system to what only historic policies ask. A store is attached with them
/// by [`LabCache::attach_past`](crate::lab::LabCache::attach_past).
///
/// ```
/// use forebay_engine::kernel::{PastFileSystem, ReclaimWrites};
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
    /// The inodes that it keeps in memory, if reclaimers have to wait for them. Only policies with
    /// `closed_files=awaited` ask.
    pub inodes: Option<Arc<dyn InodeCache>>,
}

impl fmt::Debug for PastFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PastFileSystem")
            .field("reclaim_writes", &self.reclaim_writes)
            .field("congestion", &self.congestion.is_some())
            .field("reclaim_run_pages", &self.reclaim_run_pages)
            .field("whole_turn_pages", &self.whole_turn_pages)
            .field("inodes", &self.inodes.is_some())
            .finish()
    }
}
