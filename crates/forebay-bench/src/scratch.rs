//! The scratch folder: it is made at the start and removed at the end, whatever ends the bench.
//!
//! A running bench holds a lock on a file in its folder. If the lock is free, the folder belongs to
//! a bench that was killed, and the next bench in the same place removes it.

use crate::error::BenchError;
use crate::interrupt::Interrupts;
use crate::layout::{CHUNK_BYTES, Layout, stamp_pages};
use crate::loop_disk::LoopDisk;
use forebay_base::units::show_bytes;
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const PREFIX: &str = "forebay-bench-";
const LOCK_NAME: &str = "owner";

/// The folder of one bench. Dropping it removes it with everything in it.
///
/// # Examples
/// ```
/// # let parent = tempfile::tempdir().expect("a temporary folder can be made");
/// let scratch = forebay_bench::Scratch::create(parent.path())?;
/// scratch.check_room(4096)?;
/// let folder = scratch.folder().to_owned();
/// assert!(folder.is_dir());
/// drop(scratch);
/// assert!(!folder.exists());
/// # Ok::<(), forebay_bench::BenchError>(())
/// ```
pub struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `parent`, after removing those that killed benches left there.
    ///
    /// # Errors
    /// [`BenchError::Step`] if the system refuses it.
    pub fn create(parent: &Path) -> Result<Scratch, BenchError> {
        let parent = parent
            .canonicalize()
            .map_err(BenchError::in_scratch("use the folder", parent))?;
        remove_abandoned(&parent)?;
        let folder = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(BenchError::in_scratch("make the scratch folder", &folder))?;
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
    /// [`BenchError::NoRoom`].
    pub fn check_room(&self, bytes: u64) -> Result<(), BenchError> {
        let status = rustix::fs::statvfs(&self.folder)
            .map_err(|e| BenchError::in_scratch("ask for room in", &self.folder)(e.into()))?;
        let available = status.f_bavail.saturating_mul(status.f_frsize);
        if available < bytes {
            return Err(BenchError::NoRoom {
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

fn lock_folder(folder: &Path) -> Result<File, BenchError> {
    let path = folder.join(LOCK_NAME);
    let lock = File::create(&path).map_err(BenchError::in_scratch("make", &path))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| BenchError::in_scratch("lock", &path)(e.into()))?;
    Ok(lock)
}

/// Removes the folders in `parent` whose bench is gone.
fn remove_abandoned(parent: &Path) -> Result<(), BenchError> {
    let list = |e| BenchError::in_scratch("list the folder", parent)(e);
    for entry in fs::read_dir(parent).map_err(list)? {
        let entry = entry.map_err(list)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            eprintln!(
                "removing {}, left by a killed bench",
                entry.path().display()
            );
            LoopDisk::lift_abandoned(&Layout::new(&entry.path(), 0).slow_file());
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

/// Writes the files of `layout`, each page stamped with its number, and drops them from the
/// kernel's page cache.
pub(crate) fn write_files(layout: &Layout, interrupts: &Interrupts) -> Result<(), BenchError> {
    for (path, bytes) in layout.files() {
        write_file(&path, bytes, interrupts)?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: u64, interrupts: &Interrupts) -> Result<(), BenchError> {
    let failed = || BenchError::in_scratch("write", path);
    let mut file = File::create_new(path).map_err(failed())?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut written = 0;
    while written < bytes {
        interrupts.check()?;
        stamp_pages(&mut chunk, written);
        let part = (bytes - written).min(CHUNK_BYTES as u64);
        file.write_all(&chunk[..part as usize]).map_err(failed())?;
        written += part;
    }
    file.sync_all().map_err(failed())?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed()(e.into()))
}

#[cfg(test)]
#[path = "scratch_tests.rs"]
mod tests;
