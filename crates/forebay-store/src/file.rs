//! Files and block devices as a store: through io_uring where the system has it, by positioned
//! reads and writes elsewhere.

use crate::Unwritten;
use crate::files::{Files, OpenError, OpenFile, OpenMode, Opened};
use crate::io::{Io, Memory};
use crate::positioned::PositionedQueue;
use crate::request::ObjectId;
use crate::thread_group::ThreadGroup;
use crate::transfer::Addressed;
use crate::uring::Submitter;
use crate::uring::submit_queue::{MemoryNews, MemoryRange};
use crate::{Durability, Failure, Geometry, Store};
use forebay_base::PAGE_BYTES;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Threads that may wait for their own requests at a time; each takes two descriptors. More of them
/// are woken by the ring thread.
const THREAD_RINGS: usize = 32;

/// A file that the store has open. It is not closed before this is dropped.
#[derive(Debug)]
pub struct LentFile(Arc<OpenFile>);

impl AsFd for LentFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.buffered().as_fd()
    }
}

/// By which way a [`FileStore`] asks the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// io_uring if the system lets us have it, else positioned.
    #[default]
    Auto,
    /// io_uring: one thread, requests in batches; a thread that blocks and waits for its own
    /// request has a ring for it.
    Uring,
    /// `preadv` and `pwritev` on a few threads.
    Positioned,
}

/// What a [`FileStore`] is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStoreSettings {
    /// By which way the system is asked.
    pub method: Method,
    /// Requests at the system at once, 1 to 4096; more are taken and wait. With io_uring those that
    /// threads wait for themselves are counted apart: as many again at most.
    pub queue_depth: u32,
    /// Pages of one request at most, 1 to 1024.
    pub max_io_pages: u32,
    /// Whether the kernel's page cache is passed by where a file system lets it. With `false`
    /// every byte is cached twice; it is for comparisons.
    pub direct: bool,
}

impl Default for FileStoreSettings {
    /// io_uring where possible, 128 requests of up to 1 MiB, past the kernel's cache.
    fn default() -> FileStoreSettings {
        FileStoreSettings {
            method: Method::Auto,
            queue_depth: 128,
            max_io_pages: 256,
            direct: true,
        }
    }
}

/// Why a [`FileStore`] could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is out of its range.
    #[error("{setting} of {value}: it has to be 1 to {most}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What it was.
        value: u32,
        /// What it may be at most.
        most: u32,
    },
    /// The system does not let us use io_uring, which was asked for by name.
    #[error("io_uring cannot be used here: {0}; take Method::Auto or Method::Positioned")]
    Uring(std::io::Error),
    /// No thread could be started.
    #[error("a thread of the file store cannot be started: {0}; allow this program more threads")]
    Thread(std::io::Error),
}

/// Files and block devices as a store. Dropping it waits until what was submitted is finished,
/// unless it is dropped by a finisher: then its threads finish the rest and end by themselves.
///
/// ```
/// use forebay_store::{FileStore, FileStoreSettings, OpenMode, Store};
/// let folder = tempfile::tempdir()?;
/// let store = FileStore::new(FileStoreSettings::default())?;
/// let mode = OpenMode::Create { length_bytes: Some(1 << 20) };
/// let opened = store.open(&folder.path().join("data"), mode)?;
/// assert_eq!(opened.length_bytes, 1 << 20);
/// assert_eq!(store.geometry().max_io_pages, 256);
/// store.close(opened.object);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileStore {
    settings: FileStoreSettings,
    files: Files,
    body: Body,
    uring_refusal: Option<String>,
}

enum Body {
    Uring(Submitter),
    Positioned(Pool),
}

