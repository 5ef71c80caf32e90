//! Files that are held open, as many as there are descriptors to spare.
//!
//! A file that is asked about is held by an `O_PATH` descriptor: it names the file itself, even if
//! its names change. The descriptors of the files that were not asked about for longest are given
//! back. Such a file is found again through a user of the old descriptor, such as an open folder,
//! or through its content, if that is open, or else by its name in its folder, and only if it still
//! is the same file. A file that was moved in the source behind our back is stale until the kernel
//! looks it up again.
//!
//! invariant M4: a file without content that lost the name by which it would be found again keeps
//! its descriptor until it is looked up by another one.

use crate::content::Content;
use crate::fd_cache::{InodeFd, is_lacking};
use crate::identity::{Identity, identity_of};
use crate::inode::Inode;
use crate::parts::Source;
use crate::reaper::RETIRING;
use crate::source::PATH_ONLY;
use forebay_base::Span;
use forebay_base::sync::{Arc, lock};
use forebay_rt::wait::Slot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;

/// How long a request waits for a descriptor while there are contents to let go. A journal on a
/// busy disk may need much of it.
const LONGEST_WAIT: Span = Span::from_secs(30);

/// How long it waits when programs have open all that is left: other requests need descriptors only
/// for a moment, and on a busy machine a moment may be long.
const WAIT_FOR_REQUESTS: Span = Span::from_millis(500);

/// Descriptors of other requests, and of files that are closed, become free without a message.
const LOOK_AGAIN: Span = Span::from_millis(20);

/// How a file is held: [`Source::hold`] or [`Source::hold_surely`].
pub(crate) type Hold = fn(&Source, &Arc<Inode>) -> Result<InodeFd, Errno>;

/// Folders of folders through which a file is found; more are a circle.
const DEEPEST: usize = 1 << 16;

impl Source {
    /// The file that the kernel knows as `id`, held open for a request.
    pub(crate) fn held(&self, id: u64) -> Result<InodeFd, Errno> {
        self.hold_surely(&self.inode(id)?)
    }

    /// Holds a file open for a request, which waits for a descriptor as in
    /// [`Source::sparing_surely`].
    pub(crate) fn hold_surely(&self, inode: &Arc<Inode>) -> Result<InodeFd, Errno> {
        self.sparing_surely(|| self.hold(inode))
    }

    /// Holds a file open. It must not be called under the lock of the file's content.
    pub(crate) fn hold(&self, inode: &Arc<Inode>) -> Result<InodeFd, Errno> {
        if let Some(held) = inode.held() {
            return Ok(held);
        }
        // The folders on the way that have to be opened first, the nearest in front.
        let mut way = vec![inode.clone()];
        let mut start = None;
        while let Some(last) = way.last() {
            if let Some(fd) = self.through_content(last)? {
                start = Some(self.keep_open(last, fd));
                way.pop();
                break;
            }
            let (parent, _) = last.name().ok_or(Errno::STALE)?;
            // Its name may have been changed since it was forgotten and found again.
            let parent = self.inodes.successor(&parent).unwrap_or(parent);
            start = parent.held();
            if start.is_some() {
                break;
            }
            if way.len() >= DEEPEST {
                return Err(Errno::STALE);
            }
            way.push(parent);
        }
        let mut held = start;
        while let Some(next) = way.pop() {
            let parent = held.ok_or(Errno::STALE)?;
            held = Some(self.hold_in(&parent, &next)?);
        }
        held.ok_or(Errno::STALE)
    }

    fn keep_open(&self, inode: &Arc<Inode>, fd: OwnedFd) -> InodeFd {
        let held = inode.hold_by(fd);
        self.fd_cache.put(inode);
        held
    }

