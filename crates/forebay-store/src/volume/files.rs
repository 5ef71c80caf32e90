//! Files and block devices as volumes: made, claimed for one server at a time, opened.

use super::{Medium, Opener, Volume, VolumeError, VolumeMode, VolumeUser};
use crate::claims::{self, Refused};
use crate::error::Failure;
use crate::file::FileStore;
use crate::files::OpenMode;
use crate::holes::{Extent, FileHoles, Holes};
use crate::request::ObjectId;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// What is put before an absolute path where addresses have schemes.
const PREFIX: &[u8] = b"file://";

/// Its addresses are paths, or `file://` before an absolute path, which is taken as it stands.
impl Opener for Arc<FileStore> {
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError> {
        let path = path_of(address)?;
        if let VolumeMode::Create { length_bytes } = mode {
            create(path, length_bytes)?;
        }
        let (claimed, warning) = claim(path, mode.is_read_only())?;
        let access = if mode.is_read_only() {
            OpenMode::ReadOnly
        } else {
            OpenMode::ReadWrite
        };
        let opened = self.open(path, access)?;
        let claimed_as = fstat(&claimed).map(|stat| (stat.st_dev, stat.st_ino));
        let medium = OpenVolume {
            files: self.clone(),
            object: opened.object,
            holes: FileHoles::new(claimed),
            length_bytes: opened.length_bytes,
        };
        let is_claimed = |stat: Stat| claimed_as == Ok((stat.st_dev, stat.st_ino));
        let lent = self.lend(opened.object).map(fstat);
        if !lent.is_some_and(|stat| stat.is_ok_and(is_claimed)) {
            let text = "another file has its name since a moment ago; try again";
            return Err(refused("open", path)(io::Error::other(text)));
        }
        if opened.length_bytes == 0 {
            return Err(VolumeError::Empty {
                address: address.to_owned(),
            });
        }
        Ok(Volume {
            store: self.clone(),
            object: opened.object,
            length_bytes: opened.length_bytes,
            medium: Arc::new(medium),
            warning,
        })
    }
}

/// A file or device that is open, and claimed by what its holes are asked of.
struct OpenVolume {
    files: Arc<FileStore>,
    object: ObjectId,
    holes: FileHoles,
    length_bytes: u64,
}

impl fmt::Debug for OpenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenVolume")
            .field("object", &self.object)
            .field("holes", &self.holes)
            .finish_non_exhaustive()
    }
}

impl OpenVolume {
    /// None of a device, which has its length and is there without its name.
    fn stat_of_file(&self) -> Option<Stat> {
        let file = self.files.named(self.object).ok()?;
        let stat = fstat(file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then_some(stat)
    }
}

impl Drop for OpenVolume {
    fn drop(&mut self) {
        // Nobody else closes it. What a cache has still to write is written under its claim.
        let claim = self.holes.claim();
        let _ = self.files.close_claimed(self.object, claim);
    }
}

impl Holes for OpenVolume {
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        self.holes.extent_at(offset_bytes, end_bytes)
    }
}

impl Medium for OpenVolume {
    fn loss(&self) -> Option<Failure> {
        self.files.commit_failure(self.object)
    }

    fn open_anew(&self) -> Result<(), VolumeError> {
        // It is open for as long as this is there.
        let _ = self.files.open_anew(self.object)?;
        Ok(())
    }

    fn is_cut(&self) -> bool {
        let stat = self.stat_of_file();
        stat.is_some_and(|stat| (stat.st_size as u64) < self.length_bytes)
    }

    fn is_removed(&self) -> bool {
        self.stat_of_file().is_some_and(|stat| stat.st_nlink == 0)
    }
}

fn path_of(address: &OsStr) -> Result<&Path, VolumeError> {
    let Some(path) = address.as_bytes().strip_prefix(PREFIX) else {
        return Ok(Path::new(address));
    };
    if path.starts_with(b"/") {
        return Ok(Path::new(OsStr::from_bytes(path)));
    }
    let text = "file:// stands before an absolute path, and no host";
    let cause = io::Error::new(io::ErrorKind::InvalidInput, text);
    Err(refused("open", Path::new(address))(cause))
}

fn refused(action: &'static str, path: &Path) -> impl Fn(io::Error) -> VolumeError {
    move |cause| VolumeError::Refused {
        action,
        address: path.into(),
        cause,
    }
}