impl FileStore {
    /// Starts the threads of a store without files.
    ///
    /// # Errors
    /// [`StartError`] if a setting is out of its range, if io_uring was asked for by name and is
    /// refused, or if no thread can be started.
    pub fn new(settings: FileStoreSettings) -> Result<Arc<FileStore>, StartError> {
        within("queue_depth", settings.queue_depth, 4096)?;
        within("max_io_pages", settings.max_io_pages, 1024)?;
        let (depth, pages) = (
            settings.queue_depth as usize,
            settings.max_io_pages as usize,
        );
        let mut uring_refusal = None;
        let ring = match settings.method {
            Method::Positioned => None,
            Method::Uring => {
                let ring = Submitter::start(depth, pages, THREAD_RINGS);
                Some(ring.map_err(StartError::Uring)?)
            }
            Method::Auto => Submitter::start(depth, pages, THREAD_RINGS)
                .map_err(|refusal| uring_refusal = Some(refusal.to_string()))
                .ok(),
        };
        let body = match ring {
            Some(ring) => Body::Uring(ring),
            None => Body::Positioned(Pool::start(depth, pages).map_err(StartError::Thread)?),
        };
        Ok(Arc::new(FileStore {
            settings,
            files: Files::default(),
            body,
            uring_refusal,
        }))
    }

    /// Opens the file or block device `path`. The same file opened twice is two objects, which a
    /// cache above would not keep in step; so one that was closed and of which a cache has
    /// something to write is refused.
    ///
    /// # Errors
    /// [`OpenError`]: nothing there, not permitted, not a file, no space, or the system's refusal.
    pub fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, OpenError> {
        self.files.open(path, mode, self.settings.direct)
    }

    /// Lets `object`, which was opened for reading only, be written from now on; `path` has to lead
    /// to the same file. Says whether it was open.
    ///
    /// # Errors
    /// As [`FileStore::open`]; the object is then as it was.
    ///
    /// ```
    /// use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("data");
    /// std::fs::write(&path, b"data")?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let opened = store.open(&path, OpenMode::ReadOnly)?;
    /// assert!(store.make_writable(opened.object, &path)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn make_writable(&self, object: ObjectId, path: &Path) -> Result<bool, OpenError> {
        self.files.make_writable(object, path, self.settings.direct)
    }

    /// Opens the file `object` again, so that commits of it succeed after one has failed. Call it
    /// once everybody has heard of that failure who had bytes in the file: what was written since
    /// the last good commit may be lost, and no later commit says so. Says whether it was open.
    ///
    /// # Errors
    /// As [`FileStore::open`]; the object is then as it was.
    ///
    /// ```
    /// use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    /// let file = tempfile::NamedTempFile::new()?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let opened = store.open(file.path(), OpenMode::ReadWrite)?;
    /// assert!(store.open_anew(opened.object)?);
    /// assert_eq!(store.commit_failure(opened.object), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_anew(&self, object: ObjectId) -> Result<bool, OpenError> {
        self.files.open_anew(object, self.settings.direct)
    }

    /// A descriptor that only names the file `object` (`O_PATH`), whatever became of its names.
    ///
    /// ```
    /// use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    ///
    /// let file = tempfile::NamedTempFile::new()?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let opened = store.open(file.path(), OpenMode::ReadOnly)?;
    /// std::fs::remove_file(file.path())?;
    /// assert!(store.named(opened.object).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the system says, or [`std::io::ErrorKind::NotFound`] if it is not open.
    pub fn named(&self, object: ObjectId) -> std::io::Result<OwnedFd> {
        let file = self.files.get(object).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(file.named()?)
    }

    /// The store's own descriptor of the file `object`, if that is open: for calls that ask or tell
    /// something of the file, also when the process has no descriptor left.
    ///
    /// ```
    /// use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    ///
    /// let file = tempfile::NamedTempFile::new()?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let opened = store.open(file.path(), OpenMode::ReadOnly)?;
    /// let lent = store.lend(opened.object).expect("it is open");
    /// store.close(opened.object);
    /// assert_eq!(rustix::fs::fstat(&lent)?.st_size, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lend(&self, object: ObjectId) -> Option<LentFile> {
        self.files.get(object).map(LentFile)
    }

    /// Forgets `object`, and says whether it was open. Requests that were submitted are carried
    /// out; later ones fail with [`Failure::Gone`]. As long as a cache has something of it to
    /// write, it stays open for that; its descriptors are closed when the next file is opened or
    /// closed after that.
    pub fn close(&self, object: ObjectId) -> bool {
        self.files.close(object)
    }

    /// As [`FileStore::close`], of a file that `claim` keeps other servers off.
    pub(crate) fn close_claimed(&self, object: ObjectId, claim: Option<OwnedFd>) -> bool {
        self.files.close_claimed(object, claim)
    }

    /// Forgets `object` as [`FileStore::close`] does, also if a cache has something of it to write:
    /// for whoever has given that up.
    pub fn forget(&self, object: ObjectId) -> bool {
        self.files.forget(object)
    }

    /// The length of `object` now, in bytes.
    ///
    /// # Errors
    /// [`Failure::Gone`] if it is not open, or what the system says.
    pub fn length_bytes(&self, object: ObjectId) -> Result<u64, Failure> {
        let file = self.files.get(object).ok_or(Failure::Gone)?;
        file.length_bytes()
            .map_err(|errno| Failure::from_errno(errno.raw_os_error()))
    }

    /// Why a commit of `object` has failed, if one has. What was written since the last good one
    /// may be lost, and every later commit fails in the same way: the kernel reports a failure
    /// once, and calls the pages written. Close the object, open the file again and write that
    /// again.
    ///
    /// ```
    /// use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    /// let folder = tempfile::tempdir()?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let mode = OpenMode::Create { length_bytes: None };
    /// let opened = store.open(&folder.path().join("data"), mode)?;
    /// assert_eq!(store.commit_failure(opened.object), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_failure(&self, object: ObjectId) -> Option<Failure> {
        self.files.get(object)?.commits().failure()
    }

    /// The way that is used: [`Method::Uring`] or [`Method::Positioned`].
    pub fn method(&self) -> Method {
        match self.body {
            Body::Uring(_) => Method::Uring,
            Body::Positioned(_) => Method::Positioned,
        }
    }

    /// Why io_uring is not used, if [`Method::Auto`] wanted it and the system refused.
    pub fn uring_refusal(&self) -> Option<&str> {
        self.uring_refusal.as_deref()
    }
}

