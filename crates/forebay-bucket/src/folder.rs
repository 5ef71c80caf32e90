//! A folder as a bucket: an object is a file, made by a link to its name once its bytes are
//! durable. For tests, for a disk, and for a folder that several machines share.

use crate::bucket::{Bucket, CallError};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_store::Failure;
use forebay_store::claims::{self, Refused};
use forebay_volume::{Call, Reply};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Objects that are being made. Nobody lists them.
const UNFINISHED: &str = "unfinished";

/// A folder with objects.
///
/// ```
/// use forebay_bucket::{Bucket, FolderBucket};
/// use forebay_volume::{Call, Reply};
/// use std::sync::Arc;
/// let folder = tempfile::tempdir()?;
/// let bucket = FolderBucket::open(&folder.path().join("volume"), true)?;
/// let make = Call::Make { key: "log/1".into(), bytes: Arc::new(b"first".to_vec()) };
/// assert_eq!(bucket.ask(&make)?, Reply::Done);
/// assert_eq!(bucket.ask(&make)?, Reply::Exists);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FolderBucket {
    /// Claimed together with other servers of volumes, and against mounts that show it.
    _claimed: File,
    root: PathBuf,
    /// Makes the names of unfinished objects this one's own.
    number: u128,
    made: AtomicU64,
    /// Folders whose own names are durable.
    durable: Mutex<BTreeSet<PathBuf>>,
    /// Something could not be made durable. Asking the system again may succeed without the bytes
    /// being there, so nothing is answered any more.
    is_broken: AtomicBool,
}

impl FolderBucket {
    /// The folder `root`, which is made if `creates`. The folder above has to be there.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(root: &Path, creates: bool) -> io::Result<FolderBucket> {
        if creates {
            match fs::create_dir(root) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => sync_folder(root.parent().unwrap_or(root))?,
            }
        }
        if !fs::metadata(root)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(FolderBucket {
            _claimed: claimed(root)?,
            root: root.to_owned(),
            number: forebay_rt::fresh_number()?,
            made: AtomicU64::new(0),
            durable: Mutex::default(),
            is_broken: AtomicBool::new(false),
        })
    }

    fn make(&self, key: &str, bytes: &[u8]) -> io::Result<Reply> {
        let path = self.root.join(key);
        let folder = path.parent().unwrap_or(&self.root);
        self.make_folders(folder)?;
        self.make_folders(&self.root.join(UNFINISHED))?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:032x}-{number}", self.number);
        let unfinished = self.root.join(UNFINISHED).join(name);
        let made = write_durably(&unfinished, bytes).and_then(|()| {
            match fs::hard_link(&unfinished, &path) {
                Ok(()) => Ok(Reply::Done),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Reply::Exists),
                Err(error) => Err(error),
            }
        });
        // See `sweep`.
        let _ = fs::remove_file(&unfinished);
        let reply = made?;
        // Also if it was there: its maker may have ended before this step.
        self.durably(sync_folder(folder))?;
        Ok(reply)
    }

    /// Makes `folder` and those above it, below the root, durably.
    fn make_folders(&self, folder: &Path) -> io::Result<()> {
        if folder == self.root || lock(&self.durable).contains(folder) {
            return Ok(());
        }
        let above = folder.parent().unwrap_or(&self.root);
        self.make_folders(above)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => self.durably(sync_folder(above))?,
        }
        lock(&self.durable).insert(folder.to_owned());
        Ok(())
    }

    fn durably(&self, synced: io::Result<()>) -> io::Result<()> {
        if synced.is_err() {
            self.is_broken.store(true, Ordering::Release);
        }
        synced
    }

    fn get(&self, key: &str, range: Option<&std::ops::Range<u64>>) -> io::Result<Reply> {
        let mut file = match File::open(self.root.join(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reply::Missing),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        match range {
            None => file.read_to_end(&mut bytes)?,
            Some(range) => {
                file.seek(SeekFrom::Start(range.start))?;
                file.take(range.end - range.start).read_to_end(&mut bytes)?
            }
        };
        Ok(Reply::Bytes(bytes))
    }

    fn list(&self, prefix: &str) -> io::Result<Reply> {
        let mut keys = Vec::new();
        self.list_into(prefix.trim_end_matches('/'), &mut keys)?;
        Ok(Reply::Keys(keys))
    }

    fn list_into(&self, folder: &str, keys: &mut Vec<(String, u64)>) -> io::Result<()> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let key = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => self.list_into(&key, keys)?,
                Ok(metadata) => keys.push((key, metadata.len())),
                // `gc` has removed it meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Bucket for FolderBucket {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        if self.is_broken.load(Ordering::Acquire) {
            let text = "the directory could not make data durable; check its disk, then reopen it";
            return Err(CallError::lasting(text, Failure::Device(5)));
        }
        let answered = match call {
            Call::Make { key, bytes } => self.make(key, bytes),
            Call::Get { key, range } => self.get(key, range.as_ref()),
            Call::List { prefix } => self.list(prefix),
            Call::Remove { key } => match fs::remove_file(self.root.join(key)) {
                Ok(()) => Ok(Reply::Done),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Reply::Missing),
                Err(error) => Err(error),
            },
        };
        answered.map_err(|error| CallError {
            text: error.to_string(),
            failure: Failure::from_errno(error.raw_os_error().unwrap_or(5)),
            is_lasting: matches!(
                error.kind(),
                ErrorKind::PermissionDenied
                    | ErrorKind::StorageFull
                    | ErrorKind::ReadOnlyFilesystem
            ),
        })
    }

    fn sweep(&self) {
        let own = format!("{:032x}", self.number);
        let Ok(entries) = fs::read_dir(self.root.join(UNFINISHED)) else {
            return;
        };
        for entry in entries.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(&own) {
                // What cannot be removed takes room, and nothing depends on it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn claimed(root: &Path) -> io::Result<File> {
    let folder = File::open(root)?;
    match claims::claim(&folder, true) {
        Ok(()) => Ok(folder),
        Err(Refused::Taken(holder)) => {
            let holder = holder.map_or("another process".to_owned(), |it| it.to_string());
            let text = format!("it is in use by {holder}; end that first");
            Err(io::Error::other(text))
        }
        Err(Refused::System(errno)) => Err(errno.into()),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
