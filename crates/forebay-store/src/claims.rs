//! Claims: what one process caches no other may cache, or one would undo the writes of the other.
//!
//! A claim is a lock of `flock` on what is really open, so it has no name that could be evaded, it
//! holds between containers, and it ends with its process. A folder that is served covers what lies
//! in it: for that the claims of other processes of this program are looked up in `/proc/locks`.
//! Other programs know nothing of it, so a claim of a file or device also locks the bytes by which
//! `qemu` keeps others off, and byte ranges that other programs have locked are respected
//! (`bytes`).

mod bytes;

use bytes::{Locked, foreign_lock, lock_bytes};
use forebay_base::Span;
use forebay_rt::thread::pause_current;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat};
use rustix::io::Errno;
use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A process that has what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, where the system shows it.
    pub process: Option<u32>,
    /// The name of its program.
    pub program: String,
    /// What it has, if that is not what was asked for.
    pub has: Option<PathBuf>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "process {process} ({})", self.program)?,
            None => f.write_str(&self.program)?,
        }
        match &self.has {
            Some(path) => write!(f, ", which has {}", path.display()),
            None => Ok(()),
        }
    }
}

/// Why something could not be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody has it, or a part of it, or a folder around it; named where the system shows who.
    Taken(Option<Holder>),
    /// The system refuses the lock.
    System(Errno),
}

/// `ENOLCK` is also the answer of a lock service that is only starting, so it is asked again this
/// often before nothing is locked.
const NO_LOCK_PAUSES: u32 = 4;
const NO_LOCK_PAUSE: Span = Span::from_millis(250);

/// Claims the file, device or folder that `opened` is open on, until the last descriptor of this
/// opening is closed: for this process alone, or with others that only read.
///
/// ```
/// use forebay_store::claims::{Refused, claim};
///
/// let folder = tempfile::tempdir()?;
/// let one = std::fs::File::open(folder.path())?;
/// let other = std::fs::File::open(folder.path())?;
/// claim(&one, false).expect("nobody has it");
/// assert!(matches!(claim(&other, true), Err(Refused::Taken(_))));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Where nothing can be locked (a mount of NFS without its lock service, for example), it is
/// claimed without a lock, and the log says so. An answer that may pass (`ENOLCK`, while the lock
/// service starts or the system has no memory for a lock) is believed after 1 s.
///
/// `opened` has to be open for writing if it is a file and the claim is for this process alone:
/// NFS refuses the lock otherwise.
///
/// # Errors
/// [`Refused`].
pub fn claim(opened: impl AsFd, read_only: bool) -> Result<(), Refused> {
    claim_by(opened.as_fd(), read_only, |opened, operation| {
        flock(opened, operation)
    })
}

/// As [`claim`], with the call that locks.
fn claim_by(
    opened: BorrowedFd<'_>,
    read_only: bool,
    mut lock: impl FnMut(BorrowedFd<'_>, FlockOperation) -> Result<(), Errno>,
) -> Result<(), Refused> {
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    let stat = fstat(opened).map_err(Refused::System)?;
    let mut answer = lock(opened, operation);
    let mut pauses = 0..NO_LOCK_PAUSES;
    while answer == Err(Errno::NOLCK) && pauses.next().is_some() {
        pause_current(NO_LOCK_PAUSE);
        answer = lock(opened, operation);
    }
    match answer {
        Ok(()) => {}
        Err(errno) if is_without_locks(errno) => say_unlocked(opened, errno),
        Err(Errno::WOULDBLOCK) => return Err(Refused::Taken(holder_of(&stat))),
        Err(errno) => return Err(Refused::System(errno)),
    }
    let refused = |holder| Err(Refused::Taken(Some(holder)));
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        // Whoever looks first after both have locked sees the other.
        lock_bytes(opened, read_only);
        if let Some(locked) = foreign_lock(opened, read_only) {
            return refused(holder_by(locked));
        }
    }
    let text = read_to_string("/proc/locks").unwrap_or_default();
    let locks: Vec<Lock> = text.lines().filter_map(Lock::read).collect();
    let own = OwnClaim {
        key: key_of(&stat),
        chain: folders_above(opened, &stat),
        read_only,
    };
    match locks.iter().find_map(|lock| own.overlap(lock)) {
        Some(holder) => refused(holder),
        None => Ok(()),
    }
}

