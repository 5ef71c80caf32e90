//! Opening and closing contents.
//!
//! The content of a closed file stays, with its pages and unwritten bytes, until there are more
//! contents than descriptors for them. Then those that were closed first are written and let go.

use crate::content::{Content, Slot};
use crate::fd_cache::{InodeFd, is_lacking};
use crate::handles::{Closing, ContentUse};
use crate::inode::{Inode, ROOT};
use crate::losses::errno_of;
use crate::parts::{Contents, Source};
use crate::source::Descriptors;
use forebay::BuildError;
use forebay_base::Span;
use forebay_base::sync::Arc;
use forebay_rt::wait::OwnedPermit;
use forebay_store::{Failure, OpenError, OpenMode};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use std::path::Path;

/// The pause before another attempt to let go what could not be written.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(2);

impl Contents {
    /// Uses the content of a regular file. It is opened if it is not open, for writing if asked
    /// for.
    pub(crate) fn use_content(
        self: &Arc<Contents>,
        inode: &Arc<Inode>,
        writable: bool,
    ) -> Result<ContentUse, Errno> {
        self.use_content_if(inode, writable, |_content, _has_name| true)
    }

    /// As [`Contents::use_content`], unless nobody uses it and it is not `acceptable`, which is
    /// told whether the file has a name.
    ///
    /// # Errors
    /// [`Errno::STALE`] if it is not acceptable.
    pub(crate) fn use_content_if(
        self: &Arc<Contents>,
        inode: &Arc<Inode>,
        writable: bool,
        acceptable: impl Fn(&Content, bool) -> bool,
    ) -> Result<ContentUse, Errno> {
        let held = self.source.hold_surely(inode)?;
        let use_in = |slot: &mut Slot| {
            let (content, stat) = self.content_in(slot, &held, writable)?;
            let has_name = stat.st_nlink > 0;
            let is_refused = slot.users == 0 && !acceptable(&content, has_name);
            slot.users += u32::from(!is_refused);
            Ok::<_, Errno>((content, is_refused))
        };
        // Nothing may look for spare descriptors under the lock of a content.
        let (content, is_refused) = self.source.sparing_surely(|| inode.content.with(use_in))?;
        if is_refused {
            self.clone().content_closed(inode, &content);
            return Err(Errno::STALE);
        }
        Ok(ContentUse {
            closing: self.clone(),
            inode: inode.clone(),
            content,
        })
    }

    /// The content of the slot, which is opened if it is not there, and the state of the file.
    fn content_in(
        self: &Arc<Contents>,
        slot: &mut Slot,
        inode: &InodeFd,
        writable: bool,
    ) -> Result<(Arc<Content>, Stat), Errno> {
        if let Some(lost) = self.take_lost(slot, inode) {
            self.let_lost_go(inode, lost);
        }
        // After the end of a lost content, which sets its times in the source.
        let mut stat = rustix::fs::fstat(inode)?;
        let path = Descriptors::path(inode);
        let path = Path::new(&path);
        if slot.users == 0
            && let Some(content) = &slot.content
            && let Some(changed) = content.changed_below(inode, &stat)?
        {
            stat = changed;
            if let Some(stale) = slot.content.take() {
                self.replaced(inode, stale, slot.writable);
            }
        }
        if let Some(content) = &slot.content {
            if writable && !slot.writable {
                let made = self.source.files.make_writable(content.object, path);
                made.map_err(|error| open_errno(&error))?;
                slot.writable = true;
                // An overlay has copied it up.
                content.metadata_changed(inode)?;
            }
            return Ok((content.clone(), stat));
        }
        let mode = if writable {
            OpenMode::ReadWrite
        } else {
            OpenMode::ReadOnly
        };
        let opened = self
            .source
            .files
            .open(path, mode)
            .map_err(|error| open_errno(&error))?;
        let open = |length_bytes| self.cache.open(&self.store, opened.object, length_bytes);
        let file = match open(opened.length_bytes) {
            // It has grown below just now.
            Err(BuildError::WrongLength { stored_bytes, .. }) => open(stored_bytes),
            other => other,
        };
        let file = file.map_err(|error| {
            self.source.files.forget(opened.object);
            build_errno(&error)
        })?;
        let content = Arc::new(Content::new(opened.object, file, &stat));
        slot.content = Some(content.clone());
        slot.writable = writable;
        if writable {
            content.metadata_changed(inode)?;
        }
        Ok((content, stat))
    }

