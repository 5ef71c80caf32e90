//! A mount: from the first request to the last byte written.

use crate::buffers::Buffers;
use crate::crossing::Crossings;
use crate::fd_cache::FdCache;
use crate::folder::Folder;
use crate::handles::HandleTable;
use crate::identity::identity_of;
use crate::inode::InodeTable;
use crate::mount_point::MountPoint;
use crate::mounts::name_of;
use crate::parts::{Allocation, Contents, Names, OpenFiles, Source};
use crate::permissions::foreign_list;
use crate::reaper::Limits;
use crate::reaper::Reaper;
use crate::refusals::Refusals;
use crate::requests::Requests;
use crate::room::{Fullness, Rooms};
use crate::shares::{SESSION_THREADS, Shares};
use crate::source::{Descriptors, open_folder};
use crate::worker_pool::WorkerPool;
use forebay::{AttachedStore, Cache};
use forebay_base::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use forebay_rt::thread::Joiner;
use forebay_rt::wait::Gate;
use forebay_rt::{Rt, say};
use forebay_store::FileStore;
use forebay_store::claims::{Holder, Refused, claim};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, makedev};
use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The fewest descriptors with which a mount begins: its own, and those of a few files at a time.
const LEAST_DESCRIPTORS: u64 = 128;
/// How many of its threads may be in a call that waits.
const SEATS: usize = 5;
/// Threads for calls that find no seat.
const WORKER_THREADS: usize = 8;

/// Threads that make the kernel drop pages.
const DROPPERS: usize = 4;

/// What is mounted, and how.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// The folder that is shown.
    pub source: PathBuf,
    /// Where it is shown.
    pub mount_point: PathBuf,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// What else its users may do, and what they get.
    pub flags: MountFlags,
    /// How its memory is shared out; the cache should get [`Shares::cache_bytes`] and
    /// [`Shares::objects`].
    pub shares: Shares,
}

/// What [`mount(2)`] lets users of a mount do; without them as little as FUSE gives.
///
/// [`mount(2)`]: https://man7.org/linux/man-pages/man2/mount.2.html
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the system"
)]
pub struct MountFlags {
    /// Programs there may get the rights of their owner. The system grants it to root alone.
    pub suid: bool,
    /// Devices there work. The system grants it to root alone.
    pub dev: bool,
    /// No program there is executed.
    pub noexec: bool,
    /// A write is durable when it returns.
    pub sync: bool,
}

/// Through what a folder's data goes.
#[derive(Clone)]
pub struct MountParts {
    /// The runtime of the cache.
    pub rt: Rt,
    /// The cache.
    pub cache: Cache,
    /// Files, for this mount alone.
    pub files: Arc<FileStore>,
    /// The same files as the cache knows them: directly, or through wrappers.
    pub store: AttachedStore,
}

impl fmt::Debug for MountParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountParts")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Why a folder cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The source cannot be opened.
    #[error("cannot open {}: {source}; name a folder that can be read", path.display())]
    Source {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process may open too few descriptors.
    #[error(
        "a mount needs at least {least} descriptors and may open {granted}; raise the limit \
         (ulimit -n)"
    )]
    Descriptors {
        /// How many it may open.
        granted: u64,
        /// How many it needs.
        least: u64,
    },
    /// Another process has the source, a part of it, or a folder around it.
    #[error(
        "{} is in use by {}; end that first", path.display(),
        holder.as_ref().map_or("another mount or program".to_owned(), ToString::to_string)
    )]
    InUse {
        /// The source's path.
        path: PathBuf,
        /// Who has it, where the system shows it.
        holder: Option<Holder>,
    },
    /// Other users are allowed, and access lists that a mount cannot apply say what they may do.
    #[error(
        "{} has access lists of a kind ({attribute}) that a mount cannot apply, so others could \
         read what they are denied; mount it without --allow-other", path.display()
    )]
    ForeignLists {
        /// The source's path.
        path: PathBuf,
        /// The attribute that holds the lists.
        attribute: &'static str,
    },
    /// The system refuses the mount.
    #[error("cannot mount at {}: {source}{}", path.display(), advice(source))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that every mount needs is missing.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; name an existing folder, and look whether /dev/fuse is there",
        io::ErrorKind::NotADirectory => "; name a folder",
        io::ErrorKind::NotConnected => {
            "; a mount there was killed: take it away with fusermount3 -u"
        }
        io::ErrorKind::PermissionDenied => {
            "; name a folder of your own, and for --allow-other put user_allow_other into \
             /etc/fuse.conf"
        }
        _ => "",
    }
}

