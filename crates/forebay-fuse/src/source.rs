//! The folder below, by system calls relative to descriptors.
//!
//! A file is held by an `O_PATH` descriptor: it names the file itself, even if its names change,
//! and needs no permission on its data. Its entry in `/proc/self/fd` serves for what such a
//! descriptor cannot do.

use crate::identity::{IDENTIFYING, Identity};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Stat, Statx, StatxAttributes, StatxFlags, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT, makedev,
};
use rustix::io::Errno;
use rustix::path::DecInt;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

/// The bits of a mode that can be changed.
pub(crate) const PERMISSION_BITS: u32 = 0o7777;

/// The set-user-ID and set-group-ID bits.
pub(crate) const PRIVILEGE_BITS: u32 = 0o6000;

/// The extended attribute that gives a program capabilities.
pub(crate) const CAPABILITY: &str = "security.capability";

/// Leaves the time as it is.
pub(crate) const OMITTED: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_OMIT,
};

/// The current time, as the system sees it.
pub(crate) const PRESENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: UTIME_NOW,
};

/// The entries of `/proc/self/fd`, through which an `O_PATH` descriptor is opened for more.
#[derive(Debug)]
pub(crate) struct Descriptors {
    folder: OwnedFd,
}

impl Descriptors {
    pub(crate) fn new() -> Result<Descriptors, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Descriptors { folder })
    }

    /// Opens the file that `fd` names.
    pub(crate) fn open(&self, fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let name = DecInt::from_fd(fd);
        rustix::fs::openat(
            &self.folder,
            name.as_c_str(),
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )
    }

    /// Sets the permission bits.
    pub(crate) fn change_mode(&self, fd: impl AsFd, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode & PERMISSION_BITS);
        let name = DecInt::from_fd(fd);
        rustix::fs::chmodat(&self.folder, name.as_c_str(), mode, AtFlags::empty())
    }

    /// Sets the times of access and modification.
    pub(crate) fn set_times(
        &self,
        fd: impl AsFd,
        last_access: Timespec,
        last_modification: Timespec,
    ) -> Result<(), Errno> {
        let times = Timestamps {
            last_access,
            last_modification,
        };
        let name = DecInt::from_fd(fd);
        rustix::fs::utimensat(&self.folder, name.as_c_str(), &times, AtFlags::empty())
    }

    /// Gives the file that `fd` names another name.
    pub(crate) fn link(
        &self,
        fd: impl AsFd,
        is_symlink: bool,
        parent: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), Errno> {
        if is_symlink {
            // Following its entry would end at the target on some kernels.
            return rustix::fs::linkat(fd, "", parent, name, AtFlags::EMPTY_PATH);
        }
        let entry = DecInt::from_fd(fd);
        rustix::fs::linkat(
            &self.folder,
            entry.as_c_str(),
            parent,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )
    }

    /// A path that leads to the file while `fd` is open, for calls that take nothing else.
    pub(crate) fn path(fd: impl AsFd) -> String {
        use rustix::fd::AsRawFd;
        format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
    }
}

/// Opens the folder at `path`.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// How a file is opened only to name it.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file as it was found by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    pub(crate) identity: Identity,
    pub(crate) stat: Stat,
    /// Bytes can only be appended to it.
    pub(crate) appends_only: bool,
}

/// The identity and the attributes of the file `name` in `parent`, without a descriptor. One call
/// reports both, so they are those of the same file even if others replace it meanwhile.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &OsStr, how: AtFlags) -> Result<Looked, Errno> {
    let wanted = IDENTIFYING.union(StatxFlags::BASIC_STATS);
    let found = rustix::fs::statx(parent, name, AtFlags::SYMLINK_NOFOLLOW | how, wanted)?;
    Ok(Looked {
        identity: Identity::of(&found),
        stat: stat_of(&found)?,
        appends_only: found.stx_attributes.contains(StatxAttributes::APPEND),
    })
}

/// `found` in the form of `stat`.
fn stat_of(found: &Statx) -> Result<Stat, Errno> {
    /// Only the system makes one of these; every field is replaced.
    static BLANK: OnceLock<Stat> = OnceLock::new();
    let known = BLANK.get().copied();
    let blank = known.map_or_else(|| rustix::fs::stat("/"), Ok)?;
    let mut stat = *BLANK.get_or_init(|| blank);
    stat.st_dev = makedev(found.stx_dev_major, found.stx_dev_minor);
    stat.st_ino = found.stx_ino;
    stat.st_nlink = found.stx_nlink.into();
    stat.st_mode = u32::from(found.stx_mode);
    stat.st_uid = found.stx_uid;
    stat.st_gid = found.stx_gid;
    stat.st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor);
    stat.st_size = found.stx_size as _;
    stat.st_blksize = found.stx_blksize.into();
    stat.st_blocks = found.stx_blocks as _;
    stat.st_atime = found.stx_atime.tv_sec;
    stat.st_atime_nsec = found.stx_atime.tv_nsec.into();
    stat.st_mtime = found.stx_mtime.tv_sec;
    stat.st_mtime_nsec = found.stx_mtime.tv_nsec.into();
    stat.st_ctime = found.stx_ctime.tv_sec;
    stat.st_ctime_nsec = found.stx_ctime.tv_nsec.into();
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Place;

    /// Both are given to the kernel as the state of the same file.
    #[test]
    fn a_file_looks_the_same_by_its_name_as_by_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        std::fs::write(file.path(), vec![7; 5_000]).unwrap();
        std::fs::hard_link(file.path(), folder.path().join("name")).unwrap();
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: -5,
                tv_nsec: 6,
            },
            last_modification: Timespec {
                tv_sec: 7,
                tv_nsec: 8,
            },
        };
        rustix::fs::futimens(file.as_file(), &times).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let parent = open_folder(folder.path()).unwrap();
        for name in ["name", "link", "socket"] {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(&parent, name, flags).unwrap();
            let looked = look(parent.as_fd(), name.as_ref(), AtFlags::empty()).unwrap();
            assert_eq!(format!("{:?}", looked.stat), format!("{stat:?}"), "{name}");
            let (device, number) = (stat.st_dev, stat.st_ino);
            assert_eq!(looked.identity.place, Place { device, number });
        }
        let device = look(
            open_folder(Path::new("/dev")).unwrap().as_fd(),
            "null".as_ref(),
            AtFlags::empty(),
        )
        .unwrap();
        assert_eq!(device.stat.st_rdev, makedev(1, 3));
    }
}
