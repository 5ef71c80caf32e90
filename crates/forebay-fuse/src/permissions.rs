//! Who may do what: the kernel decides that by the modes and access lists that it gets from here.
//!
//! The kernel reads POSIX access lists as extended attributes and checks them itself
//! (`FUSE_POSIX_ACL`), as it does with modes. A new file inherits the default list of its folder
//! from the source's file system; the maker's mask counts only if there is none.

use crate::content::Content;
use crate::fd_cache::InodeFd;
use crate::inode::Inode;
use crate::parts::{Names, Source};
use crate::source::{CAPABILITY, Descriptors, PERMISSION_BITS};
use forebay_base::sync::Arc;
use fuser::{FileType, INodeNo};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Gid, Stat, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;

/// The caller of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The thread, by the system's number.
    pub(crate) thread: u32,
}

/// The attribute with the access list of a file.
const ACCESS_LIST: &str = "system.posix_acl_access";
/// The attribute with the access list that new files in a folder get.
const DEFAULT_LIST: &str = "system.posix_acl_default";
/// Attributes of access lists that only the source's own file system can check.
const FOREIGN_LISTS: [&str; 2] = ["system.nfs4_acl", "system.richacl"];
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// The mode that is asked for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewMode {
    /// What the maker asks for.
    pub(crate) bits: u32,
    /// What the maker withholds unless the folder has a default access list.
    pub(crate) mask: u32,
}

/// The mode that a new file should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// This mode.
    Plain(u32),
    /// What the source's file system makes of this mode and of its folder's default list.
    Inherited(u32),
}

impl NewMode {
    /// The mode of a new file in the folder `parent`.
    pub(crate) fn in_folder(self, parent: impl AsFd) -> Result<Birth, Errno> {
        let bits = self.bits & PERMISSION_BITS;
        match rustix::fs::getxattr_query(Descriptors::path(parent), DEFAULT_LIST) {
            Ok(_length) => Ok(Birth::Inherited(bits)),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Birth::Plain(bits & !self.mask)),
            Err(errno) => Err(errno),
        }
    }
}

impl Birth {
    /// The mode to make it with.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Birth::Plain(bits) | Birth::Inherited(bits) => bits,
        }
    }
}

/// The mode that a new file was made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeMode {
    pub(crate) birth: Birth,
    /// Further bits, which it has only so that we may open it.
    pub(crate) added: u32,
}

impl MadeMode {
    /// The mode that the file gets in the end: it was made as in `made`, of which the bits `kept`
    /// stay.
    fn settled(self, made: &Stat, kept: u32) -> u32 {
        match self.birth {
            Birth::Plain(bits) => bits | kept,
            Birth::Inherited(bits) => made.st_mode & PERMISSION_BITS & !(self.added & !bits),
        }
    }
}

/// The attribute of an access list that the source's file system has and the kernel could not
/// check for the mount, if there is one.
pub(crate) fn foreign_list(source: impl AsFd) -> Option<&'static str> {
    first_foreign(|name| rustix::fs::getxattr_query(Descriptors::path(&source), name).is_ok())
}

fn first_foreign(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    FOREIGN_LISTS.into_iter().find(|name| has(name))
}

/// The answer to the kernel if the source refuses to show the attribute `name`: where lists cannot
/// be stored, no file has one. After any other answer the kernel would refuse all access.
pub(crate) fn refusal_to_show(name: &OsStr, errno: Errno) -> Errno {
    let is_list = name == ACCESS_LIST || name == DEFAULT_LIST;
    if is_list && errno == Errno::OPNOTSUPP {
        Errno::NODATA
    } else {
        errno
    }
}

impl Source {
    /// Takes from a changed file what a change takes away: its capabilities, and set-user-ID and
    /// set-group-ID if `drops_ids`; unless it is known to have none.
    pub(crate) fn drop_privileges(
        &self,
        inode: &Arc<Inode>,
        content: &Content,
        drops_ids: bool,
    ) -> Result<(), Errno> {
        // If one fails, the next writer has to try again.
        if content.take_capable() {
            let dropped = self
                .hold_surely(inode)
                .and_then(|held| drop_capabilities(&held));
            dropped.inspect_err(|_| content.mark_capable())?;
        }
        if drops_ids && content.take_set_id() {
            let dropped = self
                .hold_surely(inode)
                .and_then(|held| self.drop_set_id(&held));
            dropped.inspect_err(|_| content.mark_set_id())?;
        }
        Ok(())
    }

    fn drop_set_id(&self, inode: &InodeFd) -> Result<(), Errno> {
        const EXECUTED_BY_GROUP: u32 = 0o010;
        let mode = rustix::fs::fstat(inode)?.st_mode & PERMISSION_BITS;
        let mut left = mode & !SET_USER;
        if mode & EXECUTED_BY_GROUP != 0 {
            left &= !SET_GROUP;
        }
        if left == mode {
            return Ok(());
        }
        kernel_drops(self.through.change_mode(inode, left))?;
        // The kernel would show, and apply, the bits for as long as it considers the attributes
        // valid.
        self.reaper.attributes_changed(INodeNo(inode.id));
        Ok(())
    }
}

