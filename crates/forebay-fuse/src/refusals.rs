//! What the mount answers with an error, counted by the name of the error: whatever ends in an
//! error for a program has a counter.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;

/// Names of errors as programs know them.
const NAMES: [(Errno, &str); 41] = [
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::NXIO, "ENXIO"),
    (Errno::BADF, "EBADF"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::XDEV, "EXDEV"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::NFILE, "ENFILE"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::TXTBSY, "ETXTBSY"),
    (Errno::FBIG, "EFBIG"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::SPIPE, "ESPIPE"),
    (Errno::ROFS, "EROFS"),
    (Errno::MLINK, "EMLINK"),
    (Errno::RANGE, "ERANGE"),
    (Errno::DEADLK, "EDEADLK"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::NOTEMPTY, "ENOTEMPTY"),
    (Errno::LOOP, "ELOOP"),
    (Errno::NODATA, "ENODATA"),
    (Errno::OVERFLOW, "EOVERFLOW"),
    (Errno::ILSEQ, "EILSEQ"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::SHUTDOWN, "ESHUTDOWN"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::STALE, "ESTALE"),
    (Errno::UCLEAN, "EUCLEAN"),
    (Errno::REMOTEIO, "EREMOTEIO"),
    (Errno::DQUOT, "EDQUOT"),
];

/// How often programs got each error.
#[derive(Debug)]
pub(crate) struct Refusals {
    /// In the order of [`NAMES`].
    named: [AtomicU64; NAMES.len()],
    others: AtomicU64,
}

impl Refusals {
    pub(crate) fn new() -> Refusals {
        Refusals {
            named: [const { AtomicU64::new(0) }; NAMES.len()],
            others: AtomicU64::new(0),
        }
    }

    /// The error for the kernel's program, which is counted.
    pub(crate) fn answer(&self, errno: Errno) -> fuser::Errno {
        let place = NAMES.iter().position(|(named, _)| *named == errno);
        let count = place.map_or(&self.others, |place| &self.named[place]);
        count.fetch_add(1, Ordering::Relaxed);
        fuser::Errno::from_i32(errno.raw_os_error())
    }

    /// Those that were answered at least once.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let names = NAMES.iter().map(|(_, name)| *name).chain(["other"]);
        let counts = self.named.iter().chain([&self.others]);
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        names.zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_counted_by_its_name() {
        let refusals = Refusals::new();
        assert_eq!(refusals.counts(), []);
        for errno in [Errno::DQUOT, Errno::NOENT, Errno::DQUOT, Errno::CHILD] {
            assert_eq!(refusals.answer(errno).code(), errno.raw_os_error());
        }
        let expected = [("ENOENT", 1), ("EDQUOT", 2), ("other", 1)];
        assert_eq!(refusals.counts(), expected);
    }
}
