//! A file of a cache, as the clients of a block front see it.

use crate::error::BlockError;
use crate::job::Job;
use crate::written::WrittenMap;
use forebay::File;
use forebay_store::{Extent, Holes};
use std::sync::Arc;

/// The bytes that clients can read and write. Its length is that of the file at the time of
/// [`Disk::new`].
#[derive(Debug)]
pub struct Disk {
    file: File,
    length_bytes: u64,
    is_read_only: bool,
    written: WrittenMap,
    holes: Option<Arc<dyn Holes>>,
}

impl Disk {
    /// The whole of `file`, to be read and written.
    ///
    /// ```
    /// use forebay::{Cache, Settings};
    /// use forebay_block::{BlockError, Disk, Job};
    /// use forebay_store::{MemoryStore, ObjectId};
    ///
    /// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let disk = Disk::new(cache.open(&store, ObjectId(1), 8192)?).read_only();
    /// assert_eq!(disk.check(&Job::Read(4096..8192)), Ok(()));
    /// assert_eq!(disk.check(&Job::Trim(0..4096)), Err(BlockError::ReadOnly));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(file: File) -> Disk {
        let length_bytes = file.len();
        Disk {
            length_bytes,
            is_read_only: false,
            written: WrittenMap::new(length_bytes),
            holes: None,
            file,
        }
    }

    /// The same, for reading only.
    #[must_use]
    pub fn read_only(mut self) -> Disk {
        self.is_read_only = true;
        self
    }

    /// The same with holes that clients can ask for. Without them every byte counts as allocated.
    /// `holes` must describe the medium below the file, and nobody except the cache may change that
    /// medium.
    #[must_use]
    pub fn with_holes(mut self, holes: Arc<dyn Holes>) -> Disk {
        self.holes = Some(holes);
        self
    }

    /// A handle for one client. The cache throttles each handle that writes separately.
    pub fn handle(&self) -> File {
        self.file.clone()
    }

    /// Its length.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Whether no byte of it may be changed.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether this disk can do `job`. [`perform`](crate::perform) asks this before anything else.
    /// A front may ask earlier, to refuse a request with an error of its own.
    ///
    /// # Errors
    /// [`BlockError::ReadOnly`] and [`BlockError::OutOfRange`].
    pub fn check(&self, job: &Job) -> Result<(), BlockError> {
        let (range, changes) = match job {
            Job::Write(range) | Job::Trim(range) | Job::Zero { range, .. } => (range, true),
            Job::Read(range) | Job::Prefetch(range) | Job::Extents { range, .. } => (range, false),
            // A flush is about what was written before. Its range may end past the disk.
            Job::Flush(_) => return Ok(()),
        };
        if changes && self.is_read_only {
            return Err(BlockError::ReadOnly);
        }
        if range.end > self.length_bytes {
            return Err(BlockError::OutOfRange {
                end_bytes: range.end,
                length_bytes: self.length_bytes,
            });
        }
        Ok(())
    }

    /// The run from byte `at` to at most `end`. It is a hole only if the medium says so and no byte
    /// of it was written through this disk.
    pub fn extent_at(&self, at: u64, end: u64) -> Extent {
        let solid = |end_bytes| Extent {
            end_bytes,
            is_hole: false,
        };
        let Some(holes) = &self.holes else {
            return solid(end);
        };
        match self.written.run_at(at, end) {
            (true, until) => solid(until),
            (false, until) => holes.extent_at(at, until),
        }
    }

    /// Records that the bytes of `range` are about to be written.
    pub(crate) fn mark_written(&self, range: &std::ops::Range<u64>) {
        self.written.mark(range);
    }
}

impl From<File> for Disk {
    fn from(file: File) -> Disk {
        Disk::new(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};

    #[derive(Debug)]
    struct AllHoles;

    impl Holes for AllHoles {
        fn extent_at(&self, _: u64, end_bytes: u64) -> Extent {
            Extent {
                end_bytes,
                is_hole: true,
            }
        }
    }

    fn disk() -> Disk {
        let cache = Cache::new(Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        Disk::new(cache.open(&store, ObjectId(1), 1 << 20).unwrap())
    }

    #[test]
    fn what_was_written_through_us_is_no_hole() {
        let disk = disk().with_holes(Arc::new(AllHoles));
        disk.mark_written(&(70_000..70_001));
        let hole = disk.extent_at(0, 1 << 20);
        assert_eq!((hole.end_bytes, hole.is_hole), (65_536, true));
        let data = disk.extent_at(65_536, 1 << 20);
        assert_eq!((data.end_bytes, data.is_hole), (131_072, false));
    }

    #[test]
    fn jobs_past_the_end_are_refused_and_changes_of_a_disk_that_is_read() {
        let end = 1 << 20;
        let jobs = |range: std::ops::Range<u64>| {
            let (zero, extents) = (range.clone(), range.clone());
            let changes = vec![
                Job::Write(range.clone()),
                Job::Trim(range.clone()),
                Job::Zero {
                    range: zero,
                    no_hole: true,
                },
            ];
            let looks = vec![
                Job::Read(range.clone()),
                Job::Prefetch(range),
                Job::Extents {
                    range: extents,
                    most: 1,
                },
            ];
            (changes, looks)
        };
        let (writable, read_only) = (disk(), disk().read_only());
        let (changes, looks) = jobs(0..end);
        assert!(
            changes
                .iter()
                .chain(&looks)
                .all(|job| writable.check(job).is_ok())
        );
        assert!(looks.iter().all(|job| read_only.check(job).is_ok()));
        let refused = Err(BlockError::ReadOnly);
        assert!(changes.iter().all(|job| read_only.check(job) == refused));
        let (changes, looks) = jobs(end - 1..end + 1);
        let refused = Err(BlockError::OutOfRange {
            end_bytes: end + 1,
            length_bytes: end,
        });
        assert!(
            changes
                .iter()
                .chain(&looks)
                .all(|job| writable.check(job) == refused)
        );
        assert_eq!(read_only.check(&Job::Flush(0..u64::MAX)), Ok(()));
    }
}
