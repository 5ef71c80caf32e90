//! Image files and block devices, opened for one server at a time.

use super::arguments::{ImageArguments, ServeArguments};
use super::losses::Image;
use crate::daemon::say::say;
use crate::error::CommandError;
use forebay::{AttachedStore, Cache};
use forebay_base::sync::atomic::AtomicBool;
use forebay_block::{Disk, FileHoles};
use forebay_nbd::Export;
use forebay_store::{FileStore, OpenMode};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Opens every image of `arguments` through `cache`, in order.
pub(super) fn open(
    arguments: &ServeArguments,
    cache: &Cache,
    store: &AttachedStore,
    files: &FileStore,
) -> Result<(Vec<Export>, Vec<Image>), CommandError> {
    let one = |image: &ImageArguments| open_one(arguments, image, cache, store, files);
    arguments.images.iter().map(one).collect()
}

fn open_one(
    arguments: &ServeArguments,
    image: &ImageArguments,
    cache: &Cache,
    store: &AttachedStore,
    files: &FileStore,
) -> Result<(Export, Image), CommandError> {
    let path = &image.path;
    if let Some(length_bytes) = arguments.create_bytes {
        create(path, length_bytes)?;
    }
    let locked = lock(path, arguments.read_only)?;
    let mode = if arguments.read_only {
        OpenMode::ReadOnly
    } else {
        OpenMode::ReadWrite
    };
    let failed = |reason: String| CommandError::Image {
        path: path.clone(),
        reason,
    };
    let opened = files
        .open(path, mode)
        .map_err(|error| CommandError::Opened(error.to_string()))?;
    if opened.length_bytes == 0 {
        return Err(failed(
            "it has no bytes; give it a length with truncate, or make a new one with --create"
                .into(),
        ));
    }
    let file = if arguments.read_only {
        cache.open_read_only(store, opened.object, opened.length_bytes)
    } else {
        cache.open(store, opened.object, opened.length_bytes)
    };
    let file = file.map_err(|error| failed(error.to_string()))?;
    let served = Image {
        path: path.clone(),
        object: opened.object,
        file: file.clone(),
        was_lost: AtomicBool::new(false),
    };
    let disk = Disk::new(file).with_holes(Arc::new(FileHoles::new(locked)));
    let disk = if arguments.read_only {
        disk.read_only()
    } else {
        disk
    };
    Ok((Export::new(&image.name, disk), served))
}

/// Makes the image if it is not there; one that is there must have the length that was given.
fn create(path: &Path, length_bytes: u64) -> Result<(), CommandError> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => {
            let made = file.set_len(length_bytes).and_then(|()| file.sync_all());
            made.and_then(|()| sync_folder(path)).map_err(|error| {
                // It was made just now and is of no use; the next try would find it there, with
                // another length. The error that kept it is the one to tell.
                let _ = std::fs::remove_file(path);
                CommandError::advised("create", path, creating)(error)
            })
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::metadata(path).map_err(CommandError::at("look at", path))?;
            if found.is_file() && found.len() != length_bytes {
                return Err(CommandError::Image {
                    path: path.to_owned(),
                    reason: format!(
                        "it is there and has {} bytes, not {length_bytes}; leave --create out to \
                         serve it as it is",
                        found.len()
                    ),
                });
            }
            Ok(())
        }
        Err(error) => Err(CommandError::advised("create", path, creating)(error)),
    }
}

/// What to do about an image that cannot be made.
fn creating(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; make its folder first",
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
            "; give a smaller --create, or a PATH on a file system that takes such files"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; give a PATH on another disk"
        }
        _ => "",
    }
}

/// What to do about an image that cannot be opened.
fn opening(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; make a new one with --create SIZE, or give another PATH",
        _ => "",
    }
}

/// Makes the name of a new image durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// Opens the image and locks it against another server: two caches before one image would
/// overwrite each other's bytes. Those who only read may share it.
fn lock(path: &Path, read_only: bool) -> Result<File, CommandError> {
    let file = open_unused(path, read_only)?;
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    match flock(&file, operation) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(CommandError::Image {
            path: path.to_owned(),
            reason: "another server has it open; stop that one first".into(),
        }),
        Err(errno) => Err(CommandError::at("lock", path)(errno.into())),
    }
}

/// Opens the image; a device that this machine uses itself is refused, or named to those who only
/// read. While a device is open for writing nobody can mount it.
fn open_unused(path: &Path, read_only: bool) -> Result<File, CommandError> {
    let failed = |errno: Errno| CommandError::advised("open", path, opening)(errno.into());
    let open =
        |more| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | more, Mode::empty());
    let is_device = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
    if is_device {
        match open(OFlags::EXCL) {
            Ok(claimed) if !read_only => return Ok(claimed.into()),
            // Several servers may read it.
            Ok(claimed) => drop(claimed),
            Err(Errno::BUSY) if read_only => say(format_args!(
                "{}: this machine uses it; what is written there meanwhile may not be seen",
                path.display()
            )),
            Err(Errno::BUSY) => {
                return Err(CommandError::Image {
                    path: path.to_owned(),
                    reason: "this machine uses it: it is mounted, or is part of another device; \
                             unmount it first, or give --read-only"
                        .into(),
                });
            }
            Err(errno) => return Err(failed(errno)),
        }
    }
    open(OFlags::empty()).map(File::from).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_image_is_made_and_an_old_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        create(&path, 1 << 20).unwrap();
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        create(&path, 1 << 20).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 1 << 20]);
        let refused = create(&path, 1 << 21).unwrap_err().to_string();
        assert!(refused.contains("1048576 bytes, not 2097152"), "{refused}");
    }

    #[test]
    fn an_image_that_cannot_have_its_length_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let refused = create(&path, u64::MAX).unwrap_err().to_string();
        assert!(refused.contains("give a smaller --create"), "{refused}");
        assert!(!path.exists());
        create(&path, 4096).unwrap();
    }

    #[test]
    fn advice_names_what_serve_has() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none/disk.img");
        let refused = lock(&missing, false).unwrap_err().to_string();
        assert!(
            refused.ends_with("--create SIZE, or give another PATH"),
            "{refused}"
        );
        assert!(!refused.contains("--dir"), "{refused}");
        let refused = create(&missing, 4096).unwrap_err().to_string();
        assert!(refused.ends_with("make its folder first"), "{refused}");
    }

    #[test]
    fn an_image_has_one_writer_or_many_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        create(&path, 4096).unwrap();
        let writer = lock(&path, false).unwrap();
        assert!(lock(&path, false).is_err());
        assert!(lock(&path, true).is_err());
        drop(writer);
        let reader = lock(&path, true).unwrap();
        assert!(lock(&path, true).is_ok());
        drop(reader);
    }
}
