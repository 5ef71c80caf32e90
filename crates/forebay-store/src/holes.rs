//! What of a medium is allocated.

use rustix::fd::OwnedFd;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;

/// A run of bytes that is a hole or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte past it.
    pub end_bytes: u64,
    /// Nothing is allocated and it reads as zeros.
    pub is_hole: bool,
}

/// Knows the holes of a medium. What the cache holds in memory is not its business.
pub trait Holes: Send + Sync + fmt::Debug {
    /// The run from byte `offset_bytes` to at most `end_bytes`, which is larger. In doubt it is
    /// not a hole.
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent;
}

/// The holes of a sparse file, as its file system reports them.
///
/// ```
/// use forebay_store::{Extent, FileHoles, Holes};
/// let file = tempfile::tempfile()?;
/// file.set_len(1 << 20)?;
/// let holes = FileHoles::new(file);
/// assert_eq!(holes.extent_at(0, 4096), Extent { end_bytes: 4096, is_hole: true });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileHoles {
    file: File,
}

impl FileHoles {
    /// Of `file`, whose position in the file is used for nothing else.
    pub fn new(file: File) -> FileHoles {
        FileHoles { file }
    }

    /// What keeps the claim of the file, if it is claimed; none if no descriptor is left.
    pub(crate) fn claim(&self) -> Option<OwnedFd> {
        self.file.try_clone().ok().map(OwnedFd::from)
    }
}

impl Holes for FileHoles {
    fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        let data = match seek(&self.file, SeekFrom::Data(offset_bytes)) {
            Ok(data) => data,
            // Nothing but a hole up to the end of the file.
            Err(Errno::NXIO) => end_bytes,
            Err(_) => offset_bytes,
        };
        if data > offset_bytes {
            return Extent {
                end_bytes: data.min(end_bytes),
                is_hole: true,
            };
        }
        let hole = seek(&self.file, SeekFrom::Hole(offset_bytes)).unwrap_or(end_bytes);
        Extent {
            end_bytes: if hole > offset_bytes {
                hole.min(end_bytes)
            } else {
                end_bytes
            },
            is_hole: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn data_between_two_holes_is_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(&vec![1; 65_536], 1 << 20).unwrap();
        let holes = FileHoles::new(file);
        let mut at = 0;
        let mut data_bytes = 0;
        while at < 4 << 20 {
            let extent = holes.extent_at(at, 4 << 20);
            assert!(extent.end_bytes > at);
            if !extent.is_hole {
                assert!(at <= 1 << 20 && extent.end_bytes >= (1 << 20) + 65_536);
                data_bytes += extent.end_bytes - at;
            }
            at = extent.end_bytes;
        }
        assert!((65_536..1 << 20).contains(&data_bytes), "{data_bytes}");
    }

    #[test]
    fn behind_the_end_of_a_file_that_shrank_is_a_hole() {
        let holes = FileHoles::new(tempfile::tempfile().unwrap());
        assert!(holes.extent_at(100, 200).is_hole);
    }
}