    /// Opens a file by its name in the folder `parent`, if it still is that file.
    fn hold_in(&self, parent: &InodeFd, inode: &Arc<Inode>) -> Result<InodeFd, Errno> {
        let (_, name) = inode.name().ok_or(Errno::STALE)?;
        let opened = self.sparing(|| {
            let flags = PATH_ONLY;
            rustix::fs::openat(parent.as_fd(), &*name, flags, Mode::empty())
        });
        let fd = opened.map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => Errno::STALE,
            other => other,
        })?;
        let found = identity_of(&fd)?;
        if found != inode.identity() {
            if !self.is_still(inode, &found, parent) {
                return Err(Errno::STALE);
            }
            self.inodes.renew(inode, found);
        }
        Ok(self.keep_open(inode, fd))
    }

    /// Whether `inode`, which was found as `found` in the folder `parent`, is still the same file,
    /// though that is not how it was known.
    pub(crate) fn is_still(&self, inode: &Inode, found: &Identity, parent: impl AsFd) -> bool {
        match self.witnessed(inode) {
            Some(now) => now == *found,
            None => found.may_have_been(&inode.identity(), births_change(parent)),
        }
    }

    /// What the file is now, by a descriptor that holds it.
    fn witnessed(&self, inode: &Inode) -> Option<Identity> {
        let content = inode.content.get();
        if let Some(file) = content.and_then(|it| self.files.lend(it.object)) {
            return identity_of(file).ok();
        }
        let held = lock(&inode.cached_fd).present();
        held.and_then(|fd| identity_of(&*fd).ok())
    }

    /// Opens a file through its content, if it has one, even if it has lost its names.
    fn through_content(&self, inode: &Inode) -> Result<Option<OwnedFd>, Errno> {
        let Some(content) = inode.content.get() else {
            return Ok(None);
        };
        let named = || self.files.named(content.object);
        let opened = self.sparing(|| {
            named().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::STALE))
        });
        if is_lacking(&opened) {
            // Its name may be gone: without it the file would seem to be stale.
            return opened.map(Some);
        }
        Ok(opened.ok())
    }

    /// Runs a call that takes a descriptor. If none is left, gives back those that it can and runs
    /// the call once more.
    pub(crate) fn sparing<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let first = attempt();
        if !is_lacking(&first) {
            return first;
        }
        self.spare();
        attempt()
    }

    /// As [`Source::sparing`], and waits for contents of closed files to be written, and for other
    /// requests, if nothing else helps. Not for tasks, because that wait may be for them.
    pub(crate) fn sparing_surely<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let first = self.sparing(&mut attempt);
        if !is_lacking(&first) {
            return first;
        }
        let began = self.rt.now();
        let mut last_hope = began;
        loop {
            let spared = self.reaper.spared.listen();
            let is_spared = self.spare_by_writing();
            // Others may take the spared descriptors.
            let last = self.sparing(&mut attempt);
            if !is_lacking(&last) {
                return last;
            }
            let now = self.rt.now();
            if is_spared || self.reaper.is_retiring() {
                last_hope = now;
            }
            if now.since(last_hope) >= WAIT_FOR_REQUESTS || now.since(began) >= LONGEST_WAIT {
                return last;
            }
            // A message or a timeout: both lead to another attempt.
            let _ = forebay_rt::block_on(self.rt.timeout(LOOK_AGAIN, spared));
        }
    }

    /// Gives back the descriptors that it can: those of files that nothing asks about, and of
    /// contents that nobody uses and that the source has whole.
    pub(crate) fn spare(&self) {
        self.fd_cache.clear();
        self.reaper.descriptors_missing();
        for inode in self.reaper.closed_files() {
            self.let_go_if_settled(&inode);
        }
    }

    /// Writes contents that nobody uses, the first closed first, until some were let go. Returns
    /// whether any was.
    fn spare_by_writing(&self) -> bool {
        let mut unused = self.reaper.closed_files();
        unused.retain(|inode| !inode.content.is_in_use());
        // One is enough for the caller.
        unused.chunks(RETIRING).any(|inodes| {
            let spared = inodes.iter().zip(self.sync_side_by_side(inodes));
            let spared = spared.filter(|(inode, is_synced)| {
                let content = inode.content.get();
                let settled = content.map_or(Ok(()), |it| self.settle(&it));
                *is_synced && settled.is_ok() && self.let_go_if_settled(inode)
            });
            spared.count() > 0
        })
    }

    /// Sets the times of a content in the source, if that has all bytes. It takes no descriptor, or
    /// a lack of them would keep contents from being let go, which would end it.
    pub(crate) fn settle(&self, content: &Content) -> Result<(), Errno> {
        let file = self.files.lend(content.object).ok_or(Errno::STALE)?;
        content.settle(file, &self.through)
    }

    /// Makes contents durable at the same time, because a journal then commits them together.
    /// Returns which of them are.
    pub(crate) fn sync_side_by_side(&self, inodes: &[Arc<Inode>]) -> Vec<bool> {
        let syncs = inodes.iter().map(|inode| {
            let (content, outcome) = (inode.content.get(), Arc::new(Slot::new()));
            let reported = outcome.clone();
            self.rt.spawn("spare", async move {
                // The cache reports a failure to the next sync of the file.
                let is_synced = match content {
                    Some(content) => content.file.sync().await.is_ok(),
                    None => false,
                };
                reported.set(is_synced);
            });
            outcome
        });
        let outcomes: Vec<_> = syncs.collect();
        forebay_rt::block_on(async {
            let mut synced = Vec::with_capacity(outcomes.len());
            for outcome in outcomes {
                synced.push(outcome.take().await);
            }
            synced
        })
    }

    /// Lets the content of a file go if nobody uses it and the source has all of it.
    pub(crate) fn let_go_if_settled(&self, inode: &Inode) -> bool {
        let content = inode.content.take_settled();
        content.inspect(|it| self.let_go(inode, it)).is_some()
    }

    /// Keeps the descriptor of a file that is about to lose its name or get another (invariant M4).
    pub(crate) fn pin(&self, inode: &Arc<Inode>) {
        if let Ok(held) = self.hold_surely(inode) {
            let mut cached = lock(&inode.cached_fd);
            cached.is_pinned = true;
            cached.fd = Some(held.fd());
        }
    }

    /// The file can be found by its name again.
    pub(crate) fn unpin(&self, inode: &Arc<Inode>) {
        let was_pinned = std::mem::replace(&mut lock(&inode.cached_fd).is_pinned, false);
        if was_pinned {
            self.fd_cache.put(inode);
        }
    }
}

/// Whether the file system of `fd` gives a file another time of birth when it is first changed: an
/// overlay, which then makes a copy.
fn births_change(fd: impl AsFd) -> bool {
    const OVERLAY: u32 = 0x794c_7630;
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type as u32 == OVERLAY)
}

#[cfg(test)]
#[path = "holding_tests.rs"]
mod tests;