/// A mounted folder. It lives until it is unmounted, from outside or by [`Mount::unmount`]; the
/// caller then has to write what the cache holds.
///
/// ```no_run
/// use forebay::{Cache, Settings};
/// use forebay_fuse::{Mount, MountFlags, MountParts, MountSettings, Shares};
/// use forebay_store::{FileStore, FileStoreSettings};
///
/// let shares = Shares::of(256 << 20);
/// let settings = Settings {
///     memory_bytes: shares.cache_bytes(),
///     objects_limit: shares.objects(),
///     ..Settings::default()
/// };
/// let cache = Cache::new(settings)?;
/// let files = FileStore::new(FileStoreSettings::default())?;
/// let store = cache.attach(files.clone())?;
/// let parts = MountParts { rt: forebay_rt::Rt::real(), cache: cache.clone(), files, store };
/// let mount = Mount::start(
///     &MountSettings {
///         source: "/srv/data".into(),
///         mount_point: "/mnt/data".into(),
///         allow_other: false,
///         read_only: false,
///         flags: MountFlags::default(),
///         shares,
///     },
///     parts,
/// )?;
/// forebay_rt::block_on(async {
///     mount.ended().await;
///     mount.close().await;
///     cache.close().await?;
///     mount.settle();
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mount {
    folder: Arc<Folder>,
    ended: Arc<Gate>,
    point: Arc<MountPoint>,
    /// The file that ends the connection to the kernel by force, if the system shows it.
    abort: Option<OwnedFd>,
    reaper: Option<Joiner>,
    workers: Vec<Joiner>,
    /// Locked against a second mount of the same source.
    _source: OwnedFd,
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("point", &self.point)
            .finish_non_exhaustive()
    }
}

impl Mount {
    /// Mounts a folder; when this returns, requests are answered. As many descriptors as the system
    /// grants are asked for.
    ///
    /// # Errors
    /// [`MountError`] if the source cannot be opened or has a mount already, or if the system
    /// refuses the mount or the threads.
    pub fn start(settings: &MountSettings, parts: MountParts) -> Result<Mount, MountError> {
        let system = |action| move |source| MountError::System { action, source };
        let descriptors = grant_descriptors()?;
        let source = lock_source(settings)?;
        if settings.allow_other
            && let Some(attribute) = foreign_list(&source)
        {
            let path = settings.source.clone();
            return Err(MountError::ForeignLists { path, attribute });
        }
        let request_bytes = settings.shares.request_bytes();
        let workers = WorkerPool::start(SEATS, WORKER_THREADS, request_bytes);
        let (workers, mut joiners) = workers.map_err(system("start threads"))?;
        let (droppers, dropping) =
            WorkerPool::start(0, DROPPERS, 0).map_err(system("start threads"))?;
        joiners.extend(dropping);
        let limits = Limits::of(descriptors, &settings.shares);
        let folder = build(
            settings,
            parts,
            &source,
            Pools { workers, droppers },
            limits,
        )?;
        let requests = Requests(folder.clone());
        let begun = Session::new(requests, &settings.mount_point, &options(settings));
        let mut session = begun.map_err(|source| MountError::Mount {
            path: settings.mount_point.clone(),
            source,
        })?;
        folder.source.reaper.set_notifier(session.notifier());
        record_device(&folder, &settings.mount_point);
        let mount_point = MountPoint::new(&settings.mount_point, session.unmount_callable());
        let ended = Arc::new(Gate::new(false));
        let (reported, served_at) = (ended.clone(), mount_point.clone());
        let served_folder = folder.clone();
        let served = forebay_rt::thread::spawn("forebay-mount", move || {
            let outcome = session.run();
            served_at.session_ended();
            served_folder.open_files.close_handles();
            drop(served_folder);
            // Before anything is printed, which may take a while: the caller waits for the end.
            reported.open();
            if let Err(error) = outcome {
                say(format_args!("the mount has failed: {error}"));
            }
        });
        // It ends with the session, which sets `ended`.
        drop(served.map_err(system("start a thread"))?);
        let kept = folder.clone();
        let reaper = forebay_rt::thread::spawn("forebay-reaper", move || kept.keep())
            .map_err(system("start a thread"))?;
        let mut mount = Mount {
            folder,
            ended,
            point: mount_point,
            abort: None,
            reaper: Some(reaper),
            workers: std::mem::take(&mut joiners),
            _source: source,
        };
        let root = mount.answers()?;
        mount.point.take_over(&root);
        mount.abort = open_abort(&root);
        Ok(mount)
    }

