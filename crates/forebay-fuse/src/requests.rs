//! The kernel's requests, one function each; `names` and `data` do the work.

use crate::attributes::{kind, unknown};
use crate::changes::Changes;
use crate::content::access_errno;
use crate::data::Sought;
use crate::directory::Room;
use crate::folder::Folder;
use crate::handles::PassedFile;
use crate::handles::{Handle, OpenFile};
use crate::names::{Attribute, AttributeAnswer, ChildName, Fresh};
use crate::parts::{OpenFiles, Source};
use crate::permissions::Caller;
use crate::permissions::NewMode;
use crate::refusals::Refusals;
use crate::write_request::{WriteRequest, answer_written};
use forebay_base::sync::Arc;
use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
#[allow(
    clippy::disallowed_types,
    reason = "the protocol's library has times in this type; no clock is read"
)]
use std::time::SystemTime;

/// How long the kernel may keep a name or attributes without asking again.
const VALID: Duration = Duration::from_secs(1);
/// Requests that the kernel may have under way without a program that waits for them.
const BACKGROUND_REQUESTS: u16 = 64;
/// Numbers are not used again while the kernel knows them, so one generation is enough.
const GENERATION: Generation = Generation(0);

/// A folder as the protocol's library sees it.
#[derive(Debug)]
pub(crate) struct Requests(pub(crate) Arc<Folder>);

impl Deref for Requests {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

fn caller(request: &Request) -> Caller {
    Caller {
        user: request.uid(),
        group: request.gid(),
        thread: request.pid(),
    }
}

fn child(parent: INodeNo, name: &OsStr) -> ChildName<'_> {
    ChildName {
        parent: parent.0,
        name,
    }
}

/// Answers with a file.
fn answer_entry(refusals: &Refusals, reply: ReplyEntry, result: Result<fuser::FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&VALID, &attributes, GENERATION),
        Err(errno) => reply.error(refusals.answer(errno)),
    }
}

/// How a folder is opened whose listing the kernel may keep, or may not: then it forgets the one
/// that it has.
fn listing_flags(may_be_kept: bool) -> FopenFlags {
    if may_be_kept {
        FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
    } else {
        FopenFlags::empty()
    }
}

/// Answers an empty reply.
fn answer_empty(refusals: &Refusals, reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(refusals.answer(errno)),
    }
}

impl Requests {
    fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>, Errno> {
        self.open_files.handles.file(handle.0).ok_or(Errno::BADF)
    }

    fn open_flags(&self) -> FopenFlags {
        *self.open_files.open_flags.get_or_init(FopenFlags::empty)
    }

    /// The flags of a handle that was opened with `asked`. The close of a handle that only reads
    /// has nothing to report and no timestamp to update, so the kernel need not send it.
    fn open_flags_for(&self, asked: OpenFlags) -> FopenFlags {
        let access = OFlags::from_bits_retain(asked.0 as u32) & OFlags::RWMODE;
        if access == OFlags::RDONLY {
            self.open_flags() | FopenFlags::FOPEN_NOFLUSH
        } else {
            self.open_flags()
        }
    }

    /// Leaves a call that may wait to a thread that has time for it.
    fn run(
        &self,
        reply: ReplyEmpty,
        handle: FileHandle,
        job: impl FnOnce(&OpenFiles, &OpenFile) -> Result<(), Errno> + Send + 'static,
    ) {
        match self.file(handle) {
            Err(errno) => reply.error(self.refusals.answer(errno)),
            Ok(open) => {
                let folder = self.0.clone();
                self.workers.run(move || {
                    let result = job(&folder.open_files, &open);
                    drop(open);
                    answer_empty(&folder.refusals, reply, result);
                });
            }
        }
    }

