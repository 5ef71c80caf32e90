//! The table of open files and block devices that both bodies of [`FileStore`](crate::FileStore)
//! read and write.
//!
//! A file is open twice: once past the kernel's page cache (`O_DIRECT`), for everything that is
//! made of whole blocks, and once through it, for the bytes at the end of a file that fill no
//! block. The kernel keeps the two in step: it writes back and drops cached pages of a range
//! before a direct request touches it.

use crate::Unwritten;
use crate::commits::Commits;
use crate::error::Failure;
use crate::request::{IoKind, ObjectId, Request};
use crate::stable::{self, Devices};
use crate::write_through;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, StatxFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file or device, for reading; a write fails with [`Failure::ReadOnly`].
    ReadOnly,
    /// An existing file or device, for reading and writing.
    ReadWrite,
    /// A file for reading and writing, made if it does not exist.
    Create {
        /// The length in bytes that it is given; `None` leaves it as it is.
        length_bytes: Option<u64>,
    },
}

/// An open file: the number under which the store knows it, and what it is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number, for requests.
    pub object: ObjectId,
    /// Its length in bytes when it was opened.
    pub length_bytes: u64,
    /// Whether requests pass the kernel's page cache by. If not, the file system refuses
    /// `O_DIRECT` (or the settings do), or would take checksums of pages that change meanwhile
    /// (btrfs, ZFS, a device with `stable_writes`), and every byte is cached twice.
    pub direct: bool,
}

/// Why a file could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there.
    #[error("{}: there is no such file; check the path, or create the file", .0.display())]
    NotFound(PathBuf),
    /// The system forbids it.
    #[error("{}: not permitted; ask for less (read only), or change the permissions", .0.display())]
    NotPermitted(PathBuf),
    /// It lies on a read-only file system.
    #[error("{}: the file system is read-only; only read it, or choose another", .0.display())]
    ReadOnly(PathBuf),
    /// It is neither a file nor a block device.
    #[error("{}: is {what}; name a file or a block device", .path.display())]
    WrongKind {
        /// What was to be opened.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// There is no room for a file of the length that was asked for.
    #[error("{}: no space is left; make room, or ask for a shorter file", .0.display())]
    NoSpace(PathBuf),
    /// It was closed, and a cache has something of it to write.
    #[error(
        "{}: it was closed, and the cache has not written all of it; sync the cache before",
        .0.display()
    )]
    Closing(PathBuf),
    /// The system refused for another reason.
    #[error("{}: cannot {action}: error {errno}; look the number up in errno(3)", .path.display())]
    Refused {
        /// What was to be opened.
        path: PathBuf,
        /// Which step failed.
        action: &'static str,
        /// What the system answered.
        errno: i32,
    },
}

/// A file as the system knows it: its file system and its number there.
type FileKey = (u64, u64);

/// Files that are closing and that each opening and closing asks the cache about: more than one,
/// so that those that are closing become fewer, however many files are opened and closed.
const LOOKS: usize = 4;

/// One open file or block device. Its descriptors are closed with the last reference.
#[derive(Debug)]
pub(crate) struct OpenFile {
    direct: Option<OwnedFd>,
    buffered: OwnedFd,
    /// Through the page cache too, for writes that are made durable by themselves: opened at the
    /// first of them, if it can be. The kernel reports a failure once for each descriptor, so a
    /// failure that such a write reports is left for the next commit to report as well.
    durable: OnceLock<Option<OwnedFd>>,
    writable: bool,
    key: FileKey,
    /// A device's length in bytes, which cannot change; a file's can.
    device_length_bytes: Option<u64>,
    /// A write can be made durable by itself.
    pub(crate) writes_through: bool,
    commits: Arc<Commits>,
}

impl OpenFile {
    /// Its commits, also those of descriptors that were here before these.
    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// The descriptor that passes the page cache by, where there is one.
    pub(crate) fn direct(&self) -> Option<&OwnedFd> {
        self.direct.as_ref()
    }

