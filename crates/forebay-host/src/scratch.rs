//! The scratch folder: it is made at the start and removed at the end, whatever ends the program.
//!
//! A running program holds a lock on a file in its folder. If the lock is free, the folder belongs
//! to a program that was killed, and the next one in the same place removes it.

use crate::error::HostError;
use crate::loop_disk::LoopDisk;
use forebay_base::units::show_bytes;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const PREFIX: &str = "forebay-scratch-";
const LOCK_NAME: &str = "owner";

/// The folder of one program. Dropping it removes it with everything in it.
///
/// # Examples
/// ```
/// # let parent = tempfile::tempdir().expect("a temporary folder can be made");
/// let scratch = forebay_host::Scratch::create(parent.path())?;
/// scratch.check_room(4096)?;
/// let folder = scratch.folder().to_owned();
/// assert!(folder.is_dir());
/// drop(scratch);
/// assert!(!folder.exists());
/// # Ok::<(), forebay_host::HostError>(())
/// ```
pub struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `parent`, after removing those that killed programs left there.
    ///
    /// # Errors
    /// [`HostError::Step`] if the system refuses it.
    pub fn create(parent: &Path) -> Result<Scratch, HostError> {
        let parent = parent
            .canonicalize()
            .map_err(HostError::in_scratch("use the folder", parent))?;
        remove_abandoned(&parent)?;
        let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(HostError::in_scratch("make the scratch folder", &folder))?;
        let lock = match lock_folder(&folder) {
            Ok(lock) => lock,
            Err(error) => {
                remove(&folder);
                return Err(error);
            }
        };
        Ok(Scratch {
            folder,
            _lock: lock,
        })
    }

    /// Its absolute path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Refuses a disk that cannot hold `bytes` more.
    ///
    /// # Errors
    /// [`HostError::NoRoom`].
    pub fn check_room(&self, bytes: u64) -> Result<(), HostError> {
        let status = rustix::fs::statvfs(&self.folder)
            .map_err(|e| HostError::in_scratch("ask for room in", &self.folder)(e.into()))?;
        let available = status.f_bavail.saturating_mul(status.f_frsize);
        if available < bytes {
            return Err(HostError::NoRoom {
                path: self.folder.clone(),
                needed: show_bytes(bytes),
                available: show_bytes(available),
            });
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn lock_folder(folder: &Path) -> Result<File, HostError> {
    let path = folder.join(LOCK_NAME);
    let lock = File::create(&path).map_err(HostError::in_scratch("make", &path))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| HostError::in_scratch("lock", &path)(e.into()))?;
    Ok(lock)
}

/// Removes the folders in `parent` whose program is gone.
fn remove_abandoned(parent: &Path) -> Result<(), HostError> {
    let list = |e| HostError::in_scratch("list the folder", parent)(e);
    for entry in fs::read_dir(parent).map_err(list)? {
        let entry = entry.map_err(list)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            eprintln!(
                "removing {}, left by a program that was killed",
                entry.path().display()
            );
            LoopDisk::lift_abandoned(&entry.path());
            remove(&entry.path());
        }
    }
    Ok(())
}

fn is_abandoned(folder: &Path) -> bool {
    // A folder without its lock file may be in the making, or may not be ours.
    File::open(folder.join(LOCK_NAME))
        .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn remove(folder: &Path) {
    if let Err(refused) = fs::remove_dir_all(folder) {
        eprintln!(
            "forebay: cannot remove {}: {refused}; please remove it",
            folder.display()
        );
    }
}

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
