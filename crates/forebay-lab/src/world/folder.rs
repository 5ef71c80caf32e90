//! A real folder instead of a machine's file systems.

use super::WorldError;
use super::volume::{Answer, Volume};
use crate::plan::RunError;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_store::{FileStore, FileStoreSettings, ObjectId, OpenMode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of its own inside the given one. It is removed with this value, which the maker of the
/// world keeps, because a task that holds the world may outlive the program's last statement.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new(inside: &Path) -> Result<Scratch, RunError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = inside.join(format!("forebay-lab-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| RunError::System(format!("{}: {error}", path.display())))?;
        Ok(Scratch { path })
    }

    /// A store of files in a folder called `name`.
    pub(super) fn folder(&self, name: &str) -> Result<(Arc<FileStore>, Folder), RunError> {
        let path = self.path.join(name);
        std::fs::create_dir(&path)
            .map_err(|error| RunError::System(format!("{}: {error}", path.display())))?;
        let store = FileStore::new(FileStoreSettings::default())
            .map_err(|error| RunError::System(error.to_string()))?;
        let folder = Folder {
            store: store.clone(),
            path,
            paths: Mutex::new(BTreeMap::new()),
        };
        Ok((store, folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("forebay: {} stays behind: {error}", self.path.display());
        }
    }
}

/// Files of a folder, flat, without the directories that were asked for.
pub(super) struct Folder {
    store: Arc<FileStore>,
    path: PathBuf,
    paths: Mutex<BTreeMap<ObjectId, PathBuf>>,
}

impl Folder {
    /// Makes a file of `length_bytes`, sparse if need be.
    pub(super) fn make(&self, name: &str, length_bytes: u64) -> Result<ObjectId, WorldError> {
        let path = self.path.join(name);
        let mode = OpenMode::Create {
            length_bytes: Some(length_bytes),
        };
        let opened = self
            .store
            .open(&path, mode)
            .map_err(|error| WorldError::File {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
        lock(&self.paths).insert(opened.object, path);
        Ok(opened.object)
    }
}

impl Volume for Folder {
    fn create<'a>(&'a self, directory: u64, name: &'a str) -> Answer<'a, ObjectId> {
        let made = self.make(&format!("{directory}-{name}"), 0);
        Box::pin(async move { made })
    }

    fn lay_out<'a>(&'a self, name: &'a str, length_bytes: u64) -> Answer<'a, ObjectId> {
        let made = self.make(name, length_bytes);
        Box::pin(async move { made })
    }

    fn remove(&self, object: ObjectId) -> Answer<'_, ()> {
        self.store.close(object);
        let path = lock(&self.paths).remove(&object);
        let removed = path.map_or(Ok(()), |path| {
            std::fs::remove_file(&path).map_err(|error| WorldError::File {
                path: path.display().to_string(),
                reason: error.to_string(),
            })
        });
        Box::pin(async move { removed })
    }

    /// What is dirty of it is still to be written, so it stays open until it is removed.
    fn close(&self, _object: ObjectId) {}

    fn reaches(&self, _object: ObjectId, _bytes: Range<u64>) -> Result<(), WorldError> {
        Ok(())
    }

    fn room_bytes(&self) -> u64 {
        // The system reports when it is full.
        u64::MAX
    }
}
