//! Names, and what else is passed through to the source.

use crate::attributes::unpack_device;
use crate::crossing::place_of;
use crate::directory::Directory;
use crate::fd_cache::InodeFd;
use crate::holding::Hold;
use crate::identity::Identity;
use crate::inode::Inode;
use crate::losses::name_of;
use crate::parts::{Names, Source};
use crate::permissions::{Caller, MadeMode, NewMode, refusal_to_show};
use crate::source::{CAPABILITY, Descriptors, Looked, PATH_ONLY, look};
use forebay_base::hash::{TraceHash, mix};
use forebay_base::sync::Arc;
use fuser::{FileAttr, FileType};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is about to be made and named.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fresh<'a> {
    Folder { mode: NewMode },
    Link { target: &'a Path },
    Node { mode: NewMode, device: u32 },
}

/// An extended attribute that is to be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) value: &'a [u8],
    /// Whether it must exist already, or must not.
    pub(crate) flags: i32,
}

/// A name in a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildName<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
}

impl Names {
    /// Looks at the file `name` in the folder `parent`, which is asked of its file system unless it
    /// is in the mount itself.
    ///
    /// # Errors
    /// [`Errno::LOOP`] if it is.
    fn look_outside(&self, parent: &InodeFd, name: &OsStr) -> Result<Looked, Errno> {
        // The kernel answers for a mount of ours without a request.
        let found = look(parent.as_fd(), name, AtFlags::STATX_DONT_SYNC)?;
        let device = found.identity.place.device;
        if self
            .crossings
            .is_up_to_date(device, self.source.inodes.root_device())?
        {
            return Ok(found);
        }
        look(parent.as_fd(), name, AtFlags::empty())
    }

    /// Learns what numbers of the device of `found` are made of, which was found as `name` in the
    /// folder `parent`. They have to be the same after the next start, or a backup would read every
    /// file again.
    pub(crate) fn learn_device(&self, found: &Identity, parent: &InodeFd, name: &OsStr) {
        let device = found.place.device;
        if !self.source.inodes.is_new(device) {
            return;
        }
        let opened = rustix::fs::openat(parent, name, PATH_ONLY, Mode::empty());
        let system = opened.and_then(rustix::fs::fstatvfs);
        let seed = match system {
            // Where a file system has a number of its own, that is the same wherever it is mounted.
            Ok(system) if system.f_fsid != 0 => mix(system.f_fsid),
            _ => {
                let mut seed = TraceHash::default();
                let path = name_of(parent).join(name);
                let bytes = path.as_os_str().as_bytes();
                for byte in bytes {
                    seed.note(u64::from(*byte));
                }
                seed.value()
            }
        };
        self.source.inodes.record_device(device, seed);
    }

    /// Takes note that the file at the place of `found` is `found`, if it is still the same file.
    pub(crate) fn recognize(&self, found: &Identity, parent: &InodeFd) {
        let Some(known) = self.source.inodes.at(found.place) else {
            return;
        };
        if known.identity() != *found && self.source.is_still(&known, found, parent) {
            self.source.inodes.renew(&known, *found);
        }
    }

    /// Finds a file by its name, and counts one more look-up of it.
    pub(crate) fn look_up(&self, child: ChildName<'_>) -> Result<(Arc<Inode>, Stat), Errno> {
        let parent = self.source.held(child.parent)?;
        self.look_up_in(&parent, child.name)
    }

    /// As [`Names::look_up`], in a folder that is held.
    fn look_up_in(&self, parent: &InodeFd, name: &OsStr) -> Result<(Arc<Inode>, Stat), Errno> {
        let found = self.look_outside(parent, name)?;
        self.learn_device(&found.identity, parent, name);
        self.recognize(&found.identity, parent);
        let inode = self.source.inodes.look_up(found.identity, parent, name);
        inode.record_appends_only(found.appends_only);
        parent.listing.told(self.source.rt.now());
        self.source.unpin(&inode);
        self.source
            .reaper
            .looked_up(self.source.inodes.len(), self.source.limits);
        Ok((inode, found.stat))
    }

    /// As [`Names::look_up`], with the attributes for the kernel.
    pub(crate) fn look_up_described(&self, child: ChildName<'_>) -> Result<FileAttr, Errno> {
        let parent = self.source.held(child.parent)?;
        self.look_up_described_in(&parent, child.name, Source::hold_surely)
    }