    /// Closes a content that the next user replaces by another, because the file was changed below.
    /// If it was written to, the store owes a commit, and the file has to stay open until the
    /// commit has succeeded or failed for good: the system reports a failure once, so a later try
    /// would find nothing wrong.
    fn replaced(
        self: &Arc<Contents>,
        inode: &Arc<Inode>,
        content: Arc<Content>,
        was_writable: bool,
    ) {
        if !was_writable {
            self.source.files.forget(content.object);
            return;
        }
        let (contents, inode) = (self.clone(), inode.clone());
        // The end of the mount waits for it, unless the end has begun.
        let inside = self.change_gate.enter();
        self.workers.leave(Box::new(move || {
            let committed = contents.source.commit_beside(&inode, true);
            if let Err(errno) = committed {
                contents.record_loss(&inode, errno);
            }
            drop(inside);
            let giving_up = contents.clone();
            contents.source.rt.spawn("give up", async move {
                // A commit that was under way learns of an error that another caller got before us.
                let failure = giving_up.give_up(&content).await;
                if let (Ok(()), Some(failure)) = (committed, failure) {
                    giving_up.record_loss(&inode, errno_of(failure));
                }
            });
        }));
    }

    /// Gives up a content that nobody uses: what is dirty of it is dropped, and what the store owes
    /// is no longer asked for. A sync would be wrong: it may restore a length that another program
    /// has changed since. Returns why the store could not commit it, if it could not.
    async fn give_up(&self, content: &Content) -> Option<Failure> {
        // Until then it stays open: a write that is under way could not end in a closed file.
        while content.file.abandon().await.is_err() {
            self.source.rt.sleep(RETRY_AFTER).await;
        }
        // A commit that has begun still needs the file, and no further one is needed. The sync that
        // asked for it reports how it ended.
        let _ = content.file.sync().await;
        let failure = self.source.files.commit_failure(content.object);
        self.source.files.forget(content.object);
        failure
    }

    /// The kernel no longer knows a file whose content is here.
    pub(crate) fn forgotten(self: &Arc<Contents>, inode: &Arc<Inode>) {
        if !inode.content.is_in_use() && self.is_nameless(inode) {
            self.discard(inode);
        }
    }

    /// Drops the content of a file that has no name any more and that nobody can open.
    fn discard(self: &Arc<Contents>, inode: &Arc<Inode>) {
        let (contents, inode) = (self.clone(), inode.clone());
        self.source.begin("discard", async move {
            if let Some(content) = inode.content.take_unused() {
                // Nobody can open it, so nobody needs the answer.
                contents.give_up(&content).await;
            }
            contents.source.inodes.content_gone(&inode);
        });
    }

    /// Writes the content of a closed file and lets it go. `_permit` bounds how many do so.
    pub(crate) async fn retire(self: Arc<Contents>, inode: Arc<Inode>, _permit: OwnedPermit) {
        inode.content.with(|slot| slot.in_line = false);
        let Some(content) = inode.content.get() else {
            return;
        };
        if inode.content.is_in_use() {
            return;
        }
        let synced = content.file.sync().await.is_ok();
        if self.give_up_if_lost(&inode) {
            return;
        }
        let settled = synced && self.source.settle(&content).is_ok();
        // What is written may be settled and not durable.
        if synced && let Some(content) = inode.content.take_settled() {
            self.source.let_go(&inode, &content);
            return;
        }
        if !settled {
            self.source.rt.sleep(RETRY_AFTER).await;
        }
        let joins = inode.content.with(|slot| {
            slot.users == 0 && slot.content.is_some() && !std::mem::replace(&mut slot.in_line, true)
        });
        if joins {
            self.source
                .reaper
                .closed(&inode, true, false, self.source.limits);
        }
    }

