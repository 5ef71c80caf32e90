//! A mount for one test: a folder of its own, a small cache, unmounted and checked at the end.

use forebay::{AttachedStore, Cache, Settings};
use forebay_fuse::{Mount, MountParts, MountSettings, can_mount};
use forebay_rt::{Rt, block_on};
use forebay_store::{FileStore, FileStoreSettings};
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Says that the test `name` is left out and why, if nothing can be mounted here.
pub(crate) fn is_left_out(name: &str) -> bool {
    match can_mount() {
        Ok(()) => false,
        Err(missing) => {
            println!("test {name} ... ignored, cannot mount: {missing}");
            true
        }
    }
}

/// A mounted folder and what is behind it.
pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) cache: Cache,
    pub(crate) mount: Option<Mount>,
}

impl Bench {
    /// Mounts an empty folder through a cache of `memory_bytes`.
    pub(crate) fn of_size(memory_bytes: u64) -> Bench {
        Bench::with_store(memory_bytes, |cache, files| {
            cache.attach(files).expect("a new cache takes a store")
        })
    }

    /// As [`Bench::of_size`], with the store that `attach` makes known.
    pub(crate) fn with_store(
        memory_bytes: u64,
        attach: impl FnOnce(&Cache, std::sync::Arc<FileStore>) -> AttachedStore,
    ) -> Bench {
        let folder = tempfile::tempdir().expect("a folder for the test");
        for name in ["source", "mount"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let rt = Rt::real();
        let settings = Settings {
            memory_bytes,
            ..Settings::default()
        };
        let parts = forebay::Parts {
            rt: rt.clone(),
            ..forebay::Parts::default()
        };
        let cache = Cache::with_parts(settings, parts).expect("a cache");
        let files = FileStore::new(FileStoreSettings::default()).expect("a store");
        let store = attach(&cache, files.clone());
        let parts = MountParts {
            rt,
            cache: cache.clone(),
            files,
            store,
        };
        let settings = MountSettings {
            source: folder.path().join("source"),
            mount_point: folder.path().join("mount"),
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
        };
        let mount = Mount::start(&settings, parts).expect("it is mounted");
        Bench {
            folder,
            cache,
            mount: Some(mount),
        }
    }

    /// The path of a name in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    /// The path of a name in the folder behind.
    pub(crate) fn behind(&self, name: &str) -> PathBuf {
        self.folder.path().join("source").join(name)
    }

    /// Unmounts, writes everything and checks the cache.
    pub(crate) fn end(&mut self) {
        let mount = self.mount.take().expect("it is ended once");
        mount.unmount().expect("it is unmounted");
        block_on(async {
            mount.ended().await;
            mount.close().await;
            self.cache.sync().await.expect("everything can be written");
            assert_eq!(self.cache.check(), Vec::<String>::new());
            self.cache.close().await.expect("everything is written");
        });
        mount.settle();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A test that failed: files of this very process may still be open, and their last close
        // would wait for an answer of threads that are gone. By force nobody waits.
        if self.mount.is_some() {
            let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
            rustix::mount::unmount(self.path(""), flags).unwrap_or_default();
        }
    }
}

/// What a file holds, with its name in the panic.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
