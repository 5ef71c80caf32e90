//! A mount for one test: a folder of its own, a small cache, unmounted and checked at the end.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod below;
mod left_out;

pub(crate) use left_out::is_left_out;

use forebay::{AttachedStore, Cache, Settings};
use forebay_base::Span;
use forebay_engine::lab::LabCache;
use forebay_fuse::{Mount, MountFlags, MountParts, MountSettings, Shares};
use forebay_rt::thread::{Stopwatch, pause_current, spawn};
use forebay_rt::{Rt, block_on};
use forebay_store::{
    Failure, Fault, FaultAction, FaultStore, FileStore, FileStoreSettings, IoKind,
};
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// How long a test waits for what has to happen: the kernel reports a last close without waiting
/// for us, and until then a new open gets the old content.
pub(crate) const PATIENCE: Span = Span::from_secs(120);

/// Calls `try_once` until it returns true.
pub(crate) fn until(what: &str, mut try_once: impl FnMut() -> bool) {
    let began = Stopwatch::start();
    while !try_once() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// An empty folder that is mounted through a cache of 16 MiB, unless nothing can be mounted here.
pub(crate) fn mounted() -> Option<TestMount> {
    (!is_left_out()).then(|| TestMount::of_size(16 << 20))
}

/// How long a mount may last: a test that waits for its own mount cannot be killed, and would hold
/// all others until somebody aborts the mount by hand.
const MOUNT_LASTS: Span = Span::from_secs(400);

/// Aborts the mount at `place` if what is returned is still there after [`MOUNT_LASTS`].
fn abort_late(place: PathBuf) -> Arc<()> {
    let lasts = Arc::new(());
    let weak = Arc::downgrade(&lasts);
    let watching = spawn("lifetime", move || {
        pause_current(MOUNT_LASTS);
        if weak.upgrade().is_some() {
            eprintln!("{} is aborted: its test does not end", place.display());
            abort(&place);
        }
    });
    drop(watching.expect("a thread"));
    lasts
}

/// Ends the mount at `place` by force: requests fail, so that nothing waits.
fn abort(place: &Path) {
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
    rustix::mount::unmount(place, flags).unwrap_or_default();
}

/// A mounted folder and its source.
pub(crate) struct TestMount {
    _lasts: Arc<()>,
    folder: TempDir,
    rt: Rt,
    pub(crate) cache: Cache,
    pub(crate) mount: Option<Mount>,
}

impl TestMount {
    /// Mounts an empty folder through a cache of `memory_bytes`.
    pub(crate) fn of_size(memory_bytes: u64) -> TestMount {
        TestMount::with_store(memory_bytes, |cache, _, files| {
            cache.attach(files).expect("a new cache takes a store")
        })
    }

    /// As [`TestMount::of_size`], with the store that `attach` makes known.
    pub(crate) fn with_store(
        memory_bytes: u64,
        attach: impl FnOnce(&Cache, &Rt, Arc<FileStore>) -> AttachedStore,
    ) -> TestMount {
        let folder = tempfile::tempdir().expect("a folder for the test");
        TestMount::in_folder(folder, settings(memory_bytes), attach)
    }

    /// As [`TestMount::with_store`], in a folder that may have a source already.
    pub(crate) fn in_folder(
        folder: TempDir,
        settings: Settings,
        attach: impl FnOnce(&Cache, &Rt, Arc<FileStore>) -> AttachedStore,
    ) -> TestMount {
        for name in ["source", "mount"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let rt = Rt::real();
        let parts = forebay::Parts {
            rt: rt.clone(),
            ..forebay::Parts::default()
        };
        let cache = Cache::with_parts(settings, parts).expect("a cache");
        let files = FileStore::new(FileStoreSettings::default()).expect("a store");
        let store = attach(&cache, &rt, files.clone());
        let parts = MountParts {
            rt: rt.clone(),
            cache: cache.clone(),
            files,
            store,
        };
        let settings = MountSettings {
            source: folder.path().join("source"),
            mount_point: folder.path().join("mount"),
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
            flags: MountFlags::default(),
            shares: Shares::of(256 << 20),
        };
        let mount = Mount::start(&settings, parts).expect("it is mounted");
        TestMount {
            _lasts: abort_late(folder.path().join("mount")),
            folder,
            rt,
            cache,
            mount: Some(mount),
        }
    }

    /// Mounts the folder `source` through a small cache.
    pub(crate) fn over(source: &Path) -> TestMount {
        TestMount::over_with(source, 16 << 20)
    }

    /// Mounts the folder `source` through a cache of `memory_bytes`.
    pub(crate) fn over_with(source: &Path, memory_bytes: u64) -> TestMount {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let link = folder.path().join("source");
        std::os::unix::fs::symlink(source, link).expect("a link");
        TestMount::in_folder(folder, settings(memory_bytes), |cache, _, files| {
            cache.attach(files).expect("a new cache takes a store")
        })
    }

    /// Mounts an empty folder through a cache whose store fails on request.
    pub(crate) fn faulty(memory_bytes: u64) -> (TestMount, Arc<FaultStore>) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        TestMount::faulty_in_folder(folder, settings(memory_bytes))
    }

    /// As [`TestMount::faulty`], in a folder that may have a source already.
    pub(crate) fn faulty_in_folder(
        folder: TempDir,
        settings: Settings,
    ) -> (TestMount, Arc<FaultStore>) {
        let mut kept = None;
        let bench = TestMount::in_folder(folder, settings, |cache, rt, files| {
            let faults = Arc::new(FaultStore::new(rt.clone(), files));
            kept = Some(faults.clone());
            cache.attach(faults).expect("a new cache takes a store")
        });
        (bench, kept.expect("it was made"))
    }

    /// The path of a name in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    /// The path of a name in the source.
    pub(crate) fn behind(&self, name: &str) -> PathBuf {
        self.folder.path().join("source").join(name)
    }

    /// Writes all bytes and times to the source, while their commit is still owed.
    pub(crate) fn write_back_without_commit(&self, faults: &FaultStore) {
        let fails = FaultAction::Fail(Failure::Device(5));
        faults.inject(Fault::each(IoKind::Commit, fails));
        let synced = block_on(self.cache.sync());
        synced.expect_err("it cannot be durable");
        faults.clear();
        assert_eq!(self.cache.statistics().dirty(), 0);
        self.mount.as_ref().expect("it is mounted").settle();
    }

    /// Unmounts, writes everything and checks the cache.
    pub(crate) fn end(&mut self) {
        let mount = self.mount.take().expect("it is ended once");
        mount.unmount().expect("it is unmounted");
        block_on(async {
            // A `sync` of the whole machine may hold the mount for as long as its disks need.
            let ended = self.rt.timeout(Span::from_secs(180), mount.ended()).await;
            if ended.is_err() {
                // This process could not end: it would close its files on its own mount.
                mount.abort();
                panic!("a file is still open");
            }
            self.cache.sync().await.expect("everything can be written");
            // Not later: `close` begins to write back, and a check means something only at rest.
            // The pages of a removed file are dropped by its last user, who may still be at it.
            let mut looks = 0;
            while !self.cache.check().is_empty() && looks < 100 {
                looks += 1;
                self.rt.sleep(Span::from_millis(100)).await;
            }
            assert_eq!(self.cache.check(), Vec::<String>::new());
            mount.close().await;
            self.cache.close().await.expect("everything is written");
        });
        mount.settle();
    }

    /// Unmounts, and tries again and again to close the cache, as an ending server does, for up to
    /// `patience`. Returns how many files were given up.
    pub(crate) fn end_with_losses(&mut self, patience: Span) -> u64 {
        self.end_with_losses_after(patience, || {})
    }

    /// As [`TestMount::end_with_losses`]; calls `mend` when the first try has failed.
    pub(crate) fn end_with_losses_after(&mut self, patience: Span, mend: impl FnOnce()) -> u64 {
        let mount = self.mount.take().expect("it is ended once");
        mount.unmount().expect("it is unmounted");
        let closed = self.rt.timeout(patience, async {
            mount.ended().await;
            mount.close().await;
            let first = self.cache.close().await;
            mend();
            if first.is_err() {
                while self.cache.close().await.is_err() {}
            }
        });
        block_on(closed).expect("the mount does not end");
        mount.losses()
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        // If a test failed, files of this process may still be open, and their last close would
        // wait for an answer of threads that are gone.
        if self.mount.is_some() {
            abort(&self.path(""));
        }
    }
}

/// A cache of `memory_bytes`.
pub(crate) fn settings(memory_bytes: u64) -> Settings {
    Settings {
        memory_bytes,
        ..Settings::default()
    }
}

/// What a file holds, with its name in the panic.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