/// Whether the answer to a lock means that the file system has none.
fn is_without_locks(errno: Errno) -> bool {
    matches!(errno, Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS)
}

fn say_unlocked(opened: BorrowedFd<'_>, errno: Errno) {
    let path = std::fs::read_link(entry_of(opened)).unwrap_or_default();
    forebay_rt::say(format_args!(
        "{}: its file system cannot lock it ({errno}), so nothing keeps others from changing it; \
         let no other program write there",
        path.display()
    ));
}

fn entry_of(opened: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", opened.as_raw_fd())
}

/// A lock of `flock`, as a line of `/proc/locks` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lock {
    is_exclusive: bool,
    process: Option<u32>,
    /// The device and the number of the file, as the kernel writes them.
    place: String,
}

impl Lock {
    fn read(line: &str) -> Option<Lock> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let kind = words.next()?;
        // One that waits has an arrow here, and holds nothing.
        let (_advisory, access) = (words.next()?, words.next()?);
        let process = words.next()?.parse().ok().filter(|&process| process > 0);
        let place = words.next()?.to_owned();
        (kind == "FLOCK").then_some(Lock {
            is_exclusive: access == "WRITE",
            process,
            place,
        })
    }
}

/// What this process claims.
struct OwnClaim {
    key: (u64, u64),
    /// The folders that have it.
    chain: Vec<(u64, u64)>,
    read_only: bool,
}

impl OwnClaim {
    /// The process that has `lock`, if it is one of this program and has a folder around this, or
    /// something in this.
    fn overlap(&self, lock: &Lock) -> Option<Holder> {
        let process = lock.process?;
        let is_shared = self.read_only && !lock.is_exclusive;
        if is_shared || process == std::process::id() {
            return None;
        }
        if program_of("self") != program_of(&process.to_string()) {
            return None;
        }
        let (found, fd, path) = locked_by(process, &lock.place)?;
        let key = key_of(&found);
        let is_around = self.chain.contains(&key);
        let is_inside = folders_above(&fd, &found).contains(&self.key);
        (is_around || is_inside).then(|| Holder {
            process: Some(process),
            program: program_of(&process.to_string()),
            has: Some(path),
        })
    }
}

/// What the process has open that it has locked at `place`.
fn locked_by(process: u32, place: &str) -> Option<(Stat, OwnedFd, PathBuf)> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let entries = std::fs::read_dir(folder.join("fd")).ok()?;
    entries.flatten().find_map(|entry| {
        let said = read_to_string(folder.join("fdinfo").join(entry.file_name())).ok()?;
        let is_it = said
            .lines()
            .any(|line| line.contains("FLOCK") && line.contains(place));
        if !is_it {
            return None;
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::open(entry.path(), flags, Mode::empty()).ok()?;
        Some((fstat(&fd).ok()?, fd, std::fs::read_link(entry.path()).ok()?))
    })
}

/// The process that has `locked` bytes of a file.
fn holder_by(locked: Locked) -> Holder {
    let program = match locked.process {
        Some(process) => program_of(&process.to_string()),
        None => "a program that has locked bytes of it, as qemu does".to_owned(),
    };
    Holder {
        process: locked.process,
        program,
        has: None,
    }
}

/// The process that has a lock of `flock` on the file of `stat`, if the system shows it and it is
/// not this one.
fn holder_of(stat: &Stat) -> Option<Holder> {
    let text = read_to_string("/proc/locks").unwrap_or_default();
    let place = place_by(stat);
    let mut locks = text.lines().filter_map(Lock::read);
    let lock = locks.find(|lock| lock.place == place)?;
    let process = lock.process.filter(|&it| it != std::process::id())?;
    Some(Holder {
        process: Some(process),
        program: program_of(&process.to_string()),
        has: None,
    })
}