impl Store for FileStore {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: self.settings.max_io_pages,
            write_unit_pages: 1,
            queue_depth: self.settings.queue_depth,
            durability: Durability::OnCommit,
            // Where they must be stable the kernel's cache takes a copy (`stable.rs`).
            stable_pages: false,
        }
    }

    fn submit(&self, io: Io) {
        if io.page_count() > self.settings.max_io_pages as usize {
            return io.fail(Failure::OutOfRange);
        }
        let Some(request) = Addressed::look_up(io, &self.files) else {
            return;
        };
        match &self.body {
            Body::Uring(ring) => ring.submit(request),
            Body::Positioned(pool) => pool.queue.push(request),
        }
    }

    fn is_read_only(&self, object: ObjectId) -> bool {
        let file = self.files.get(object);
        file.is_some_and(|file| !file.is_writable())
    }

    fn attached(&self, unwritten: Arc<dyn Unwritten>) {
        self.files.attached(unwritten);
    }

    fn length_bytes(&self, object: ObjectId) -> Option<u64> {
        let file = self.files.get(object)?;
        file.length_bytes().ok()
    }

    fn register_memory(&self, memory: &Memory) {
        if let Body::Uring(ring) = &self.body {
            ring.send_memory(MemoryNews::Use(MemoryRange::of(memory)));
        }
    }

    fn forget_memory(&self, memory: &Memory) {
        if let Body::Uring(ring) = &self.body {
            ring.send_memory(MemoryNews::Forget(MemoryRange::of(memory)));
        }
    }
}

/// The threads of the positioned body.
struct Pool {
    queue: Arc<PositionedQueue>,
    threads: ThreadGroup,
}

impl Pool {
    /// More threads than this gain nothing: each has one request at the device.
    const MOST_THREADS: usize = 8;

    fn start(queue_depth: usize, max_io_pages: usize) -> std::io::Result<Pool> {
        let mut pool = Pool {
            queue: Arc::new(PositionedQueue::new(queue_depth)),
            threads: ThreadGroup::default(),
        };
        for _ in 0..queue_depth.min(Pool::MOST_THREADS) {
            let queue = Arc::clone(&pool.queue);
            pool.threads
                .start("forebay-file", move || queue.work(max_io_pages))?;
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.stop();
        self.threads.join();
    }
}

fn within(setting: &'static str, value: u32, most: u32) -> Result<(), StartError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(StartError::Setting {
        setting,
        value,
        most,
    })
}