    /// As [`Names::look_up_described`], in a folder that is held. The file is held by `hold`.
    pub(crate) fn look_up_described_in(
        &self,
        parent: &InodeFd,
        name: &OsStr,
        hold: Hold,
    ) -> Result<FileAttr, Errno> {
        let (inode, stat) = self.look_up_in(parent, name)?;
        self.describe_found(&inode, stat, hold).inspect_err(|_| {
            // Without an answer the kernel does not know the file, and there is no content that
            // could be left behind.
            let _ = self.source.inodes.forget(inode.id, 1);
        })
    }

    /// Makes something new.
    pub(crate) fn make(
        &self,
        child: ChildName<'_>,
        fresh: Fresh<'_>,
        caller: Caller,
    ) -> Result<FileAttr, Errno> {
        let parent = self.source.held(child.parent)?;
        let at = parent.as_fd();
        let birth = match fresh {
            Fresh::Folder { mode } => {
                let birth = mode.in_folder(at)?;
                rustix::fs::mkdirat(at, child.name, Mode::from_raw_mode(birth.bits()))?;
                Some(birth)
            }
            Fresh::Link { target } => {
                rustix::fs::symlinkat(target, at, child.name)?;
                None
            }
            Fresh::Node { mode, device } => {
                let birth = mode.in_folder(at)?;
                let file_type = rustix::fs::FileType::from_raw_mode(mode.bits);
                let bits = Mode::from_raw_mode(birth.bits());
                let device = unpack_device(device);
                rustix::fs::mknodat(at, child.name, file_type, bits, device)?;
                Some(birth)
            }
        };
        let (inode, _) = self.look_up_in(&parent, child.name)?;
        let mode = birth.map(|birth| MadeMode { birth, added: 0 });
        let adopted = |held: &InodeFd| {
            let parent = rustix::fs::fstat(at)?;
            self.adopt(held, &parent, mode, caller)?;
            self.describe(held)
        };
        let reported = self.source.hold_surely(&inode);
        let reported = reported.and_then(|held| adopted(&held));
        // The kernel forgets only files that it knows.
        reported.inspect_err(|_| drop(self.source.inodes.forget(inode.id, 1)))
    }