fn program_of(process: &str) -> String {
    let name = read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn place_by(stat: &Stat) -> String {
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    format!("{major:02x}:{minor:02x}:{}", stat.st_ino)
}

fn key_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The folders that have what is open, the nearest first, as far as they can be reached. A file has
/// the folder of the name by which it was opened.
fn folders_above(opened: impl AsFd, stat: &Stat) -> Vec<(u64, u64)> {
    const DEEPEST: usize = 4_096;
    let mut above = Vec::new();
    let mut at = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        folder_at(opened.as_fd(), Path::new(".."))
    } else {
        folder_of(opened.as_fd(), stat)
    };
    while let Some((fd, key)) = at {
        if above.last() == Some(&key) || above.len() >= DEEPEST {
            break;
        }
        above.push(key);
        at = folder_at(&fd, Path::new(".."));
    }
    above
}

fn folder_at(parent: impl AsFd, name: &Path) -> Option<(OwnedFd, (u64, u64))> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?;
    let key = key_of(&fstat(&fd).ok()?);
    Some((fd, key))
}

fn folder_of(opened: impl AsFd, stat: &Stat) -> Option<(OwnedFd, (u64, u64))> {
    let path = std::fs::read_link(entry_of(opened.as_fd())).ok()?;
    let named = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if key_of(&named) != key_of(stat) {
        return None;
    }
    folder_at(CWD, path.parent()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn lock(line: &str) -> Lock {
        Lock::read(line).expect("it is a lock")
    }

    #[test]
    fn lines_of_the_system_are_read() {
        let held = lock("1: FLOCK  ADVISORY  WRITE 708 00:13:1043 0 EOF");
        assert_eq!((held.process, held.is_exclusive), (Some(708), true));
        assert_eq!(held.place, "00:13:1043");
        for other in [
            "1: -> FLOCK  ADVISORY  WRITE 9 00:13:1 0 EOF",
            "3: LEASE  ACTIVE  READ 9 00:13:1 0 EOF",
            "4: OFDLCK ADVISORY  READ -1 fd:00:77 100 101",
        ] {
            assert_eq!(Lock::read(other), None, "{other}");
        }
    }

    #[test]
    fn where_nothing_can_be_locked_all_is_claimed_and_other_refusals_are_told() {
        let file = tempfile::tempfile().unwrap();
        let claim = |answer: Errno| claim_by(file.as_fd(), false, |_, _| Err(answer));
        for none in [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS] {
            assert_eq!(claim(none), Ok(()), "{none}");
        }
        for refusal in [Errno::BADF, Errno::IO, Errno::STALE] {
            assert_eq!(claim(refusal), Err(Refused::System(refusal)));
        }
        assert!(matches!(claim(Errno::WOULDBLOCK), Err(Refused::Taken(_))));
    }

    #[test]
    fn locks_of_bytes_are_respected_where_files_cannot_be_locked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        lock_bytes(other.as_fd(), false);
        let claimed = claim_by(file.as_file().as_fd(), false, |_, _| Err(Errno::NOLCK));
        assert!(matches!(claimed, Err(Refused::Taken(Some(_)))));
    }

    #[test]
    fn a_lack_of_locks_that_passes_does_not_leave_a_claim_without_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut asked = 0;
        let claimed = claim_by(file.as_file().as_fd(), false, |opened, operation| {
            asked += 1;
            if asked < 3 {
                return Err(Errno::NOLCK);
            }
            flock(opened, operation)
        });
        assert_eq!((claimed, asked), (Ok(()), 3));
        let other = File::open(file.path()).unwrap();
        let refused = flock(&other, FlockOperation::NonBlockingLockShared);
        assert_eq!(refused, Err(Errno::WOULDBLOCK), "it is locked");
    }

    #[test]
    fn the_folders_around_a_file_are_found_whatever_led_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("one/two");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), b"").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(deep.join("file"), &link).unwrap();
        let opened = File::open(&link).unwrap();
        let above = folders_above(&opened, &fstat(&opened).unwrap());
        let key = |path: &Path| key_of(&rustix::fs::stat(path).unwrap());
        let wanted = [&*deep, &folder.path().join("one"), folder.path()];
        assert_eq!(above[..3], wanted.map(key));
        assert_eq!(above.last(), Some(&key(Path::new("/"))));
        let root = File::open("/").unwrap();
        assert_eq!(
            folders_above(&root, &fstat(&root).unwrap()),
            [key(Path::new("/"))]
        );
    }
}
