//! Changes of attributes, of which the length is one.

use crate::attributes::time_to_set;
use crate::content::access_errno;
use crate::fd_cache::InodeFd;
use crate::parts::OpenFiles;
use crate::permissions::Caller;
use crate::source::PRIVILEGE_BITS;
use forebay_base::sync::Arc;
use fuser::{FileAttr, FileType, TimeOrNow};
use rustix::fs::{AtFlags, Gid, Uid};
use rustix::io::Errno;

/// Which attributes of a file to change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) length_bytes: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

impl OpenFiles {
    /// Changes what is known of a file.
    pub(crate) fn change(
        self: &Arc<OpenFiles>,
        id: u64,
        changes: Changes,
        caller: Caller,
    ) -> Result<FileAttr, Errno> {
        let inode = self.source.held(id)?;
        if let Some(length_bytes) = changes.length_bytes {
            self.cut(&inode, length_bytes, caller)?;
        }
        if changes.user.is_some() || changes.group.is_some() {
            let user = changes.user.map(Uid::from_raw);
            let group = changes.group.map(Gid::from_raw);
            rustix::fs::chownat(&inode, "", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = changes.mode {
            self.source.through.change_mode(&inode, mode)?;
            if mode & PRIVILEGE_BITS != 0
                && let Some(content) = inode.content.get()
            {
                content.mark_set_id();
            }
        }
        let sets_times = changes.accessed.is_some() || changes.modified.is_some();
        if sets_times {
            self.set_times(&inode, changes)?;
        } else {
            self.source.metadata_changed(&inode)?;
        }
        self.names.describe(&inode)
    }

    /// Makes a file `length_bytes` long.
    fn cut(
        self: &Arc<OpenFiles>,
        inode: &InodeFd,
        length_bytes: u64,
        caller: Caller,
    ) -> Result<(), Errno> {
        if inode.kind != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let inside = self.contents.change_gate.enter().ok_or(Errno::SHUTDOWN)?;
        let used = match self.contents.use_content(inode, true) {
            Ok(used) => used,
            Err(Errno::ACCESS) => return self.cut_passed(inode, length_bytes, Errno::ACCESS),
            Err(errno) => return Err(errno),
        };
        self.source.must_fit(&used, length_bytes)?;
        self.source
            .drop_privileges(inode, &used.content, caller.user != 0)?;
        let file = used.content.file.blocking();
        let cut = file
            .truncate(length_bytes)
            .map_err(|error| access_errno(&error));
        used.content.mark_modified();
        drop(inside);
        cut
    }

    fn set_times(&self, inode: &InodeFd, changes: Changes) -> Result<(), Errno> {
        let (accessed, modified) = (time_to_set(changes.accessed), time_to_set(changes.modified));
        if let Some(content) = inode.content.get() {
            return content.set_times(inode, &self.source.through, accessed, modified);
        }
        if inode.kind != FileType::Symlink {
            return self.source.through.set_times(inode, accessed, modified);
        }
        let times = rustix::fs::Timestamps {
            last_access: accessed,
            last_modification: modified,
        };
        rustix::fs::utimensat(inode, "", &times, AtFlags::EMPTY_PATH)
    }
}