impl Names {
    /// Gives a new file to its maker, with the mode that was asked for.
    pub(crate) fn adopt(
        &self,
        inode: &InodeFd,
        parent: &Stat,
        mode: Option<MadeMode>,
        caller: Caller,
    ) -> Result<(), Errno> {
        let made = rustix::fs::fstat(inode)?;
        let inherits = parent.st_mode & SET_GROUP != 0;
        let group = if inherits { made.st_gid } else { caller.group };
        let mut found = made.st_mode;
        let is_others = made.st_uid != caller.user || made.st_gid != group;
        if is_others && rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(caller.user), Gid::from_raw(group));
            rustix::fs::chownat(inode, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
            // It may have lost bits.
            found = rustix::fs::fstat(inode)?.st_mode;
        }
        let Some(mode) = mode else {
            return Ok(());
        };
        let is_folder = inode.kind == FileType::Directory;
        let kept = if is_folder {
            made.st_mode & SET_GROUP
        } else {
            0
        };
        let wanted = mode.settled(&made, kept);
        if found & PERMISSION_BITS != wanted {
            self.source.through.change_mode(inode, wanted)?;
        }
        Ok(())
    }

    /// Takes set-group-ID from a file when a user that is not in its group sets its access list.
    /// The kernel would ask for that in a form of the request that the protocol's library cannot
    /// read.
    pub(crate) fn list_was_set(
        &self,
        inode: &InodeFd,
        name: &OsStr,
        caller: Caller,
    ) -> Result<(), Errno> {
        if name != ACCESS_LIST || caller.user == 0 {
            return Ok(());
        }
        let stat = rustix::fs::fstat(inode)?;
        let is_folder = inode.kind == FileType::Directory;
        if is_folder || stat.st_mode & SET_GROUP == 0 || caller.group == stat.st_gid {
            return Ok(());
        }
        if self.groups_of(caller.thread).contains(&stat.st_gid) {
            return Ok(());
        }
        let left = stat.st_mode & PERMISSION_BITS & !SET_GROUP;
        kernel_drops(self.source.through.change_mode(inode, left))
    }

    /// The further groups of a thread; none if they cannot be read.
    fn groups_of(&self, thread: u32) -> Vec<u32> {
        let path = Path::new("/proc").join(thread.to_string()).join("status");
        let status = self.source.sparing_surely(|| {
            let read = std::fs::read_to_string(&path);
            read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        groups_in(&status.unwrap_or_default())
    }
}

fn groups_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Takes capabilities from a file, if it has any: the system refuses a user that may not set them,
/// even if there are none to remove.
fn drop_capabilities(inode: &InodeFd) -> Result<(), Errno> {
    let path = Descriptors::path(inode);
    let removed = rustix::fs::getxattr_query(&path, CAPABILITY)
        .and_then(|_length| rustix::fs::removexattr(&path, CAPABILITY));
    match removed {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        other => kernel_drops(other),
    }
}

/// Leaves it to the kernel to drop a privilege that we may not drop: it does so when an
/// unprivileged process writes.
fn kernel_drops(dropped: Result<(), Errno>) -> Result<(), Errno> {
    match dropped {
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_only_the_source_can_check_are_found() {
        assert_eq!(first_foreign(|_| false), None);
        assert_eq!(
            first_foreign(|name| name == "system.nfs4_acl"),
            Some("system.nfs4_acl")
        );
        let folder = tempfile::tempdir().unwrap();
        let fd = crate::source::open_folder(folder.path()).unwrap();
        assert_eq!(foreign_list(&fd), None, "modes and POSIX lists are checked");
    }

    #[test]
    fn a_source_without_lists_shows_none() {
        let shown = |name: &str, errno| refusal_to_show(name.as_ref(), errno);
        assert_eq!(shown(ACCESS_LIST, Errno::OPNOTSUPP), Errno::NODATA);
        assert_eq!(shown(ACCESS_LIST, Errno::IO), Errno::IO);
        assert_eq!(shown("user.name", Errno::OPNOTSUPP), Errno::OPNOTSUPP);
    }

    #[test]
    fn groups_of_a_thread_are_read() {
        let status = "Name:\tcat\nGid:\t1\t1\t1\t1\nGroups:\t4 27 1000 \nNStgid:\t5\n";
        assert_eq!(groups_in(status), [4, 27, 1000]);
        assert_eq!(groups_in("Groups:\t\n"), [0_u32; 0]);
        assert_eq!(groups_in(""), [0_u32; 0]);
    }
}
