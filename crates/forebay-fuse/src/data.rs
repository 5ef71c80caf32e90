//! The bytes of regular files, through the cache.

use crate::content::{Content, access_errno, sync_errno};
use crate::handles::ContentUse;
use crate::handles::{Handle, OpenFile};
use crate::identity::Place;
use crate::inode::Inode;
use crate::names::ChildName;
use crate::parts::OpenFiles;
use crate::permissions::{Caller, MadeMode, NewMode};
use forebay::SyncError;
use forebay_base::sync::Arc;
use fuser::{FileAttr, FileType};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ops::Range;

/// Where to look for data or for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    Data,
    Hole,
}

impl Sought {
    /// The question to the source, from a place on.
    pub(crate) fn from(self, offset_bytes: u64) -> SeekFrom {
        match self {
            Sought::Data => SeekFrom::Data(offset_bytes),
            Sought::Hole => SeekFrom::Hole(offset_bytes),
        }
    }
}

impl OpenFiles {
    /// Opens a regular file for the thread `opener` and returns the number of the handle.
    pub(crate) fn open(
        self: &Arc<OpenFiles>,
        id: u64,
        flags: i32,
        opener: u32,
    ) -> Result<u64, Errno> {
        let inode = self.source.inode(id)?;
        if inode.kind != FileType::RegularFile {
            return Err(Errno::INVAL);
        }
        let access = OFlags::from_bits_retain(flags as u32) & OFlags::RWMODE;
        if inode.appends_only() && !inode.content.is_in_use() {
            // Its pages could not be written back.
            return self.pass(&self.source.hold_surely(&inode)?, flags, Errno::PERM);
        }
        // If the file was changed below, the kernel would append at the end that it knows; and if
        // it lost its name, another may have that. So the kernel has to look the file up again and
        // open it again. It is asked to only once, because a program that opens by a descriptor
        // cannot look up.
        let is_known = |content: &Content, has_name: bool| {
            let length_bytes = has_name.then(|| content.file.len());
            !inode.must_look_up(length_bytes, opener)
        };
        match self
            .contents
            .use_content_if(&inode, access != OFlags::RDONLY, is_known)
        {
            Ok(used) => Ok(self.insert_file(used, access, opener)),
            // We may be allowed to write it and not to read it.
            Err(Errno::ACCESS) if access == OFlags::WRONLY => {
                self.pass(&self.source.hold_surely(&inode)?, flags, Errno::ACCESS)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Closes what is still open once the kernel asks nothing more. The kernel tells of a last
    /// close without waiting for us, and an unmount drops what it has not told yet. A handle that
    /// stayed would keep a file of the source open, and the content of that file in use.
    pub(crate) fn close_handles(&self) {
        self.handles.take_all().for_each(drop);
    }

    fn insert_file(&self, used: ContentUse, access: OFlags, opener: u32) -> u64 {
        let name = used.inode.name().map(|(_, name)| name);
        let name = name.as_deref().map(OsStr::to_string_lossy);
        let whose = forebay::Caller::process(opener, &name.unwrap_or_default());
        let file = used.content.file.for_caller(&whose).blocking();
        let is_writable = access != OFlags::RDONLY;
        self.handles.insert(Handle::File(Arc::new(OpenFile {
            used,
            file,
            is_writable,
        })))
    }

    /// Makes a file and opens it.
    pub(crate) fn create(
        self: &Arc<OpenFiles>,
        child: ChildName<'_>,
        mode: NewMode,
        flags: i32,
        caller: Caller,
    ) -> Result<(FileAttr, u64), Errno> {
        /// Without these bits we could not open what we just made.
        const OURS: u32 = 0o600;
        let parent = self.source.held(child.parent)?;
        let flags = OFlags::from_bits_retain(flags as u32);
        let birth = mode.in_folder(parent.as_fd())?;
        let bits = Mode::from_raw_mode(birth.bits() | OURS);
        let mode = MadeMode { birth, added: OURS };
        let how = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = self.source.sparing_surely(|| {
            rustix::fs::openat(parent.as_fd(), child.name, how | OFlags::RDWR, bits)
        });
        let made = made.map_err(|errno| match errno {
            // Another program was faster below. The kernel would let its caller use that file
            // without a check; with this answer it looks the file up and checks whether the caller
            // may.
            Errno::EXIST if !flags.contains(OFlags::EXCL) => Errno::STALE,
            other => other,
        })?;
        let (inode, _) = self.names.look_up(child)?;
        let opened = self.open_created(&inode, &made);
        drop(made);
        let opened = opened.and_then(|used| {
            let stat = rustix::fs::fstat(parent.as_fd())?;
            let held = self.source.hold_surely(&inode)?;
            self.names.adopt(&held, &stat, Some(mode), caller)?;
            used.content.metadata_changed(&held)?;
            self.names.describe(&held).map(|described| {
                (
                    described,
                    self.insert_file(used, flags & OFlags::RWMODE, caller.thread),
                )
            })
        });
        opened.inspect_err(|_| {
            if let Some(left) = self.source.inodes.forget(inode.id, 1) {
                self.contents.forgotten(&left);
            }
        })
    }

    fn open_created(
        self: &Arc<OpenFiles>,
        inode: &Arc<Inode>,
        made: &OwnedFd,
    ) -> Result<ContentUse, Errno> {
        let made = rustix::fs::fstat(made)?;
        let place = Place {
            device: made.st_dev,
            number: made.st_ino,
        };
        if inode.identity().place != place {
            // Another program has replaced it by something else.
            return Err(Errno::STALE);
        }
        let used = self.contents.use_content(inode, true)?;
        // A file that was just made has no capabilities to ask for at its first write.
        used.content.take_capable();
        Ok(used)
    }

    /// Writes bytes. With `drops_privileges` the file loses set-user-ID and set-group-ID.
    pub(crate) fn write(
        &self,
        open: &OpenFile,
        bytes: &[u8],
        offset_bytes: u64,
        drops_privileges: bool,
    ) -> Result<(), Errno> {
        let content = &open.used.content;
        self.source
            .drop_privileges(&open.used.inode, content, drops_privileges)?;
        let written = open.file.write_at(bytes, offset_bytes);
        // A write that failed may have changed the bytes before the place where it failed.
        content.mark_modified();
        written.map_err(|error| access_errno(&error))
    }

    /// Makes what was written durable: the bytes and the length, and everything else unless
    /// `data_only`.
    pub(crate) fn sync(&self, open: &OpenFile, data_only: bool) -> Result<(), Errno> {
        let synced = open.file.sync();
        self.sync_rest(open, synced, data_only)
    }

    /// The same for the bytes of `range` and the length.
    pub(crate) fn sync_range(
        &self,
        open: &OpenFile,
        range: Range<u64>,
        data_only: bool,
    ) -> Result<(), Errno> {
        let synced = open.file.sync_range(range);
        self.sync_rest(open, synced, data_only)
    }

    /// Ends a sync whose bytes have been `synced` by the cache.
    fn sync_rest(
        &self,
        open: &OpenFile,
        synced: Result<(), SyncError>,
        data_only: bool,
    ) -> Result<(), Errno> {
        let content = &open.used.content;
        let synced = synced.map_err(|error| sync_errno(&error));
        let synced = synced.inspect_err(|errno| self.allocation.record_failure(open, *errno));
        let synced = self.contents.report_loss(open, synced);
        let below = content.pay_commit(!data_only, || self.sync_below(open, data_only));
        if data_only {
            return synced.and(below);
        }
        synced.and(below).and(self.source.take_times(content))
    }

    /// Makes durable what the source itself has of the file.
    fn sync_below(&self, open: &OpenFile, data_only: bool) -> Result<(), Errno> {
        let (content, inode) = (&open.used.content, &open.used.inode);
        if !data_only {
            self.source.settle(content)?;
        }
        self.source.commit_beside(inode, data_only)
    }

    /// What a close reports to a program: whether a write failed that no sync of the handle has
    /// reported. It does not clear the error: a forked process closes its copy as it starts a
    /// program, and must not get the error instead of the process that syncs. A program that only
    /// reads lost nothing, and an error would make it distrust good bytes.
    pub(crate) fn flush(&self, open: &OpenFile) -> Result<(), Errno> {
        self.source.take_times(&open.used.content)?;
        if !open.is_writable {
            return Ok(());
        }
        let failure = open.file.as_async().unreported_failure();
        let failure = failure.map_err(|error| sync_errno(&error));
        failure.inspect_err(|errno| self.allocation.record_failure(open, *errno))
    }

    /// Gives a range room, takes it away, or makes it zeros.
    pub(crate) fn allocate(
        &self,
        open: &OpenFile,
        offset_bytes: u64,
        length_bytes: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let flags = FallocateFlags::from_bits(mode as u32).ok_or(Errno::OPNOTSUPP)?;
        let end = offset_bytes.checked_add(length_bytes).ok_or(Errno::FBIG)?;
        let keeps_size = flags.contains(FallocateFlags::KEEP_SIZE);
        let kind = flags.difference(FallocateFlags::KEEP_SIZE);
        let punches = kind == FallocateFlags::PUNCH_HOLE && keeps_size;
        let zeros = kind == FallocateFlags::ZERO_RANGE;
        if !punches && !zeros && !kind.is_empty() {
            return Err(Errno::OPNOTSUPP);
        }
        self.source.must_fit(&open.used, end)?;
        let (file, content) = (&open.file, &open.used.content);
        if punches || zeros {
            let discarded = file.discard(offset_bytes..end);
            content.mark_modified();
            discarded.map_err(|error| access_errno(&error))?;
        }
        if punches {
            return Ok(());
        }
        // Its mode may forbid to open it once more.
        let fd = self.source.files.lend(content.object).ok_or(Errno::STALE)?;
        rustix::fs::fallocate(&fd, FallocateFlags::KEEP_SIZE, offset_bytes, length_bytes)?;
        // The kernel keeps the file locked while a program allocates, cuts or writes past the end,
        // so the length cannot change in between.
        if !keeps_size && end > file.len() {
            let grown = file.truncate(end);
            content.mark_modified();
            grown.map_err(|error| access_errno(&error))?;
        }
        Ok(())
    }

    /// The next data or hole from a place on. Unwritten bytes are written first, so that the source
    /// knows.
    pub(crate) fn seek(
        &self,
        open: &OpenFile,
        offset_bytes: u64,
        sought: Sought,
    ) -> Result<u64, Errno> {
        if !open.used.content.file.is_written() {
            open.used
                .content
                .file
                .blocking()
                .sync()
                .map_err(|error| sync_errno(&error))?;
        }
        // Its mode may forbid to open it once more; nobody reads from where this one stands.
        let fd = self.source.files.lend(open.used.content.object);
        rustix::fs::seek(fd.ok_or(Errno::STALE)?, sought.from(offset_bytes))
    }
}

#[cfg(test)]
mod tests;