    /// The descriptor that goes through the page cache.
    pub(crate) fn buffered(&self) -> &OwnedFd {
        &self.buffered
    }

    /// The descriptor for writes through the page cache that are made durable by themselves.
    pub(crate) fn durable(&self) -> Option<&OwnedFd> {
        let opened = self.durable.get_or_init(|| {
            let access = OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(self.entry(), access, Mode::empty()).ok()
        });
        opened.as_ref()
    }

    /// A path that leads to the file for as long as this is there, and is no name of it.
    fn entry(&self) -> String {
        format!("/proc/self/fd/{}", self.buffered.as_raw_fd())
    }

    /// A descriptor that only names it.
    pub(crate) fn named(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self.entry(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    pub(crate) fn is_device(&self) -> bool {
        self.device_length_bytes.is_some()
    }

    /// The length now, in bytes.
    pub(crate) fn length_bytes(&self) -> Result<u64, Errno> {
        match self.device_length_bytes {
            Some(length) => Ok(length),
            None => Ok(rustix::fs::fstat(&self.buffered)?.st_size as u64),
        }
    }

    /// Refuses what needs no system call to be refused.
    pub(crate) fn check(&self, request: Request) -> Result<(), Failure> {
        let changes = !matches!(request.kind, IoKind::Read | IoKind::Commit);
        if changes && !self.writable {
            return Err(Failure::ReadOnly);
        }
        let end = request
            .offset_bytes
            .checked_add(request.length_bytes)
            .filter(|&end| i64::try_from(end).is_ok())
            .ok_or(Failure::OutOfRange)?;
        match (request.kind, self.device_length_bytes) {
            (IoKind::Write | IoKind::Discard, Some(length)) if end > length => {
                Err(Failure::OutOfRange)
            }
            (IoKind::SetLength, Some(length)) if request.offset_bytes != length => {
                Err(Failure::Unsupported)
            }
            _ => Ok(()),
        }
    }
}

/// The open files of a store by their numbers. A number is never used again.
#[derive(Debug, Default)]
pub(crate) struct Files {
    table: Mutex<Table>,
    devices: Devices,
    /// The cache before the store.
    unwritten: Mutex<Option<Arc<dyn Unwritten>>>,
}

#[derive(Debug, Default)]
struct Table {
    open: BTreeMap<ObjectId, Arc<OpenFile>>,
    /// Those of them that are closed, and stay for what a cache has to write.
    closing: BTreeMap<ObjectId, FileKey>,
    /// The last of them that the cache was asked about; none if it begins from the first.
    looked_at: Option<ObjectId>,
    /// What keeps other servers off them until then.
    claims: BTreeMap<ObjectId, OwnedFd>,
    last: u64,
}

impl Table {
    /// Moves `object` to those that are closing. Says whether it was open.
    fn begin_close(&mut self, object: ObjectId) -> bool {
        let key = self.open.get(&object).map(|file| file.key);
        key.is_some_and(|key| self.closing.insert(object, key).is_none())
    }

    /// Some of those that are closing: each call goes on where the last one ended.
    fn next_closing(&mut self) -> Vec<ObjectId> {
        let behind = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.closing.range((behind, Bound::Unbounded)).take(LOOKS);
        let next: Vec<_> = next.map(|(object, _key)| *object).collect();
        self.looked_at = next.last().copied().filter(|_| next.len() == LOOKS);
        next
    }
}

impl Files {
    /// The file with the number `object`, if it is open.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Arc<OpenFile>> {
        lock(&self.table).open.get(&object).cloned()
    }

    /// A cache was put before the store of these files.
    pub(crate) fn attached(&self, unwritten: Arc<dyn Unwritten>) {
        *lock(&self.unwritten) = Some(unwritten);
    }

    /// Forgets `object`; requests that hold it go on, and so does what a cache has of it to write.
    /// Says whether it was open.
    pub(crate) fn close(&self, object: ObjectId) -> bool {
        self.close_claimed(object, None)
    }

    /// The same of a file that `claim` keeps other servers off: it does so until the file is gone.
    pub(crate) fn close_claimed(&self, object: ObjectId, claim: Option<OwnedFd>) -> bool {
        let is_new = {
            let mut table = lock(&self.table);
            let is_new = table.begin_close(object);
            if let Some(claim) = claim.filter(|_| is_new) {
                table.claims.insert(object, claim);
            }
            is_new
        };
        self.let_go(is_new.then_some(object));
        is_new
    }

    /// Refuses a file that is closing: it would be two objects, and what the cache still writes of
    /// the first would lie above what is written to the second.
    fn check_not_closing(&self, path: &Path) -> Result<(), OpenError> {
        if lock(&self.table).closing.is_empty() {
            return Ok(());
        }
        // What cannot be looked at is refused by the opening.
        let Ok(asked) = rustix::fs::stat(path) else {
            return Ok(());
        };
        let key = key_of(&asked);
        let closing = || -> Vec<ObjectId> {
            let table = lock(&self.table);
            let same = table.closing.iter().filter(|(_, other)| **other == key);
            same.map(|(object, _key)| *object).collect()
        };
        self.let_go(closing());
        if closing().is_empty() {
            Ok(())
        } else {
            Err(OpenError::Closing(path.to_owned()))
        }
    }

    /// Forgets those of `first`, and of some others that are closing, of which a cache has nothing
    /// to write.
    fn let_go(&self, first: impl IntoIterator<Item = ObjectId>) {
        let mut asked: BTreeSet<_> = first.into_iter().collect();
        asked.extend(lock(&self.table).next_closing());
        let unwritten = lock(&self.unwritten).clone();
        // A cache is asked without a lock: it may wait for its own.
        let is_needed = |object: &ObjectId| {
            let unwritten = unwritten.as_ref();
            unwritten.is_some_and(|unwritten| unwritten.has_unwritten(*object))
        };
        for object in asked.into_iter().filter(|object| !is_needed(object)) {
            self.forget(object);
        }
    }

    /// Forgets `object`, whatever a cache has of it. Says whether it was open.
    pub(crate) fn forget(&self, object: ObjectId) -> bool {
        let mut table = lock(&self.table);
        let was_closing = table.closing.remove(&object).is_some();
        table.claims.remove(&object);
        table.open.remove(&object).is_some() && !was_closing
    }

    /// Opens `path`, which is the file `object`, for writing too. Submitted requests go on
    /// with what was open before.
    pub(crate) fn make_writable(
        &self,
        object: ObjectId,
        path: &Path,
        direct: bool,
    ) -> Result<bool, OpenError> {
        let (file, _) = self.open_file(path, OpenMode::ReadWrite, direct)?;
        // The new descriptors would not report what the old ones would have.
        Ok(self.exchange(object, |before| OpenFile {
            commits: Arc::clone(&before.commits),
            ..file
        }))
    }

    /// Opens the file `object` again, with commits of its own. Submitted requests go on with what
    /// was open before. Says whether it was open.
    pub(crate) fn open_anew(&self, object: ObjectId, direct: bool) -> Result<bool, OpenError> {
        let Some(before) = self.get(object) else {
            return Ok(false);
        };
        let mode = if before.writable {
            OpenMode::ReadWrite
        } else {
            OpenMode::ReadOnly
        };
        // It may have another name by now, or none.
        let (file, _) = self.open_file(Path::new(&before.entry()), mode, direct)?;
        Ok(self.exchange(object, |_before| file))
    }

    /// Puts another open file in the place of `object`. Says whether that was open.
    fn exchange(&self, object: ObjectId, other: impl FnOnce(&OpenFile) -> OpenFile) -> bool {
        let table = &mut *lock(&self.table);
        let Some(entry) = table.open.get_mut(&object) else {
            return false;
        };
        *entry = Arc::new(other(entry));
        if let Some(key) = table.closing.get_mut(&object) {
            *key = entry.key;
        }
        true
    }

    /// Opens `path`; past the kernel's cache if `direct` and the file system lets it.
    pub(crate) fn open(
        &self,
        path: &Path,
        mode: OpenMode,
        direct: bool,
    ) -> Result<Opened, OpenError> {
        self.let_go(None);
        self.check_not_closing(path)?;
        let (file, length_bytes) = self.open_file(path, mode, direct)?;
        let is_direct = file.direct.is_some();
        let mut table = lock(&self.table);
        table.last += 1;
        let object = ObjectId(table.last);
        table.open.insert(object, Arc::new(file));
        Ok(Opened {
            object,
            length_bytes,
            direct: is_direct,
        })
    }

    /// Opens `path`, and returns it with its length.
    fn open_file(
        &self,
        path: &Path,
        mode: OpenMode,
        direct: bool,
    ) -> Result<(OpenFile, u64), OpenError> {
        let writable = mode != OpenMode::ReadOnly;
        let access = if writable {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let base = access | OFlags::CLOEXEC;
        let (buffered, stat, device_length_bytes) = open_buffered(path, mode, base)?;
        let magic = stable::file_system_magic(&buffered);
        // A page may be overwritten while it is written: the geometry says so.
        let is_copied = writable && self.devices.need_stable_pages(magic, &stat);
        let direct = if direct && !is_copied {
            open_direct(path, base, &stat)
        } else {
            None
        };
        let file = OpenFile {
            writes_through: write_through::is_possible_for(magic, device_length_bytes.is_some()),
            direct,
            buffered,
            durable: OnceLock::new(),
            writable,
            key: key_of(&stat),
            device_length_bytes,
            commits: Arc::default(),
        };
        Ok((file, device_length_bytes.unwrap_or(stat.st_size as u64)))
    }
}

fn key_of(stat: &Stat) -> FileKey {
    (stat.st_dev, stat.st_ino)
}

/// Opens `path` through the kernel's cache, and returns what it is with its length.
fn open_buffered(
    path: &Path,
    mode: OpenMode,
    base: OFlags,
) -> Result<(OwnedFd, Stat, Option<u64>), OpenError> {
    let fd = match mode {
        OpenMode::Create { .. } => open_or_create(path, base)?,
        // Without O_NONBLOCK the open of a named pipe would wait for its other end.
        _ => rustix::fs::open(path, base | OFlags::NONBLOCK, Mode::empty())
            .map_err(|errno| refused(path, "open it", errno))?,
    };
    let look = || rustix::fs::fstat(&fd).map_err(|errno| refused(path, "look at it", errno));
    let mut stat = look()?;
    let device_length_bytes = device_length(path, &fd, &stat)?;
    // Under O_NONBLOCK io_uring would answer EAGAIN where it has to wait for the device.
    rustix::fs::fcntl_setfl(&fd, base - OFlags::CLOEXEC)
        .map_err(|errno| refused(path, "set its flags", errno))?;
    if let OpenMode::Create {
        length_bytes: Some(length),
    } = mode
        && device_length_bytes.is_none()
    {
        rustix::fs::ftruncate(&fd, length)
            .map_err(|errno| refused(path, "set its length", errno))?;
        stat = look()?;
    }
    Ok((fd, stat, device_length_bytes))
}

/// Opens `path`, making it if it is not there. The new name is made durable, so that a later
/// commit of the file leaves something that can be found after a crash.
fn open_or_create(path: &Path, base: OFlags) -> Result<OwnedFd, OpenError> {
    let flags = base | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(|errno| refused(path, "open it", errno)),
    }
    let created = rustix::fs::open(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o644))
        .map_err(|errno| refused(path, "create it", errno))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    rustix::fs::open(
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .and_then(|folder| rustix::fs::fsync(&folder))
    .map_err(|errno| refused(path, "make its name durable", errno))?;
    Ok(created)
}

/// A second descriptor of the file that `first` describes, which passes the page cache by, if its
/// file system can serve blocks of a page in that way.
fn open_direct(path: &Path, base: OFlags, first: &Stat) -> Option<OwnedFd> {
    let fd = rustix::fs::open(path, base | OFlags::DIRECT, Mode::empty()).ok()?;
    let second = rustix::fs::fstat(&fd).ok()?;
    if key_of(first) != key_of(&second) {
        // Somebody put another file in its place since.
        return None;
    }
    let wanted = StatxFlags::DIOALIGN;
    // A kernel that does not know the question leaves the bit out; the open was then the answer.
    if let Ok(reported) = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, wanted)
        && StatxFlags::from_bits_retain(reported.stx_mask).contains(wanted)
    {
        let page = PAGE_BYTES as u32;
        let served = |align: u32| align != 0 && page.is_multiple_of(align);
        if !served(reported.stx_dio_mem_align) || !served(reported.stx_dio_offset_align) {
            return None;
        }
    }
    Some(fd)
}

