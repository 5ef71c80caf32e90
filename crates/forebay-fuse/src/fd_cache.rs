//! The descriptors of files that are held open, as many as there are to spare.

use crate::identity::{IDENTIFYING, Identity};
use crate::inode::Inode;
use forebay_base::sync::{Arc, Mutex, lock};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Weak;

/// Whether a call failed because no descriptor is left.
pub(crate) fn is_lacking<T>(result: &Result<T, Errno>) -> bool {
    matches!(result, Err(Errno::MFILE | Errno::NFILE))
}

/// A file, and the descriptor that names it.
#[derive(Clone, Debug)]
pub(crate) struct InodeFd {
    inode: Arc<Inode>,
    fd: Arc<OwnedFd>,
}

impl InodeFd {
    /// The descriptor, which stays open as long as this is used.
    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }
}

impl Deref for InodeFd {
    type Target = Arc<Inode>;

    fn deref(&self) -> &Arc<Inode> {
        &self.inode
    }
}

impl AsFd for InodeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The files whose descriptors may be given back; the one in front is checked first.
#[derive(Debug)]
pub(crate) struct FdCache {
    most: usize,
    line: Mutex<VecDeque<Weak<Inode>>>,
}

impl FdCache {
    /// A cache of `most` descriptors.
    pub(crate) fn new(most: usize) -> FdCache {
        FdCache {
            most,
            line: Mutex::new(VecDeque::new()),
        }
    }

    /// Puts a file in it whose descriptor is new.
    pub(crate) fn put(&self, inode: &Arc<Inode>) {
        let mut line = lock(&self.line);
        line.push_back(Arc::downgrade(inode));
        // Each is checked once, because two threads that use all of them would otherwise never end.
        for _ in 0..line.len() {
            if line.len() <= self.most {
                return;
            }
            let Some(first) = line.pop_front() else {
                return;
            };
            let Some(inode) = first.upgrade() else {
                continue;
            };
            if inode.is_used_again() {
                line.push_back(first);
            }
        }
        let surplus = line.len().saturating_sub(self.most);
        for inode in line.drain(..surplus) {
            inode.upgrade().inspect(|inode| inode.give_back());
        }
    }

    /// Gives back all that can be, because a call found no descriptor left.
    pub(crate) fn clear(&self) {
        let line = std::mem::take(&mut *lock(&self.line));
        for inode in line {
            inode.upgrade().inspect(|inode| inode.give_back());
        }
    }
}

impl Inode {
    /// The file, if its descriptor is there.
    pub(crate) fn held(self: &Arc<Inode>) -> Option<InodeFd> {
        let mut cached = lock(&self.cached_fd);
        cached.was_used = true;
        let fd = cached.present()?;
        let inode = self.clone();
        Some(InodeFd { inode, fd })
    }

    /// Whether it was used since it was last checked; if not, its descriptor is given back.
    fn is_used_again(&self) -> bool {
        if std::mem::take(&mut lock(&self.cached_fd).was_used) {
            return true;
        }
        self.give_back();
        false
    }

    fn give_back(&self) {
        let mut cached = lock(&self.cached_fd);
        if !cached.is_pinned {
            // Closing it may take a while.
            let fd = cached.fd.take();
            if let Some(fd) = &fd {
                cached.given_back = Arc::downgrade(fd);
            }
            drop(cached);
            fd.inspect(|fd| self.remember(fd));
        }
    }

    /// What it is by the descriptor that is about to be given back: later only this tells it.
    fn remember(&self, fd: impl AsFd) {
        // What the system knows is enough: nothing was said to have changed.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        // If this fails, it is found as what it was, or is stale.
        if let Ok(found) = rustix::fs::statx(fd, "", flags, IDENTIFYING) {
            self.renew_in_place(Identity::of(&found));
        }
    }

    /// The file, which was opened as `fd`.
    pub(crate) fn hold_by(self: &Arc<Inode>, fd: OwnedFd) -> InodeFd {
        let mut cached = lock(&self.cached_fd);
        // Another thread's may be there by now: all use the same one, by which the file is found
        // again.
        let fd = cached.present().unwrap_or_else(|| Arc::new(fd));
        cached.fd = Some(fd.clone());
        let inode = self.clone();
        InodeFd { inode, fd }
    }
}
