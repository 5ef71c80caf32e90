//! The mounted folder: everything that its requests share.

use crate::buffers::Buffers;
use crate::change_gate::ChangeGate;
use crate::content::Content;
use crate::crew::Crew;
use crate::crossing::Crossings;
use crate::handles::HandleTable;
use crate::held::Shelf;
use crate::inode::{Inode, InodeTable};
use crate::keeper::Keeper;
use crate::refusals::Refusals;
use crate::room::Rooms;
use crate::shares::Shares;
use crate::source::Descriptors;
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

/// How much may be held for files that are not open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Files that are held open by their path.
    pub(crate) held: usize,
    /// Contents of closed files.
    pub(crate) closed_contents: usize,
    /// Files that the kernel knows before it is asked to forget some.
    pub(crate) inodes: usize,
}

impl Limits {
    /// Shares of the descriptors that the process may open, and of its memory.
    pub(crate) fn of(descriptors: u64, shares: &Shares) -> Limits {
        /// Those that the server needs for itself, and for a few open files.
        const RESERVED: usize = 96;
        let descriptors = descriptors.min(1 << 20) as usize;
        // Each takes two. An eighth holds names; what is left is for open files.
        let contents = descriptors.saturating_sub(RESERVED) * 3 / 8;
        Limits {
            held: (descriptors / 8).clamp(16, 4_096),
            closed_contents: contents.min(shares.objects() as usize / 4 * 3).max(16),
            inodes: shares.names() as usize,
        }
    }
}

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
    pub(crate) crew: Arc<Crew>,
    /// The threads that make the kernel drop pages, and wait for it.
    pub(crate) droppers: Arc<Crew>,
    pub(crate) change_gate: Arc<ChangeGate>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) keeper: Keeper,
    pub(crate) shelf: Shelf,
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
        self.keeper.spared.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_closed_files_leaves_descriptors_for_open_ones() {
        let shares = Shares::of(1 << 40);
        for descriptors in [128_usize, 256, 1024, 20_000, 1 << 20] {
            let limits = Limits::of(descriptors as u64, &shares);
            let kept = limits.held + 2 * limits.closed_contents;
            let left = descriptors - kept;
            assert!(left >= descriptors / 16 + 64, "{left} of {descriptors}");
        }
        let limits = Limits::of(1 << 20, &Shares::of(64 << 20));
        let objects = Shares::of(64 << 20).objects() as usize;
        assert!(limits.closed_contents < objects, "and memory");
    }
}
