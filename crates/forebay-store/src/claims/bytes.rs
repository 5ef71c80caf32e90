//! Locks on bytes of an image, by which `qemu` and others keep each other off.
//!
//! `qemu` locks no whole file. For each right that it uses it has a shared lock on one byte, from
//! byte 100 on, and for each right that it does not leave to others on another, from byte 200 on;
//! then it looks whether others have locked the opposite byte of one of its own
//! (`RAW_LOCK_PERM_BASE`, `RAW_LOCK_SHARED_BASE` in its `block/file-posix.c`; the rights are those
//! of `BLK_PERM_*`). The locks belong to the open file, so they end with the claim.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fd::BorrowedFd;

/// The first byte of the rights that are used.
const USED: i64 = 100;
/// The first byte of the rights that are not left to others.
const KEPT: i64 = 200;
/// The right to read what stays the same.
const READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// A lock that somebody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Locked {
    /// Its process, if the lock belongs to one and not to an open file.
    pub(super) process: Option<u32>,
}

/// Locks the bytes by which `qemu` leaves alone what is claimed. A file system without such locks,
/// or a file that is open for writing only, has none.
pub(super) fn lock_bytes(opened: BorrowedFd<'_>, read_only: bool) {
    // A claim that only reads lets others read. One that writes does not: they would not see
    // what is in its memory.
    let bytes: &[i64] = if read_only {
        &[USED + READ, KEPT + WRITE, KEPT + RESIZE]
    } else {
        &[
            USED + READ,
            USED + WRITE,
            USED + RESIZE,
            KEPT + READ,
            KEPT + WRITE,
            KEPT + RESIZE,
        ]
    };
    for &byte in bytes {
        // A lock that excludes this one is found below.
        let _ = fcntl(
            opened,
            FcntlArg::F_OFD_SETLK(&range(libc::F_RDLCK, byte, 1)),
        );
    }
}

/// A lock of another program on bytes of the file that excludes what is asked for: any for a
/// writer; for a reader one that lets nobody read, or by which `qemu` shows that it writes.
pub(super) fn foreign_lock(opened: BorrowedFd<'_>, read_only: bool) -> Option<Locked> {
    const ALL: i64 = 0;
    let is_locked = |kind, first, length| {
        let mut asked = range(kind, first, length);
        // Where it cannot be asked, nobody has such a lock.
        fcntl(opened, FcntlArg::F_OFD_GETLK(&mut asked)).ok()?;
        let is_free = i32::from(asked.l_type) == libc::F_UNLCK;
        (!is_free).then(|| Locked {
            process: u32::try_from(asked.l_pid)
                .ok()
                .filter(|&process| process > 0),
        })
    };
    if !read_only {
        return is_locked(libc::F_WRLCK, 0, ALL);
    }
    let written = [USED + WRITE, USED + RESIZE];
    let written = written.into_iter();
    let mut written = written.filter_map(|byte| is_locked(libc::F_WRLCK, byte, 1));
    is_locked(libc::F_RDLCK, 0, ALL).or_else(|| written.next())
}

fn range(kind: libc::c_int, first: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: first,
        l_len: length,
        // Must be 0 for locks that belong to an open file.
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::{File, OpenOptions};

    #[test]
    fn claims_of_two_openings_see_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        File::create(&path).unwrap();
        let open = || {
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            opened.unwrap()
        };
        let (one, other) = (open(), open());
        assert_eq!(foreign_lock(one.as_fd(), false), None);
        lock_bytes(one.as_fd(), true);
        assert_eq!(foreign_lock(one.as_fd(), false), None, "its own");
        assert_eq!(foreign_lock(other.as_fd(), true), None, "both only read");
        let of_a_file = Some(Locked { process: None });
        assert_eq!(foreign_lock(other.as_fd(), false), of_a_file);
        lock_bytes(one.as_fd(), false);
        assert_eq!(foreign_lock(other.as_fd(), true), of_a_file);
        drop(one);
        assert_eq!(foreign_lock(other.as_fd(), false), None);
    }
}
