//! Contents whose bytes the source took and then could not make durable.
//!
//! After a commit of a file has failed, the store lets no later one succeed until the file is
//! opened again: the kernel has marked its pages clean, so nobody has their bytes to write them
//! again. With such a content the file could never be synced, and the mount would never end. So it
//! is let go when nobody uses it and nothing of it is left to write, and the next open of the file
//! starts afresh. It is not let go silently: the loss is printed on standard error, counted, and
//! reported by the next sync of the file if none has reported it yet.

use crate::content::{Content, Slot};
use crate::fd_cache::InodeFd;
use crate::handles::OpenFile;
use crate::inode::Inode;
use crate::parts::Contents;
use forebay_base::sync::{Arc, atomic::Ordering};
use forebay_rt::say;
use forebay_store::Failure;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// A content without users, and what has failed.
#[derive(Debug)]
pub(crate) struct Lost {
    content: Arc<Content>,
    failure: Failure,
}

impl Contents {
    /// Takes the content out if its commits fail for ever, nobody uses it (invariant M2) and all of
    /// it was written to the source.
    pub(crate) fn take_lost(&self, slot: &mut Slot, held: &InodeFd) -> Option<Lost> {
        if slot.users > 0 {
            return None;
        }
        let content = slot.content.as_ref()?;
        let failure = self.source.files.commit_failure(content.object)?;
        // If the time cannot be set, it is that of the write-back.
        let _ = content.settle(held, &self.source.through);
        if content.is_dirty() {
            return None;
        }
        if !content.loss_is_reported() {
            slot.unreported_loss = Some(errno_of(failure));
        }
        let content = slot.content.take()?;
        Some(Lost { content, failure })
    }

    /// Lets a content go that was lost.
    pub(crate) fn let_lost_go(self: &Arc<Contents>, inode: &Arc<Inode>, lost: Lost) {
        let is_new = !lost.content.is_waived();
        self.losses.fetch_add(u64::from(is_new), Ordering::Release);
        let (contents, inode) = (self.clone(), inode.clone());
        self.source.rt.spawn("let lost go", async move {
            if is_new {
                say_loss(&inode, errno_of(lost.failure));
            }
            // Nothing of it is dirty; the cache must not ask for its commit again.
            let _ = lost.content.file.abandon().await;
            contents.source.let_go(&inode, &lost.content);
        });
    }

    /// Notes the loss of a content that another one has already replaced: no program got the error.
    pub(crate) fn record_loss(&self, inode: &Inode, errno: Errno) {
        // A caller that sees the count finds the loss at the next sync.
        inode
            .content
            .with(|slot| slot.unreported_loss = Some(errno));
        self.losses.fetch_add(1, Ordering::Release);
        say_loss(inode, errno);
    }

    /// Lets the content of a file go if it is lost, and returns whether it was.
    pub(crate) fn give_up_if_lost(self: &Arc<Contents>, inode: &Arc<Inode>) -> bool {
        let content = inode.content.get();
        let is_lost =
            content.is_some_and(|it| self.source.files.commit_failure(it.object).is_some());
        if !is_lost {
            return false;
        }
        let Ok(held) = self.source.hold(inode) else {
            return false;
        };
        let lost = inode.content.with(|slot| self.take_lost(slot, &held));
        lost.map(|lost| self.let_lost_go(inode, lost)).is_some()
    }

    /// At the end, when nothing can be written to it any more, stops asking for the commit of a
    /// content that is lost and still in use. Every sync by a program that has it open fails.
    pub(crate) fn waive_if_lost(&self, inode: &Inode) {
        let Some(content) = inode.content.get() else {
            return;
        };
        let Some(failure) = self.source.files.commit_failure(content.object) else {
            return;
        };
        if inode.content.is_in_use() && !content.is_dirty() && content.waive_commit() {
            self.losses.fetch_add(1, Ordering::Release);
            say_loss(inode, errno_of(failure));
        }
    }

    /// What a sync of `open` that ended with `synced` has to report: also a loss of an earlier
    /// content of the file that no sync has reported.
    pub(crate) fn report_loss(
        &self,
        open: &OpenFile,
        synced: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (content, inode) = (&open.used.content, &open.used.inode);
        let mut synced = synced;
        if let Some(failure) = self.source.files.commit_failure(content.object) {
            // The cache does not have the failure if the commit was waived.
            synced = synced.and(Err(errno_of(failure)));
            content.record_loss_reported();
        }
        let earlier = inode.content.with(|slot| slot.unreported_loss.take());
        synced.and(earlier.map_or(Ok(()), Err))
    }
}

fn say_loss(inode: &Inode, errno: Errno) {
    say(format_args!(
        "{}: data written since its last successful sync may be lost (error {}); check the device \
         and write it again",
        name_of(inode).display(),
        errno.raw_os_error(),
    ));
}

/// The path of a file in the folder, as far as it is known.
pub(crate) fn name_of(inode: &Inode) -> PathBuf {
    let mut names = Vec::new();
    let mut next = inode.name();
    while let Some((parent, name)) = next {
        names.push(name);
        next = parent.name();
    }
    names.iter().rev().map(Path::new).collect()
}

pub(crate) fn errno_of(failure: Failure) -> Errno {
    Errno::from_raw_os_error(failure.errno())
}