    /// The same for a file that passes by the cache.
    fn run_passed(
        &self,
        reply: ReplyEmpty,
        handle: FileHandle,
        job: impl FnOnce(&PassedFile) -> Result<(), Errno> + Send + 'static,
    ) {
        let refusals = self.refusals.clone();
        self.open_files.with_passed(handle.0, move |passed| {
            answer_empty(&refusals, reply, passed.and_then(job));
        });
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_CACHE_SYMLINKS;
        // Without it the kernel would apply only modes where the source has access lists too.
        let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        let lists = config.add_capabilities(lists);
        lists.map_err(|_missing| io::Error::from(io::ErrorKind::Unsupported))?;
        let offered = config.capabilities();
        let added = config.add_capabilities(wanted & offered);
        added.expect("only what is offered was added");
        let mmap = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        let flags = if config.add_capabilities(mmap).is_ok() {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            // Then through the kernel's cache, which writes through: files could not be mapped
            // otherwise.
            FopenFlags::empty()
        };
        let set = self.open_files.open_flags.set(flags);
        set.expect("a session is begun once");
        let nearest = |_nearest| io::Error::from(io::ErrorKind::InvalidInput);
        let most = self.request_bytes;
        config.set_max_write(most).map_err(nearest)?;
        let background = config.set_max_background(BACKGROUND_REQUESTS);
        background
            .map(|_before| ())
            .map_err(|_nearest| io::ErrorKind::InvalidInput.into())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(
            &self.refusals,
            reply,
            self.names.look_up_described(child(parent, name)),
        );
    }

