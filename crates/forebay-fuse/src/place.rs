//! The place where a folder is mounted, and how it is left.
//!
//! invariant M3: nothing is unmounted there but what this process has mounted.

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

/// The place, from when something is mounted there.
pub(crate) struct Place {
    path: PathBuf,
    /// The library's way to unmount, until it was gone.
    unmounter: Mutex<Option<SessionUnmounter>>,
    /// The device of what is mounted, once it has answered.
    device: OnceLock<u64>,
    /// Taken away from new users.
    is_left: AtomicBool,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.path).finish()
    }
}

impl Place {
    pub(crate) fn new(path: &Path, unmounter: SessionUnmounter) -> Arc<Place> {
        Arc::new(Place {
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
    /// At the end of its session, which may come long after, the library unmounts whatever is here
    /// then, unless it was asked to before. So it is asked while it can only be refused: we have
    /// the root open. Who may not unmount has a helper of the system that it asks, which would.
    pub(crate) fn take_over(&self, root: &Stat) {
        // It is told once.
        let _ = self.device.set(root.st_dev);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(held) = rustix::fs::open(&self.path, flags, Mode::empty()) else {
            return;
        };
        let asked = rustix::mount::unmount(&self.path, UnmountFlags::NOFOLLOW);
        if asked == Err(Errno::BUSY)
            && let Some(mut unmounter) = lock(&self.unmounter).take()
        {
            // It is refused as we were.
            let _ = unmounter.unmount();
        }
        drop(held);
    }

    /// Unmounts what is mounted here, unless it is away already. Who has a file open keeps it.
    pub(crate) fn leave(&self) -> io::Result<()> {
        if self.is_elsewhere() || self.is_left.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let left = self.unmount();
        left.inspect_err(|_| self.is_left.store(false, Ordering::Release))
    }

    /// Unmounts what is mounted here and answers no more, because its connection was cut off.
    pub(crate) fn session_ended(&self) {
        // Who is told of the end looks no further.
        if self.device.get().is_some() {
            let _ = self.leave();
        }
    }

    fn unmount(&self) -> io::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let unmounter = lock(&self.unmounter).take();
        match (rustix::mount::unmount(&self.path, flags), unmounter) {
            // Who is not root may ask the helper of the system, which the library does.
            (Err(Errno::PERM), Some(mut unmounter)) => unmounter.unmount(),
            (other, _) => Ok(other?),
        }
    }

    /// Whether something else is here, because somebody has unmounted what was. It asks nothing of
    /// the mount, which may be slow to answer.
    fn is_elsewhere(&self) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(CWD, &self.path, flags, StatxFlags::empty());
        let found = found.map(|found| makedev(found.stx_dev_major, found.stx_dev_minor));
        matches!((found, self.device.get()), (Ok(found), Some(&ours)) if found != ours)
    }
}
