//! The mounted folder: its parts, and what else its requests share.

use crate::buffers::Buffers;
use crate::crossing::Crossings;
use crate::fd_cache::FdCache;
use crate::handles::HandleTable;
use crate::identity::identity_of;
use crate::inode::InodeTable;
use crate::parts::{Allocation, Contents, Names, OpenFiles, Source};
use crate::reaper::{Limits, Reaper};
use crate::refusals::Refusals;
use crate::room::Rooms;
use crate::settings::{MountError, MountParts, MountSettings};
use crate::source::Descriptors;
use crate::worker_pool::WorkerPool;
use forebay_base::sync::{Arc, atomic::AtomicU64};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt;
use std::sync::OnceLock;

/// What the requests share.
pub(crate) struct Folder {
    pub(crate) source: Arc<Source>,
    pub(crate) names: Arc<Names>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) workers: Arc<WorkerPool>,
    pub(crate) buffers: Arc<Buffers>,
    /// Bytes of one request at most.
    pub(crate) request_bytes: u32,
    /// What programs were answered with an error.
    pub(crate) refusals: Arc<Refusals>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("limits", &self.source.limits)
            .finish_non_exhaustive()
    }
}

/// The threads of a mount that do not read the kernel's requests.
pub(crate) struct Pools {
    pub(crate) workers: Arc<WorkerPool>,
    /// Those that make the kernel drop pages, and wait for it.
    pub(crate) droppers: Arc<WorkerPool>,
}

impl Folder {
    /// The folder `source`.
    pub(crate) fn new(
        settings: &MountSettings,
        parts: MountParts,
        source: &OwnedFd,
        pools: Pools,
        limits: Limits,
    ) -> Result<Arc<Folder>, MountError> {
        let failed = |errno: Errno| MountError::Source {
            path: settings.source.clone(),
            source: errno.into(),
        };
        let through = Descriptors::new().map_err(|errno| MountError::System {
            action: "open /proc/self/fd",
            source: errno.into(),
        })?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = through.open(source, flags).map_err(failed)?;
        let identity = identity_of(&root).map_err(failed)?;
        let crossings = Crossings::below(&root);
        let source = Arc::new(Source {
            rt: parts.rt,
            files: parts.files,
            inodes: InodeTable::new(root, identity),
            through,
            fd_cache: FdCache::new(limits.held),
            reaper: Reaper::new(),
            limits,
        });
        let names = Arc::new(Names {
            source: source.clone(),
            crossings,
        });
        let allocation = Arc::new(Allocation {
            source: source.clone(),
            cache: parts.cache.clone(),
            rooms: Rooms::new(settings.source.clone()),
        });
        let contents = Arc::new(Contents {
            source: source.clone(),
            cache: parts.cache,
            store: parts.store,
            workers: pools.workers.clone(),
            change_gate: Arc::default(),
            losses: AtomicU64::new(0),
        });
        let open_files = Arc::new(OpenFiles {
            source: source.clone(),
            names: names.clone(),
            contents: contents.clone(),
            allocation: allocation.clone(),
            handles: HandleTable::default(),
            workers: pools.workers.clone(),
            droppers: pools.droppers,
            open_flags: OnceLock::new(),
            syncs_writes: settings.flags.sync,
        });
        Ok(Arc::new(Folder {
            source,
            names,
            contents,
            allocation,
            open_files,
            workers: pools.workers,
            buffers: Arc::new(Buffers::new(settings.shares.request_bytes() as usize)),
            request_bytes: settings.shares.request_bytes(),
            refusals: Arc::new(Refusals::new()),
        }))
    }
}
