//! A mount that does nothing: the least that a served folder costs.
//!
//! Every read and write is one `pread` or `pwrite` on the file behind, past the kernel's cache of
//! the mount. The difference from this is the cost of a cache. It shows the files of one folder,
//! without folders in it, and never forgets names: it is for measuring.

use crate::attributes::attributes;
use crate::source::{look, open_folder};
use forebay_base::sync::{Arc, Mutex, lock};
use fuser::{
    Config, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

const VALID: Duration = Duration::from_secs(1);
const GENERATION: Generation = Generation(0);

/// The mount. It ends when this is dropped.
#[derive(Debug)]
pub struct Floor {
    /// Ends with the mount.
    _session: fuser::BackgroundSession,
}

impl Floor {
    /// Shows the files of `source` at `mount_point`; `threads` of them read requests.
    ///
    /// # Errors
    /// What the system says when the source cannot be opened or nothing can be mounted there.
    pub fn start(source: &Path, mount_point: &Path, threads: usize) -> io::Result<Floor> {
        let mut config = Config::default();
        config.n_threads = Some(threads);
        config.mount_options = vec![
            MountOption::FSName(source.display().to_string()),
            MountOption::Subtype("forebay-floor".into()),
            MountOption::NoAtime,
        ];
        let files = Files {
            folder: open_folder(source)?,
            names: Mutex::default(),
            open: Mutex::default(),
        };
        let session = fuser::Session::new(files, mount_point, &config)?;
        Ok(Floor {
            _session: session.spawn()?,
        })
    }
}

/// The files of the source.
struct Files {
    folder: OwnedFd,
    names: Mutex<BTreeMap<u64, OsString>>,
    open: Mutex<Vec<Arc<OwnedFd>>>,
}

fn reported(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

impl Files {
    fn find(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        let stat = look(self.folder.as_fd(), name, AtFlags::empty())?.stat;
        lock(&self.names).insert(stat.st_ino, name.to_owned());
        Ok(attributes(stat.st_ino, &stat))
    }

    fn describe(&self, id: INodeNo) -> Result<FileAttr, Errno> {
        if id == INodeNo::ROOT {
            return Ok(attributes(id.0, &rustix::fs::fstat(&self.folder)?));
        }
        let name = lock(&self.names).get(&id.0).cloned().ok_or(Errno::NOENT)?;
        let stat = look(self.folder.as_fd(), &name, AtFlags::empty())?.stat;
        Ok(attributes(id.0, &stat))
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> Result<FileHandle, Errno> {
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::openat(&self.folder, name, flags | OFlags::CLOEXEC, mode)?;
        let mut open = lock(&self.open);
        open.push(Arc::new(fd));
        Ok(FileHandle(open.len() as u64 - 1))
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<OwnedFd>, Errno> {
        let open = lock(&self.open);
        open.get(handle.0 as usize).cloned().ok_or(Errno::BADF)
    }
}

impl Filesystem for Files {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        let added = config.add_capabilities(wanted & config.capabilities());
        added.expect("only what is offered was added");
        let set = config.set_max_write(1 << 20);
        set.map(|_before| ())
            .map_err(|_nearest| io::ErrorKind::InvalidInput.into())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(name) {
            Ok(found) => reply.entry(&VALID, &found, GENERATION),
            Err(errno) => reply.error(reported(errno)),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        id: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.describe(id) {
            Ok(found) => reply.attr(&VALID, &found),
            Err(errno) => reply.error(reported(errno)),
        }
    }

    fn open(&self, _request: &Request, id: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let name = lock(&self.names).get(&id.0).cloned().ok_or(Errno::NOENT);
        match name.and_then(|name| self.open(&name, OFlags::RDWR)) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(reported(errno)),
        }
    }

    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.open(name, OFlags::RDWR | OFlags::CREATE);
        match made.and_then(|handle| Ok((self.find(name)?, handle))) {
            Ok((found, handle)) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&VALID, &found, GENERATION, handle, flags);
            }
            Err(errno) => reply.error(reported(errno)),
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
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size_bytes as usize];
        let read = self
            .file(handle)
            .and_then(|file| rustix::io::pread(&*file, &mut buffer[..], offset_bytes));
        match read {
            Ok(length_bytes) => reply.data(&buffer[..length_bytes]),
            Err(errno) => reply.error(reported(errno)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self
            .file(handle)
            .and_then(|file| rustix::io::pwrite(&*file, data, offset_bytes));
        match written {
            Ok(length_bytes) => reply.written(length_bytes as u32),
            Err(errno) => reply.error(reported(errno)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _id: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _id: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let file = self.file(handle);
        match file.and_then(|file| rustix::fs::fdatasync(&*file)) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(reported(errno)),
        }
    }
}
