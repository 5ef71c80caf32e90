//! The parts of a mounted folder: what each of them owns, and which others it may use.
//!
//! A part holds the parts below it and none above, so the compiler keeps the arrows pointing down:
//!
//! | part | what it does |
//! |---|---|
//! | `Source` | holds files of the source open, as many as there are descriptors to spare |
//! | `Names` | finds, makes and renames files, and describes them to the kernel |
//! | `Contents` | opens the bytes of files in the cache, and lets them go |
//! | `Allocation` | finds room in the source for what is taken into memory |
//! | `OpenFiles` | carries out the calls of open files |
//!
//! The [folder](crate::folder) owns them all.

use crate::change_gate::ChangeGate;
use crate::content::Content;
use crate::crossing::Crossings;
use crate::fd_cache::FdCache;
use crate::handles::HandleTable;
use crate::inode::{Inode, InodeTable};
use crate::reaper::{Limits, Reaper};
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

/// The files of the source that the kernel knows.
pub(crate) struct Source {
    pub(crate) rt: Rt,
    pub(crate) files: Arc<FileStore>,
    pub(crate) inodes: InodeTable,
    pub(crate) through: Descriptors,
    pub(crate) fd_cache: FdCache,
    pub(crate) reaper: Reaper,
    pub(crate) limits: Limits,
}

/// The names of files, and what the kernel is told of them.
pub(crate) struct Names {
    pub(crate) source: Arc<Source>,
    pub(crate) crossings: Crossings,
}

/// The bytes of regular files in the cache.
pub(crate) struct Contents {
    pub(crate) source: Arc<Source>,
    pub(crate) cache: Cache,
    pub(crate) store: AttachedStore,
    pub(crate) workers: Arc<WorkerPool>,
    pub(crate) change_gate: Arc<ChangeGate>,
    /// Contents that were let go although the source may not have all of them.
    pub(crate) losses: AtomicU64,
}

/// Room in the source for what is taken into memory.
pub(crate) struct Allocation {
    pub(crate) source: Arc<Source>,
    pub(crate) cache: Cache,
    /// The room of the source's file systems.
    pub(crate) rooms: Rooms,
}

/// What programs have open.
pub(crate) struct OpenFiles {
    pub(crate) source: Arc<Source>,
    pub(crate) names: Arc<Names>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) handles: HandleTable,
    pub(crate) workers: Arc<WorkerPool>,
    /// The threads that make the kernel drop pages, and wait for it.
    pub(crate) droppers: Arc<WorkerPool>,
    /// How files are opened, which depends on what the kernel offers.
    pub(crate) open_flags: OnceLock<FopenFlags>,
    /// Every write is durable when it is answered.
    pub(crate) syncs_writes: bool,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents")
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles")
            .field("handles", &self.handles)
            .finish_non_exhaustive()
    }
}

impl Source {
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