    fn forget(&self, _request: &Request, id: INodeNo, count: u64) {
        if let Some(inode) = self.source.inodes.forget(id.0, count) {
            self.contents.forgotten(&inode);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        id: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let found = self.source.held(id.0);
        match found.and_then(|held| self.names.describe(&held)) {
            Ok(attributes) => reply.attr(&VALID, &attributes),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    #[allow(clippy::disallowed_types, reason = "the library's signature")]
    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        length_bytes: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _checked: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            user,
            group,
            length_bytes,
            accessed,
            modified,
        };
        let (folder, caller) = (self.0.clone(), caller(request));
        self.workers.run(
            move || match folder.open_files.change(id.0, changes, caller) {
                Ok(attributes) => reply.attr(&VALID, &attributes),
                Err(errno) => reply.error(folder.refusals.answer(errno)),
            },
        );
    }

    fn readlink(&self, _request: &Request, id: INodeNo, reply: ReplyData) {
        match self.names.read_link(id.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let mode = NewMode { bits: mode, mask };
        let fresh = Fresh::Node { mode, device };
        let made = self.names.make(child(parent, name), fresh, caller(request));
        answer_entry(&self.refusals, reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        let mode = NewMode { bits: mode, mask };
        let fresh = Fresh::Folder { mode };
        let made = self.names.make(child(parent, name), fresh, caller(request));
        answer_entry(&self.refusals, reply, made);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            &self.refusals,
            reply,
            self.names.remove(child(parent, name), false),
        );
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            &self.refusals,
            reply,
            self.names.remove(child(parent, name), true),
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let fresh = Fresh::Link { target };
        let made = self.names.make(child(parent, name), fresh, caller(request));
        answer_entry(&self.refusals, reply, made);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (child(parent, name), child(new_parent, new_name));
        answer_empty(&self.refusals, reply, self.names.rename(from, to, flags));
    }

    fn link(
        &self,
        _request: &Request,
        id: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        answer_entry(
            &self.refusals,
            reply,
            self.names.link(id.0, child(parent, name)),
        );
    }

    fn open(&self, request: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_files.open(id.0, flags.0, request.pid()) {
            Ok(handle) => reply.opened(FileHandle(handle), self.open_flags_for(flags)),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = NewMode { bits: mode, mask };
        let made = self
            .open_files
            .create(child(parent, name), mode, flags, caller(request));
        match made {
            Ok((attributes, handle)) => {
                let (handle, flags) = (FileHandle(handle), self.open_flags());
                reply.created(&VALID, &attributes, GENERATION, handle, flags);
            }
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        size_bytes: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Ok(open) = self.file(handle) else {
            return self.read_passed(handle.0, offset_bytes, size_bytes, reply);
        };
        if lock_owner.is_none() {
            // Reads by programs name an owner of locks, so this one is for a page that the kernel
            // keeps.
            let end = offset_bytes.saturating_add(u64::from(size_bytes));
            self.open_files.fills_pages(&open, offset_bytes..end);
        }
        let (buffers, refusals) = (self.buffers.clone(), self.refusals.clone());
        self.source.begin("read", async move {
            let mut buffer = buffers.take(size_bytes as usize).await;
            let wanted = &mut buffer[..size_bytes as usize];
            match open.file.as_async().read_at(wanted, offset_bytes).await {
                Ok(length_bytes) => reply.data(&wanted[..length_bytes]),
                Err(error) => reply.error(refusals.answer(access_errno(&error))),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(inside) = self.contents.change_gate.enter() else {
            return reply.error(self.refusals.answer(Errno::SHUTDOWN));
        };
        let refusals = self.refusals.clone();
        let Ok(open) = self.file(handle) else {
            let done = move |written| {
                drop(inside);
                answer_written(&refusals, reply, written);
            };
            let data = data.to_vec();
            return self
                .open_files
                .write_passed(handle.0, offset_bytes, data, done);
        };
        // What lies past the largest length is not written, as below.
        let fitting = match self.source.fitting(&open.used, offset_bytes, data.len()) {
            Ok(fitting) => fitting,
            Err(errno) => return reply.error(self.refusals.answer(errno)),
        };
        let data = &data[..fitting];
        let write = WriteRequest {
            files: self.open_files.clone(),
            refusals,
            open,
            offset_bytes,
            flags: flags.0,
            is_returned: write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            drops_privileges: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            inside,
            reply,
        };
        if let Some(_seat) = self.workers.seat() {
            return write.run(data);
        }
        let Some(room) = self.workers.room_for_copy(data.len()) else {
            // So many writers wait that this write is done here, and a reader may have to wait.
            return write.run(data);
        };
        // The next request needs the memory of this one.
        let data = data.to_vec();
        self.workers.leave(Box::new(move || {
            write.run(&data);
            drop(room);
        }));
    }

    fn flush(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        match self.file(handle) {
            Ok(open) => answer_empty(&self.refusals, reply, self.open_files.flush(&open)),
            Err(_) => self.run_passed(reply, handle, |_passed| Ok(())),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        drop(self.open_files.handles.remove(handle.0));
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        if self.file(handle).is_err() {
            return self.run_passed(reply, handle, move |passed| passed.sync(data_only));
        }
        self.run(reply, handle, move |files, open| {
            files.sync(open, data_only)
        });
    }

    fn opendir(&self, _request: &Request, id: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.names.open_directory(id.0) {
            Ok((directory, may_be_kept)) => {
                let handle = Handle::Directory(Arc::new(directory));
                let handle = self.open_files.handles.insert(handle);
                reply.opened(FileHandle(handle), listing_flags(may_be_kept));
            }
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(directory) = self.open_files.handles.directory(handle.0) else {
            return reply.error(self.refusals.answer(Errno::BADF));
        };
        let walked = directory.walk(offset, |entry| {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let (number, next) = (INodeNo(entry.ino()), entry.next_entry_cookie());
            let is_full = reply.add(number, next, kind(entry.file_type()), name);
            if is_full { Room::Full } else { Room::Left }
        });
        match walked {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let Some(directory) = self.open_files.handles.directory(handle.0) else {
            return reply.error(self.refusals.answer(Errno::BADF));
        };
        let walked = directory.walk(offset, |entry| {
            let bytes = entry.file_name().to_bytes();
            let (name, next) = (OsStr::from_bytes(bytes), entry.next_entry_cookie());
            let is_dots = bytes == b"." || bytes == b"..";
            let looked_up = if is_dots {
                // The kernel knows these two, and does not count them.
                None
            } else {
                // What cannot be described now is looked up when a program asks for it, and
                // that look-up waits for a descriptor if there is none.
                let found = &directory.held;
                let hold = Source::hold;
                self.names.look_up_described_in(found, name, hold).ok()
            };
            let number = looked_up.map_or(INodeNo(0), |attributes| attributes.ino);
            let shown = looked_up.unwrap_or(unknown(entry.ino(), kind(entry.file_type())));
            if !reply.add(number, next, name, &VALID, &shown, GENERATION) {
                return Room::Left;
            }
            if looked_up.is_some()
                && let Some(inode) = self.source.inodes.forget(number.0, 1)
            {
                self.contents.forgotten(&inode);
            }
            Room::Full
        });
        match walked {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        drop(self.open_files.handles.remove(handle.0));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let Some(directory) = self.open_files.handles.directory(handle.0) else {
            return reply.error(self.refusals.answer(Errno::BADF));
        };
        let refusals = self.refusals.clone();
        self.workers
            .run(move || answer_empty(&refusals, reply, directory.sync()));
    }

    fn statfs(&self, _request: &Request, id: INodeNo, reply: ReplyStatfs) {
        let found = self.source.held(id.0);
        match found.and_then(rustix::fs::fstatvfs) {
            Ok(room) => reply.statfs(
                room.f_blocks,
                room.f_bfree,
                room.f_bavail,
                room.f_files,
                room.f_ffree,
                room.f_bsize as u32,
                room.f_namemax as u32,
                room.f_frsize as u32,
            ),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        let set = self
            .names
            .set_attribute(id.0, Attribute { name, value, flags }, caller);
        answer_empty(&self.refusals, reply, set);
    }

    fn getxattr(
        &self,
        _request: &Request,
        id: INodeNo,
        name: &OsStr,
        size_bytes: u32,
        reply: ReplyXattr,
    ) {
        match self.names.attribute(id.0, name, size_bytes as usize) {
            Ok(AttributeAnswer::Length(length_bytes)) => reply.size(length_bytes),
            Ok(AttributeAnswer::Value(value)) => reply.data(&value),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn listxattr(&self, _request: &Request, id: INodeNo, size_bytes: u32, reply: ReplyXattr) {
        match self.names.attribute_names(id.0, size_bytes as usize) {
            Ok(AttributeAnswer::Length(length_bytes)) => reply.size(length_bytes),
            Ok(AttributeAnswer::Value(names)) => reply.data(&names),
            Err(errno) => reply.error(self.refusals.answer(errno)),
        }
    }

    fn removexattr(&self, _request: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            &self.refusals,
            reply,
            self.names.remove_attribute(id.0, name),
        );
    }

    fn fallocate(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        length_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(inside) = self.contents.change_gate.enter() else {
            return reply.error(self.refusals.answer(Errno::SHUTDOWN));
        };
        let Ok(open) = self.file(handle) else {
            let range = offset_bytes..offset_bytes.saturating_add(length_bytes);
            return self.run_passed(reply, handle, move |passed| passed.allocate(mode, range));
        };
        let folder = self.0.clone();
        self.workers.run(move || {
            let range = offset_bytes..offset_bytes.saturating_add(length_bytes);
            let allocate = |files: &OpenFiles, open: &OpenFile| {
                files.allocate(open, offset_bytes, length_bytes, mode)
            };
            let refusals = folder.refusals.clone();
            folder
                .open_files
                .change_bytes(open, range, allocate, move |allocated| {
                    drop(inside);
                    answer_empty(&refusals, reply, allocated);
                });
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset_bytes: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let sought = match whence {
            SEEK_DATA => Sought::Data,
            SEEK_HOLE => Sought::Hole,
            _ => return reply.error(self.refusals.answer(Errno::INVAL)),
        };
        let Ok(offset_bytes) = u64::try_from(offset_bytes) else {
            return reply.error(self.refusals.answer(Errno::NXIO));
        };
        let Ok(open) = self.file(handle) else {
            return self.seek_passed(handle.0, sought.from(offset_bytes), reply);
        };
        let folder = self.0.clone();
        self.workers.run(
            move || match folder.open_files.seek(&open, offset_bytes, sought) {
                Ok(offset_bytes) => reply.offset(offset_bytes as i64),
                Err(errno) => reply.error(folder.refusals.answer(errno)),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestFolder;

    /// A failed write has to reach the close of a handle that may have written.
    #[test]
    fn only_a_handle_that_reads_is_closed_without_a_word() {
        let bench = TestFolder::new();
        let folder = bench.folder.clone();
        let requests = Requests(folder);
        let is_silent = |access: OFlags| {
            let flags = requests.open_flags_for(OpenFlags(access.bits() as i32));
            flags.contains(FopenFlags::FOPEN_NOFLUSH)
        };
        assert!(is_silent(OFlags::RDONLY | OFlags::CLOEXEC));
        assert!(!is_silent(OFlags::WRONLY) && !is_silent(OFlags::RDWR));
        forebay_rt::block_on(bench.cache.close()).unwrap();
    }
}