    /// Asks the mount for its root.
    fn answers(&self) -> Result<Stat, MountError> {
        let path = self.point.path();
        // The kernel asks once for the time of birth, and knows then that it is not to ask for it.
        let born = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME);
        let asked = born.and_then(|_born| rustix::fs::stat(path));
        asked.map_err(|errno| MountError::Mount {
            path: self.point.path().to_owned(),
            source: errno.into(),
        })
    }

    /// Returns when the folder was unmounted and nobody has a file of it open.
    pub async fn ended(&self) {
        self.ended.wait().await;
    }

    /// Whether the mount has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_open()
    }

    /// Takes the mount away from new users. A program that has a file open keeps it. A mount that
    /// another program has made at the same place since stays.
    ///
    /// # Errors
    /// What the system says.
    pub fn unmount(&self) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        self.point.leave()
    }

    /// Ends by force a mount that is still in use: the kernel fails its requests, those under way
    /// and later ones. To be called before the process ends: a thread that waits for the kernel,
    /// while the kernel waits for an answer of a thread that is gone, could not be killed.
    pub fn abort(&self) {
        if let Some(abort) = &self.abort {
            // If this fails, the connection has ended meanwhile, or nothing more can be done.
            let _ = rustix::io::write(abort, b"1");
        }
    }

    /// Takes what programs have stored to files that they have mapped and still have open, and
    /// returns when all of it is in the cache. A caller that cuts these programs off calls it
    /// before [`Mount::close`]: the kernel could write nothing afterwards.
    ///
    /// # Errors
    /// What the system says if it gives no thread for that.
    pub async fn take_mapped(&self) -> io::Result<()> {
        let (folder, is_taken) = (self.folder.clone(), Arc::new(Gate::new(false)));
        let reported = is_taken.clone();
        // The kernel makes the calling thread wait for every write, and the writes wait for other
        // threads here.
        let asked = forebay_rt::thread::spawn("forebay-mapped", move || {
            folder.source.take_mapped();
            reported.open();
        });
        // It ends when it opens the gate, or with the mount.
        drop(asked?);
        is_taken.wait().await;
        Ok(())
    }

    /// Allows no change of data from now on, and returns when every change that has begun is done:
    /// what was acknowledged is then in the cache. From then on dirty pages are written, and files
    /// that cannot be made durable are given up ([`Mount::losses`]), so that the mount can end.
    pub async fn close(&self) {
        self.folder.contents.change_gate.close().await;
        let folder = self.folder.clone();
        let write_back = async move { folder.contents.sync_until_settled().await };
        self.folder.source.rt.spawn("write back", write_back);
    }

    /// How often a file was given up because the source had taken its bytes and could not make
    /// them durable: what was written to it since its last good sync may be lost. Each was named on
    /// standard error.
    pub fn losses(&self) -> u64 {
        self.folder.contents.losses.load(Ordering::Acquire)
    }

    /// How full the source is: what of it was refused, and whether it has no room now.
    pub fn fullness(&self) -> Fullness {
        self.folder.allocation.rooms.fullness()
    }

    /// How often programs were answered with an error, by its name.
    pub fn refusals(&self) -> Vec<(&'static str, u64)> {
        self.folder.refusals.counts()
    }

    /// Writes what is dirty, many files at a time. It returns when each was tried; what failed
    /// stays in the cache, which reports it.
    pub async fn write_back(&self) {
        self.folder.contents.sync_contents().await;
    }

    /// Sets the times that were shown of written files in the source; to be called at the end.
    pub fn settle(&self) {
        self.folder.source.settle_all();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The mount may be gone meanwhile, and a caller that drops it does not need the error.
        let _ = self.unmount();
        self.folder.source.reaper.stop();
        self.folder.workers.stop();
        self.folder.open_files.droppers.stop();
        if let Some(reaper) = self.reaper.take() {
            reaper.join();
        }
        self.workers.drain(..).for_each(Joiner::join);
    }
}

/// Takes note of the device that is mounted at `path`, before the first request could lead there.
/// It asks nothing of the mount.
fn record_device(folder: &Folder, path: &Path) {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::empty());
    if let Ok(found) = found {
        let device = makedev(found.stx_dev_major, found.stx_dev_minor);
        folder.names.crossings.mounted_as(device);
    }
}