/// The length of a block device; `None` for a file; an error for everything else.
fn device_length(path: &Path, fd: &OwnedFd, stat: &Stat) -> Result<Option<u64>, OpenError> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(None),
        FileType::BlockDevice => {
            return rustix::fs::seek(fd, SeekFrom::End(0))
                .map(Some)
                .map_err(|errno| refused(path, "learn the length of the device", errno));
        }
        FileType::Directory => "a folder",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "something else",
    };
    Err(OpenError::WrongKind {
        path: path.to_owned(),
        what,
    })
}

fn refused(path: &Path, action: &'static str, errno: Errno) -> OpenError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT => OpenError::NotFound(path),
        Errno::ACCESS | Errno::PERM => OpenError::NotPermitted(path),
        Errno::ROFS => OpenError::ReadOnly(path),
        Errno::ISDIR => OpenError::WrongKind {
            path,
            what: "a folder",
        },
        Errno::NXIO => OpenError::WrongKind {
            path,
            what: "a pipe or a socket",
        },
        Errno::NOSPC => OpenError::NoSpace(path),
        other => OpenError::Refused {
            path,
            action,
            errno: other.raw_os_error(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A cache that counts what it is asked, and has something of each file until it is `done`.
    #[derive(Debug, Default)]
    struct Asked {
        times: AtomicUsize,
        is_done: AtomicBool,
    }

    impl Unwritten for Asked {
        fn has_unwritten(&self, _object: ObjectId) -> bool {
            self.times.fetch_add(1, Ordering::Relaxed);
            !self.is_done.load(Ordering::Relaxed)
        }
    }

    const CLOSED: usize = 100;

    #[test]
    fn the_cost_of_an_open_does_not_grow_with_files_that_close() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (files, asked) = (Files::default(), Arc::new(Asked::default()));
        files.attached(asked.clone());
        let open = |name: &str| {
            let mode = OpenMode::Create { length_bytes: None };
            files.open(&folder.path().join(name), mode, false)
        };
        for number in 0..CLOSED {
            let opened = open(&number.to_string()).expect("there is room");
            assert!(files.close(opened.object));
            assert!(!files.close(opened.object), "it is closed already");
        }
        let times_before = asked.times.load(Ordering::Relaxed);
        let other = open("other").expect("there is room").object;
        let times = asked.times.load(Ordering::Relaxed) - times_before;
        assert!(times <= LOOKS, "{times} files were asked about");
        let refused = open("50").expect_err("it is closing");
        assert!(matches!(refused, OpenError::Closing(_)), "{refused}");
        // One that can go is let go when it is wanted, and the others little by little.
        asked.is_done.store(true, Ordering::Relaxed);
        let again = open("50").expect("nothing keeps it").object;
        for _ in 0..=CLOSED.div_ceil(LOOKS) {
            files.close(ObjectId(u64::MAX));
        }
        let table = lock(&files.table);
        assert!(table.closing.is_empty(), "{:?}", table.closing);
        assert_eq!(
            table.open.keys().copied().collect::<Vec<_>>(),
            [other, again]
        );
    }
}
