//! A folder for one test, without a mount: the test calls what the kernel would request.

use crate::folder::{Folder, Pools};
use crate::handles::{Handle, OpenFile};
use crate::inode::{Inode, ROOT};
use crate::names::ChildName;
use crate::parts::{Names, OpenFiles, Source};
use crate::permissions::Caller;
use crate::permissions::NewMode;
use crate::reaper::Limits;
use crate::settings::{MountFlags, MountParts, MountSettings};
use crate::shares::Shares;
use crate::source::open_folder;
use crate::worker_pool::WorkerPool;
use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_base::sync::Arc;
use forebay_rt::Rt;
use forebay_rt::thread::{Joiner, Stopwatch};
use forebay_rt::wait::Permits;
use forebay_store::{FaultStore, FileStore, FileStoreSettings};
use rustix::fs::{Gid, OFlags, Uid};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How long a test looks for what has to come.
const PATIENCE: Span = Span::from_secs(30);

/// The caller of the requests.
pub(crate) const CALLER: Caller = Caller {
    user: 65_534,
    group: 65_534,
    thread: 0,
};

/// Calls `try_once` until it returns true.
pub(crate) fn until(what: &str, mut try_once: impl FnMut() -> bool) {
    let began = Stopwatch::start();
    while !try_once() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Runs `body` as [`CALLER`], without root's privileges if we have them. Privileges belong to the
/// thread.
pub(crate) fn without_privileges(body: impl FnOnce() + Send + 'static) {
    let is_root = rustix::process::geteuid().is_root();
    let work = forebay_rt::thread::spawn("without privileges", move || {
        let (user, group) = (Uid::from_raw(CALLER.user), Gid::from_raw(CALLER.group));
        if is_root {
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        body();
    });
    work.unwrap().join();
}

/// A name in the folder itself.
pub(crate) fn child(name: &str) -> ChildName<'_> {
    ChildName {
        parent: ROOT,
        name: name.as_ref(),
    }
}

/// The folder, and the source behind it. It has no reaper: only the test lets anything go.
pub(crate) struct TestFolder {
    source: TempDir,
    pub(crate) cache: Cache,
    pub(crate) faults: Arc<FaultStore>,
    pub(crate) folder: Arc<Folder>,
    workers: Vec<Joiner>,
}

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        let source = tempfile::tempdir().unwrap();
        let settings = MountSettings {
            source: source.path().into(),
            mount_point: PathBuf::new(),
            allow_other: false,
            read_only: false,
            flags: MountFlags::default(),
            shares: Shares::of(256 << 20),
        };
        let rt = Rt::real();
        let parts = forebay::Parts {
            rt: rt.clone(),
            ..forebay::Parts::default()
        };
        let memory = Settings {
            memory_bytes: 16 << 20,
            ..Settings::default()
        };
        let cache = Cache::with_parts(memory, parts).unwrap();
        let files = FileStore::new(FileStoreSettings::default()).unwrap();
        let faults = Arc::new(FaultStore::new(rt.clone(), files.clone()));
        let parts = MountParts {
            rt,
            store: cache.attach(faults.clone()).unwrap(),
            cache: cache.clone(),
            files,
        };
        let (workers, mut joiners) = WorkerPool::start(1, 1, 1 << 20).unwrap();
        let (droppers, dropping) = WorkerPool::start(0, 1, 0).unwrap();
        joiners.extend(dropping);
        let root = open_folder(source.path()).unwrap();
        let limits = Limits::of(1024, &settings.shares);
        TestFolder {
            folder: Folder::new(&settings, parts, &root, Pools { workers, droppers }, limits)
                .unwrap(),
            source,
            cache,
            faults,
            workers: joiners,
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.folder.source
    }

    pub(crate) fn names(&self) -> &Names {
        &self.folder.names
    }

    pub(crate) fn files(&self) -> &Arc<OpenFiles> {
        &self.folder.open_files
    }

    /// The path of the folder behind.
    pub(crate) fn behind(&self) -> &Path {
        self.source.path()
    }

    /// Makes a file with the permissions `mode` and opens it for writing.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Arc<OpenFile> {
        let flags = OFlags::WRONLY.bits() as i32;
        let mode = NewMode {
            bits: mode,
            mask: 0,
        };
        let made = self
            .folder
            .open_files
            .create(child(name), mode, flags, CALLER);
        let (_told, handle) = made.unwrap();
        // It is closed when the test drops it.
        match self.folder.open_files.handles.remove(handle) {
            Some(Handle::File(open)) => open,
            other => panic!("{other:?} is no file"),
        }
    }

    /// Does what the reaper does with a closed file in excess.
    pub(crate) async fn retire(folder: Arc<Folder>, inode: Arc<Inode>) {
        let permit = Arc::new(Permits::new(1)).acquire_owned(1).await;
        folder.contents.clone().retire(inode, permit).await;
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        self.folder.workers.stop();
        self.folder.open_files.droppers.stop();
        self.workers.drain(..).for_each(Joiner::join);
    }
}
