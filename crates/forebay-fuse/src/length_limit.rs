//! How long a file may be in the source's file system.
//!
//! A write past this length would be taken into memory, but its pages could never be written.

use crate::handles::ContentUse;
use crate::parts::Source;
use rustix::fd::AsFd;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Every file system that can be mounted takes files of this length.
const SURELY_FITS: u64 = 1 << 24;
/// No system call can name a place past it.
const NAMEABLE: u64 = i64::MAX as u64;

impl Source {
    /// Refuses a change that reaches `end` if the source takes no file of that length.
    ///
    /// # Errors
    /// [`Errno::FBIG`] if it does not.
    pub(crate) fn must_fit(&self, used: &ContentUse, end: u64) -> Result<(), Errno> {
        if end <= self.largest(used, end) {
            return Ok(());
        }
        Err(Errno::FBIG)
    }

    /// How many of `length_bytes` from `offset_bytes` on the source takes, as its own file system
    /// answers a write: those before the largest length.
    ///
    /// # Errors
    /// [`Errno::FBIG`] if it takes none.
    pub(crate) fn fitting(
        &self,
        used: &ContentUse,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Result<usize, Errno> {
        let end = offset_bytes.saturating_add(length_bytes as u64);
        let largest = self.largest(used, end);
        if end <= largest {
            return Ok(length_bytes);
        }
        let fitting = largest.saturating_sub(offset_bytes) as usize;
        if fitting == 0 {
            Err(Errno::FBIG)
        } else {
            Ok(fitting)
        }
    }

    /// The largest length of the file; it is not looked up while `end` is one that surely fits.
    fn largest(&self, used: &ContentUse, end: u64) -> u64 {
        if end <= SURELY_FITS {
            return SURELY_FITS;
        }
        *used.content.largest.get_or_init(|| {
            let beside = self.open_beside(&used.inode);
            // If we may not open the file now, the limit is unknown; the store reports it later.
            beside.map_or(NAMEABLE, |fd| largest_of(&fd))
        })
    }
}

/// The last place to which a file can be sought, which is the largest length of a file.
fn largest_of(fd: impl AsFd) -> u64 {
    let can = |place| rustix::fs::seek(&fd, SeekFrom::Start(place)).is_ok();
    if !can(SURELY_FITS) || can(NAMEABLE) {
        // The file cannot be sought in at all, or can be sought to every place.
        return NAMEABLE;
    }
    let (mut fits, mut is_refused) = (SURELY_FITS, NAMEABLE);
    while is_refused - fits > 1 {
        let middle = fits + (is_refused - fits) / 2;
        if can(middle) {
            fits = middle;
        } else {
            is_refused = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestFolder;
    use forebay_rt::block_on;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_the_file_system_below_does_not_take_is_refused_when_it_is_made() {
        let bench = TestFolder::new();
        let open = bench.create("file", 0o600);
        let beside = std::fs::File::create(bench.behind().join("beside")).unwrap();
        let largest = largest_of(&beside);
        assert!(beside.set_len(largest).is_ok(), "{largest} is a length");
        if largest < NAMEABLE {
            let refused = beside.set_len(largest + 1).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
            let short = beside.write_at(b"four", largest - 2).unwrap();
            let fitting = bench.source().fitting(&open.used, largest - 2, 4);
            assert_eq!(fitting, Ok(short));
            let refused = bench.source().fitting(&open.used, largest, 1);
            assert_eq!(refused, Err(Errno::FBIG));
            let refused = bench.source().must_fit(&open.used, largest + 1);
            assert_eq!(refused, Err(Errno::FBIG));
        }
        assert_eq!(bench.source().must_fit(&open.used, largest), Ok(()));
        drop(open);
        block_on(bench.cache.close()).unwrap();
    }
}