    /// Whether a file has lost its last name.
    fn is_nameless(&self, inode: &Arc<Inode>) -> bool {
        let content = inode.content.get();
        if content.as_ref().is_some_and(|it| !it.names_count) {
            return false;
        }
        let stat = match content.and_then(|it| self.source.files.lend(it.object)) {
            Some(file) => rustix::fs::fstat(file),
            None => self.source.hold(inode).and_then(rustix::fs::fstat),
        };
        stat.is_ok_and(|stat| stat.st_nlink == 0)
    }
}

impl Closing for Contents {
    fn content_closed(self: Arc<Contents>, inode: &Arc<Inode>, content: &Content) {
        // If the time cannot be taken now, it is taken when the content is settled.
        let _ = self.source.take_times(content);
        // The kernel can reopen a file that it knows, through a descriptor that only names it.
        if self.is_nameless(inode) && !self.source.inodes.is_known(inode) {
            self.discard(inode);
            return;
        }
        if self.give_up_if_lost(inode) {
            return;
        }
        let joins = inode
            .content
            .with(|slot| !std::mem::replace(&mut slot.in_line, true));
        self.source
            .reaper
            .closed(inode, joins, !content.is_settled(), self.source.limits);
    }
}

impl Source {
    /// Opens the file below for calls that neither read nor write its bytes.
    pub(crate) fn open_beside(&self, inode: &Arc<Inode>) -> Result<OwnedFd, Errno> {
        let held = self.hold_surely(inode)?;
        let open = |flags| self.sparing_surely(|| self.through.open(&held, flags));
        let opened = open(OFlags::RDONLY);
        if opened.is_ok() || is_lacking(&opened) {
            return opened;
        }
        // We may be allowed to open it for writing only.
        open(OFlags::WRONLY)
    }

    /// Makes durable what the source has of a file, by a descriptor that bypasses the cache: only
    /// the bytes if `data_only`.
    pub(crate) fn commit_beside(&self, inode: &Arc<Inode>, data_only: bool) -> Result<(), Errno> {
        match self.open_beside(inode) {
            Ok(fd) if data_only => rustix::fs::fdatasync(fd),
            Ok(fd) => rustix::fs::fsync(fd),
            // It was opened before its owner forbade that to everyone.
            Err(Errno::ACCESS) => self.commit_all(inode),
            Err(errno) => Err(errno),
        }
    }

    /// Makes durable what the source's file system has of all files, and so of this one that cannot
    /// be opened.
    fn commit_all(&self, inode: &Inode) -> Result<(), Errno> {
        let root = self.held(ROOT)?;
        if inode.identity().place.device != root.identity().place.device {
            // Its own file system may have no folder that we may open.
            return Err(Errno::ACCESS);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = self.sparing_surely(|| self.through.open(&root, flags))?;
        rustix::fs::syncfs(folder)
    }
}

fn open_errno(error: &OpenError) -> Errno {
    match error {
        OpenError::NotFound(_) => Errno::NOENT,
        OpenError::NotPermitted(_) => Errno::ACCESS,
        OpenError::ReadOnly(_) => Errno::ROFS,
        OpenError::WrongKind { .. } => Errno::INVAL,
        OpenError::NoSpace(_) => Errno::NOSPC,
        OpenError::Closing(_) => Errno::BUSY,
        OpenError::Refused { errno, .. } => Errno::from_raw_os_error(*errno),
    }
}

fn build_errno(error: &BuildError) -> Errno {
    match error {
        BuildError::TooManyObjects { .. } => Errno::NFILE,
        BuildError::TooLong { .. } => Errno::FBIG,
        BuildError::Closed => Errno::SHUTDOWN,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests;