    /// Takes a name away: of a folder if `is_folder`, otherwise of anything else.
    pub(crate) fn remove(&self, child: ChildName<'_>, is_folder: bool) -> Result<(), Errno> {
        let parent = self.source.held(child.parent)?;
        let flags = if is_folder {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let known = self.known(parent.as_fd(), child.name);
        let loses_name = self.pin_called(known.as_ref(), child);
        let removed = rustix::fs::unlinkat(parent.as_fd(), child.name, flags);
        if removed.is_err()
            && let Some(inode) = loses_name
        {
            self.source.unpin(inode);
        }
        removed?;
        known.map_or(Ok(()), |inode| self.source.metadata_changed(&inode))
    }

    /// Keeps the descriptor of a file that may lose the name by which it would be found again
    /// (invariant M4), and says whether it was done.
    fn pin_called<'a>(
        &self,
        known: Option<&'a Arc<Inode>>,
        child: ChildName<'_>,
    ) -> Option<&'a Arc<Inode>> {
        let called = known.filter(|inode| inode.is_called(child.parent, child.name));
        called.inspect(|inode| self.source.pin(inode))
    }

    /// The file behind a name, if the kernel knows it.
    fn known(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Option<Arc<Inode>> {
        self.source.inodes.at(place_of(parent, name).ok()?)
    }

    /// Remembers a new name of a file, instead of the one that it may have lost.
    fn record_name(&self, parent: &InodeFd, name: &OsStr) {
        if let Some(inode) = self.known(parent.as_fd(), name) {
            inode.set_name(parent, name);
            self.source.unpin(&inode);
        }
    }

    /// Replaces a name of a file by another one.
    pub(crate) fn rename(
        &self,
        from: ChildName<'_>,
        to: ChildName<'_>,
        flags: fuser::RenameFlags,
    ) -> Result<(), Errno> {
        let (parent, new_parent) = (self.source.held(from.parent)?, self.source.held(to.parent)?);
        let flags = RenameFlags::from_bits(flags.bits()).ok_or(Errno::INVAL)?;
        let moved = self.known(parent.as_fd(), from.name);
        let replaced = self.known(new_parent.as_fd(), to.name);
        let pinned = [
            self.pin_called(moved.as_ref(), from),
            self.pin_called(replaced.as_ref(), to),
        ];
        let renamed = rustix::fs::renameat_with(
            parent.as_fd(),
            from.name,
            new_parent.as_fd(),
            to.name,
            flags,
        );
        if renamed.is_err() {
            for inode in pinned.into_iter().flatten() {
                self.source.unpin(inode);
            }
        }
        renamed?;
        self.record_name(&new_parent, to.name);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.record_name(&parent, from.name);
        }
        moved.map_or(Ok(()), |inode| self.source.metadata_changed(&inode))
    }

    /// Gives a file one more name.
    pub(crate) fn link(&self, id: u64, to: ChildName<'_>) -> Result<FileAttr, Errno> {
        let inode = self.source.held(id)?;
        let parent = self.source.held(to.parent)?;
        let is_symlink = inode.kind == FileType::Symlink;
        self.source
            .through
            .link(&inode, is_symlink, parent.as_fd(), to.name)?;
        self.source.metadata_changed(&inode)?;
        self.look_up_described_in(&parent, to.name, Source::hold_surely)
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, id: u64) -> Result<Vec<u8>, Errno> {
        let inode = self.source.held(id)?;
        Ok(rustix::fs::readlinkat(&inode, "", Vec::new())?.into_bytes())
    }

    /// Opens a folder for reading its entries. True if the kernel may keep them, or use those that
    /// it has kept.
    pub(crate) fn open_directory(&self, id: u64) -> Result<(Directory, bool), Errno> {
        let held = self.source.held(id)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = self
            .source
            .sparing_surely(|| rustix::fs::openat(&held, ".", flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&fd)?;
        let may_be_kept = held.listing.may_be_kept(&stat, self.source.rt.now());
        Ok((Directory::new(held, fd), may_be_kept))
    }

    /// Sets an extended attribute.
    pub(crate) fn set_attribute(
        &self,
        id: u64,
        attribute: Attribute<'_>,
        caller: Caller,
    ) -> Result<(), Errno> {
        let Attribute { name, value, flags } = attribute;
        let inode = self.source.held(id)?;
        let flags = XattrFlags::from_bits(flags as u32).ok_or(Errno::INVAL)?;
        rustix::fs::setxattr(Descriptors::path(&inode), name, value, flags)?;
        if name == CAPABILITY
            && let Some(content) = inode.content.get()
        {
            content.mark_capable();
        }
        self.list_was_set(&inode, name, caller)?;
        self.source.metadata_changed(&inode)
    }

    /// The value of an extended attribute, of `size_bytes` at most; its length alone for 0.
    pub(crate) fn attribute(
        &self,
        id: u64,
        name: &OsStr,
        size_bytes: usize,
    ) -> Result<AttributeAnswer, Errno> {
        let inode = self.source.held(id)?;
        let path = Descriptors::path(&inode);
        let refused = |errno| refusal_to_show(name, errno);
        if size_bytes == 0 {
            let length = rustix::fs::getxattr_query(path, name).map_err(refused)?;
            return Ok(AttributeAnswer::Length(length as u32));
        }
        let mut value = vec![0_u8; size_bytes];
        let length = rustix::fs::getxattr(path, name, &mut value[..]).map_err(refused)?;
        value.truncate(length);
        Ok(AttributeAnswer::Value(value))
    }

    /// The names of all extended attributes, each followed by a zero.
    pub(crate) fn attribute_names(
        &self,
        id: u64,
        size_bytes: usize,
    ) -> Result<AttributeAnswer, Errno> {
        let inode = self.source.held(id)?;
        let path = Descriptors::path(&inode);
        if size_bytes == 0 {
            let length = rustix::fs::listxattr_query(path)?;
            return Ok(AttributeAnswer::Length(length as u32));
        }
        let mut names = vec![0_u8; size_bytes];
        let length = rustix::fs::listxattr(path, &mut names[..])?;
        names.truncate(length);
        Ok(AttributeAnswer::Value(names))
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_attribute(&self, id: u64, name: &OsStr) -> Result<(), Errno> {
        let inode = self.source.held(id)?;
        rustix::fs::removexattr(Descriptors::path(&inode), name)?;
        self.source.metadata_changed(&inode)
    }
}

/// The answer to a reader of an extended attribute.
#[derive(Debug)]
pub(crate) enum AttributeAnswer {
    Length(u32),
    Value(Vec<u8>),
}

#[cfg(test)]
mod tests;
