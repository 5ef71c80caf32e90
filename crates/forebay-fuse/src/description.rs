//! What the mount reports to the kernel about a file: the source's attributes, except where the
//! cache has newer ones.

use crate::attributes::attributes;
use crate::content::Content;
use crate::fd_cache::InodeFd;
use crate::holding::Hold;
use crate::inode::Inode;
use crate::parts::{Names, Source};
use forebay_base::sync::Arc;
use fuser::{FileAttr, FileType};
use rustix::fs::Stat;
use rustix::io::Errno;

impl Source {
    /// Something of the file other than its bytes has changed: it gets a new time of change.
    pub(crate) fn metadata_changed(&self, inode: &Arc<Inode>) -> Result<(), Errno> {
        if let Some(content) = inode.content.get() {
            content.metadata_changed(self.hold_surely(inode)?)?;
        }
        Ok(())
    }

    /// Takes the time of what was written, if there is one to take. It needs no descriptor.
    pub(crate) fn take_times(&self, content: &Content) -> Result<(), Errno> {
        if !content.is_modified() {
            return Ok(());
        }
        let file = self.files.lend(content.object).ok_or(Errno::STALE)?;
        content.take_times(file, &self.through)
    }
}

impl Names {
    /// What the mount reports to the kernel about a file.
    pub(crate) fn describe(&self, held: &InodeFd) -> Result<FileAttr, Errno> {
        let stat = rustix::fs::fstat(held)?;
        self.describe_as(held, stat, || Ok(held.clone()))
    }

    /// What the mount reports of a file that was just found as in `stat`. It is held by `hold`, if
    /// it has to be.
    pub(crate) fn describe_found(
        &self,
        inode: &Arc<Inode>,
        stat: Stat,
        hold: Hold,
    ) -> Result<FileAttr, Errno> {
        self.describe_as(inode, stat, || hold(&self.source, inode))
    }

    fn describe_as(
        &self,
        inode: &Inode,
        mut stat: Stat,
        hold: impl FnOnce() -> Result<InodeFd, Errno>,
    ) -> Result<FileAttr, Errno> {
        if inode.kind == FileType::RegularFile
            && let Some(content) = inode.content.get()
        {
            let held = hold()?;
            content.take_times(&held, &self.source.through)?;
            let changed = if inode.content.is_in_use() {
                None
            } else {
                content.changed_below(&held, &stat)?
            };
            match changed {
                Some(changed) => stat = changed,
                None => content.overlay(&mut stat),
            }
        }
        inode.record_reported_length(stat.st_size as u64);
        Ok(attributes(inode.id, &stat))
    }
}
