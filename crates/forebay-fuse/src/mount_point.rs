//! The place where a folder is mounted, and how the mount leaves it.
//!
//! invariant M3: only what this process has mounted there is unmounted there.

use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use fuser::SessionUnmounter;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, makedev};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The mount point, once something is mounted there.
pub(crate) struct MountPoint {
    path: PathBuf,
    /// The library's way to unmount, until it was used.
    unmounter: Mutex<Option<SessionUnmounter>>,
    /// The device of what is mounted, once it has answered.
    device: OnceLock<u64>,
    /// The mount was taken away from new users.
    is_left: AtomicBool,
}

impl fmt::Debug for MountPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MountPoint").field(&self.path).finish()
    }
}

impl MountPoint {
    pub(crate) fn new(path: &Path, unmounter: SessionUnmounter) -> Arc<MountPoint> {
        Arc::new(MountPoint {
            path: path.to_owned(),
            unmounter: Mutex::new(Some(unmounter)),
            device: OnceLock::new(),
            is_left: AtomicBool::new(false),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes note of what is mounted here, whose root is `root`, and takes over from the library
    /// if we may unmount ourselves.
    ///
    /// At the end of its session, perhaps much later, the library unmounts whatever is here then,
    /// unless it has tried before. So it is made to try now, while the system must refuse because
    /// we have the root open. A user that may not unmount uses a helper of the system, which would
    /// not refuse.
    pub(crate) fn take_over(&self, root: &Stat) {
        // This is set once.
        let _ = self.device.set(root.st_dev);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(held) = rustix::fs::open(&self.path, flags, Mode::empty()) else {
            return;
        };
        let asked = rustix::mount::unmount(&self.path, UnmountFlags::NOFOLLOW);
        if asked == Err(Errno::BUSY)
            && let Some(mut unmounter) = lock(&self.unmounter).take()
        {
            // The system refuses it, as it refused us.
            let _ = unmounter.unmount();
        }
        drop(held);
    }

    /// Unmounts what is mounted here, unless it is gone already. A program that has a file open
    /// keeps it.
    pub(crate) fn leave(&self) -> io::Result<()> {
        if self.is_elsewhere() || self.is_left.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let left = self.unmount();
        left.inspect_err(|_| self.is_left.store(false, Ordering::Release))
    }

    /// Unmounts what is mounted here and answers no more, because its connection was cut off.
    pub(crate) fn session_ended(&self) {
        // A caller that sees the end checks nothing else.
        if self.device.get().is_some() {
            let _ = self.leave();
        }
    }

    fn unmount(&self) -> io::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let unmounter = lock(&self.unmounter).take();
        match (rustix::mount::unmount(&self.path, flags), unmounter) {
            // A user other than root may use the helper of the system, as the library does.
            (Err(Errno::PERM), Some(mut unmounter)) => unmounter.unmount(),
            (other, _) => Ok(other?),
        }
    }

    /// Whether something else is here, because another program has unmounted ours. It asks nothing
    /// of the mount, which may be slow to answer.
    fn is_elsewhere(&self) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(CWD, &self.path, flags, StatxFlags::empty());
        let found = found.map(|found| makedev(found.stx_dev_major, found.stx_dev_minor));
        matches!((found, self.device.get()), (Ok(found), Some(&ours)) if found != ours)
    }
}
