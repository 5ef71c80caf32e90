//! The mounted folder: everything that its requests share.

use crate::buffers::Buffers;
use crate::change_gate::ChangeGate;
use crate::content::Content;
use crate::crossing::Crossings;
use crate::fd_cache::FdCache;
use crate::handles::HandleTable;
use crate::inode::{Inode, InodeTable};
use crate::reaper::{Limits, Reaper};
use crate::refusals::Refusals;
use crate::room::Rooms;
use crate::source::Descriptors;
use crate::worker_pool::WorkerPool;
use forebay::{AttachedStore, Cache};
use forebay_base::sync::{Arc, atomic::AtomicU64};
use forebay_rt::Rt;
use forebay_store::FileStore;
use fuser::FopenFlags;
use rustix::io::Errno;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Waker};

/// What the requests share.
pub(crate) struct Folder {
    pub(crate) rt: Rt,
    pub(crate) cache: Cache,
    pub(crate) store: AttachedStore,
    pub(crate) files: Arc<FileStore>,
    pub(crate) inodes: InodeTable,
    pub(crate) crossings: Crossings,
    pub(crate) handles: HandleTable,
    pub(crate) through: Descriptors,
    pub(crate) workers: Arc<WorkerPool>,
    /// The threads that make the kernel drop pages, and wait for it.
    pub(crate) droppers: Arc<WorkerPool>,
    pub(crate) change_gate: Arc<ChangeGate>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) reaper: Reaper,
    pub(crate) fd_cache: FdCache,
    pub(crate) limits: Limits,
    /// Bytes of one request at most.
    pub(crate) request_bytes: u32,
    /// The room of the source's file systems.
    pub(crate) rooms: Rooms,
    /// Contents that were let go although the source may not have all of them.
    pub(crate) losses: AtomicU64,
    /// What programs were answered with an error.
    pub(crate) refusals: Arc<Refusals>,
    /// How files are opened, which depends on what the kernel offers.
    pub(crate) open_flags: OnceLock<FopenFlags>,
    /// Every write is durable when it is answered.
    pub(crate) syncs_writes: bool,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Folder {
    /// The file that the kernel knows as `id`.
    pub(crate) fn inode(&self, id: u64) -> Result<Arc<Inode>, Errno> {
        self.inodes.get(id).ok_or(Errno::STALE)
    }

    /// Drives `work` here as far as it gets without waiting, and leaves the rest to a task `name`.
    pub(crate) fn begin(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
        // This poll needs no wake-up: if the future waits, its task polls it again.
        let mut context = Context::from_waker(Waker::noop());
        if work.as_mut().poll(&mut context).is_pending() {
            self.rt.spawn(name, work);
        }
    }

    /// Lets a content go that nobody uses.
    pub(crate) fn let_go(&self, inode: &Inode, content: &Content) {
        self.files.forget(content.object);
        self.inodes.content_gone(inode);
        self.reaper.spared.wake_all();
    }
}