/// Makes the file if it is not there; one that is there must have the length that was given.
fn create(path: &Path, length_bytes: u64) -> Result<(), VolumeError> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => {
            let made = file.set_len(length_bytes).and_then(|()| file.sync_all());
            made.and_then(|()| sync_folder(path)).map_err(|error| {
                // It was made just now and is of no use; the next try would find it there, with
                // another length. The error that kept it is the one to report.
                let _ = std::fs::remove_file(path);
                refused("create", path)(error)
            })
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::metadata(path).map_err(refused("look at", path))?;
            if found.is_file() && found.len() != length_bytes {
                return Err(VolumeError::WrongLength {
                    address: path.into(),
                    found_bytes: found.len(),
                    asked_bytes: length_bytes,
                });
            }
            Ok(())
        }
        Err(error) => Err(refused("create", path)(error)),
    }
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// Opens the file and claims it. Returns what a person should know, too.
fn claim(path: &Path, read_only: bool) -> Result<(File, Option<String>), VolumeError> {
    let Unused {
        file,
        warning,
        unwritable,
    } = open_unused(path, read_only)?;
    match claims::claim(&file, read_only) {
        Ok(()) => Ok((file, warning)),
        Err(Refused::Taken(None)) => Err(in_use(path, VolumeUser::Server)),
        Err(Refused::Taken(Some(holder))) => Err(in_use(path, VolumeUser::Process(holder))),
        Err(Refused::System(errno)) => Err(lock_refused(path, errno, unwritable)),
    }
}

/// The error for a lock that the system refused with `errno`, on a file that could not be opened
/// for writing because of `unwritable`.
fn lock_refused(path: &Path, errno: Errno, unwritable: Option<Errno>) -> VolumeError {
    match unwritable {
        // NFS says only that the descriptor is the wrong one to lock by.
        Some(cause) if errno == Errno::BADF => refused("open for writing", path)(cause.into()),
        _ => refused("lock", path)(errno.into()),
    }
}

fn in_use(path: &Path, user: VolumeUser) -> VolumeError {
    VolumeError::InUse {
        address: path.into(),
        user,
    }
}

/// A file that this machine does not use itself.
struct Unused {
    file: File,
    /// What a person should know.
    warning: Option<String>,
    /// Why it is open for reading only, though it is to be written.
    unwritable: Option<Errno>,
}

/// Opens the file. A device that this machine uses itself is refused to those that write, and comes
/// with a warning to those that only read. While a device is open for writing nobody can mount it.
fn open_unused(path: &Path, read_only: bool) -> Result<Unused, VolumeError> {
    let failed = |errno: Errno| refused("open", path)(errno.into());
    let open = |flags: OFlags| rustix::fs::open(path, OFlags::CLOEXEC | flags, Mode::empty());
    let is_device = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
    let mut warning = None;
    if is_device {
        match open(OFlags::RDONLY | OFlags::EXCL) {
            Ok(claimed) if !read_only => {
                return Ok(Unused {
                    file: claimed.into(),
                    warning: None,
                    unwritable: None,
                });
            }
            // Several servers may read it.
            Ok(claimed) => drop(claimed),
            Err(Errno::BUSY) if read_only => {
                let text = "this machine uses it; what is written there meanwhile may not be seen";
                warning = Some(text.to_owned());
            }
            Err(Errno::BUSY) => return Err(in_use(path, VolumeUser::Machine)),
            Err(errno) => return Err(failed(errno)),
        }
    }
    // NFS lets nobody lock a file for himself alone who cannot write it.
    let for_writing = (!read_only && !is_device).then(|| open(OFlags::RDWR));
    let (opened, unwritable) = match for_writing {
        Some(Ok(file)) => (Ok(file), None),
        // Whoever opens it for its bytes tells why it cannot be written.
        Some(Err(errno)) => (open(OFlags::RDONLY), Some(errno)),
        None => (open(OFlags::RDONLY), None),
    };
    Ok(Unused {
        file: opened.map_err(failed)?.into(),
        warning,
        unwritable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_needs_a_writer_is_refused_with_why_there_is_none() {
        let path = Path::new("/srv/image");
        for cause in [Errno::ACCESS, Errno::ROFS] {
            let said = lock_refused(path, Errno::BADF, Some(cause)).to_string();
            let why = io::Error::from(cause).to_string();
            assert!(
                said.contains("open for writing") && said.contains(&why),
                "{said}"
            );
        }
        let said = lock_refused(path, Errno::IO, Some(Errno::ROFS)).to_string();
        assert!(said.contains("lock"), "{said}");
        assert!(!said.contains("writing"), "{said}");
    }

    #[test]
    fn the_folder_of_a_new_name_is_the_one_that_is_made_durable() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        assert!(sync_folder(&folder.path().join("data")).is_ok());
        assert!(sync_folder(Path::new("data")).is_ok(), "the current one");
        let gone = folder.path().join("no folder").join("data");
        let refused = sync_folder(&gone).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::NotFound));
    }
}