/// Opens the file that ends the connection of the mount with this root. While it is open it means
/// this connection only, even if the number is used again.
fn open_abort(root: &Stat) -> Option<OwnedFd> {
    let connection = rustix::fs::minor(root.st_dev);
    let path = format!("/sys/fs/fuse/connections/{connection}/abort");
    // It does not exist if the file system of the connections is not mounted.
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Opens the source and claims it: two caches over one folder would overwrite each other's bytes.
fn lock_source(settings: &MountSettings) -> Result<OwnedFd, MountError> {
    let failed = |errno: Errno| MountError::Source {
        path: settings.source.clone(),
        source: errno.into(),
    };
    let source = open_folder(&settings.source).map_err(failed)?;
    match claim(&source, settings.read_only) {
        Ok(()) => Ok(source),
        Err(Refused::Taken(holder)) => {
            let path = settings.source.clone();
            Err(MountError::InUse { path, holder })
        }
        Err(Refused::System(errno)) => Err(failed(errno)),
    }
}

/// The threads of a mount that do not read the kernel's requests.
pub(crate) struct Pools {
    pub(crate) workers: Arc<WorkerPool>,
    /// Those that make the kernel drop pages, and wait for it.
    pub(crate) droppers: Arc<WorkerPool>,
}

/// What serves the folder `source`.
pub(crate) fn build(
    settings: &MountSettings,
    parts: MountParts,
    source: &OwnedFd,
    pools: Pools,
    limits: Limits,
) -> Result<Arc<Folder>, MountError> {
    let failed = |errno: Errno| MountError::Source {
        path: settings.source.clone(),
        source: errno.into(),
    };
    let through = Descriptors::new().map_err(|errno| MountError::System {
        action: "open /proc/self/fd",
        source: errno.into(),
    })?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let root = through.open(source, flags).map_err(failed)?;
    let identity = identity_of(&root).map_err(failed)?;
    let crossings = Crossings::below(&root);
    let source = Arc::new(Source {
        rt: parts.rt,
        files: parts.files,
        inodes: InodeTable::new(root, identity),
        through,
        fd_cache: FdCache::new(limits.held),
        reaper: Reaper::new(),
        limits,
    });
    let names = Arc::new(Names {
        source: source.clone(),
        crossings,
    });
    let allocation = Arc::new(Allocation {
        source: source.clone(),
        cache: parts.cache.clone(),
        rooms: Rooms::new(settings.source.clone()),
    });
    let contents = Arc::new(Contents {
        source: source.clone(),
        cache: parts.cache,
        store: parts.store,
        workers: pools.workers.clone(),
        change_gate: Arc::default(),
        losses: AtomicU64::new(0),
    });
    let open_files = Arc::new(OpenFiles {
        source: source.clone(),
        names: names.clone(),
        contents: contents.clone(),
        allocation: allocation.clone(),
        handles: HandleTable::default(),
        workers: pools.workers.clone(),
        droppers: pools.droppers,
        open_flags: OnceLock::new(),
        syncs_writes: settings.flags.sync,
    });
    Ok(Arc::new(Folder {
        source,
        names,
        contents,
        allocation,
        open_files,
        workers: pools.workers,
        buffers: Arc::new(Buffers::new(settings.shares.request_bytes() as usize)),
        request_bytes: settings.shares.request_bytes(),
        refusals: Arc::new(Refusals::new()),
    }))
}

/// Lets the process open as many descriptors as it may, and returns how many. [`Mount::start`] does
/// it as well; a server calls this first, before it opens anything else.
///
/// # Errors
/// [`MountError::Descriptors`] if they are too few.
pub fn grant_descriptors() -> Result<u64, MountError> {
    let granted = raise_descriptor_limit();
    if granted < LEAST_DESCRIPTORS {
        let least = LEAST_DESCRIPTORS;
        return Err(MountError::Descriptors { granted, least });
    }
    Ok(granted)
}

/// Lets the process open as many descriptors as it may, and says how many these are.
pub fn raise_descriptor_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this fails the old limit stays.
    let raised = rustix::process::setrlimit(Resource::Nofile, wanted);
    let granted = if raised.is_ok() {
        limit.maximum
    } else {
        limit.current
    };
    granted.unwrap_or(u64::MAX)
}

fn options(settings: &MountSettings) -> Config {
    let mut config = Config::default();
    config.n_threads = Some(SESSION_THREADS);
    config.acl = if settings.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.mount_options = vec![
        MountOption::FSName(name_of(&settings.source)),
        MountOption::Subtype("forebay".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    for (is_wanted, option) in [
        (settings.read_only, MountOption::RO),
        (settings.flags.suid, MountOption::Suid),
        (settings.flags.dev, MountOption::Dev),
        (settings.flags.noexec, MountOption::NoExec),
    ] {
        if is_wanted {
            config.mount_options.push(option);
        }
    }
    config
}

/// Whether the system lets this process mount at all: tests call this before they report that they
/// are skipped.
///
/// # Errors
/// What is missing.
pub fn can_mount() -> Result<(), String> {
    let device = Path::new("/dev/fuse");
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::open(device, flags, Mode::empty());
    opened
        .map(|_fd| ())
        .map_err(|errno| format!("{}: {errno}", device.display()))
}
