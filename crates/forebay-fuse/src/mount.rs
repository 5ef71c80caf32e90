//! A mount: from the first request to the last byte written.

use crate::folder::{Folder, Pools};
use crate::mount_point::MountPoint;
use crate::mounts::name_of;
use crate::permissions::foreign_list;
use crate::reaper::Limits;
use crate::requests::Requests;
use crate::room::Fullness;
use crate::settings::{MountError, MountParts, MountSettings};
use crate::shares::SESSION_THREADS;
use crate::source::open_folder;
use crate::worker_pool::WorkerPool;
use forebay_base::sync::{Arc, atomic::Ordering};
use forebay_rt::say;
use forebay_rt::thread::Joiner;
use forebay_rt::wait::Gate;
use forebay_store::claims::{Refused, claim};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, makedev};
use rustix::io::Errno;
use rustix::process::Resource;
use std::fmt;
use std::io;
use std::path::Path;

/// The fewest descriptors with which a mount begins: its own, and those of a few files at a time.
const LEAST_DESCRIPTORS: u64 = 128;
/// How many of its threads may be in a call that waits.
const SEATS: usize = 5;
/// Threads for calls that find no seat.
const WORKER_THREADS: usize = 8;

/// Threads that make the kernel drop pages.
const DROPPERS: usize = 4;

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
        let folder = Folder::new(
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
