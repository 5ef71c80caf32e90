//! A file mapped into memory, shared and writable.

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::c_void;

/// Part of a file in memory. It must not be touched past the file's end.
pub(crate) struct Mapping {
    base: *mut c_void,
    length_bytes: usize,
}

impl Mapping {
    /// Maps the first `length_bytes` of a file.
    #[allow(unsafe_code)]
    pub(crate) fn new(file: impl AsFd, length_bytes: usize) -> Mapping {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses touches no memory of ours. It
        // is used only through raw copies, because the file may change at any time.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length_bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        Mapping {
            base: base.expect("it is mapped"),
            length_bytes,
        }
    }

    /// Writes `bytes` at `offset`.
    #[allow(unsafe_code)]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length_bytes);
        // SAFETY: the range lies in the mapping, which lives as long as this; `bytes` is ordinary
        // memory and does not overlap it.
        unsafe {
            let to = self.base.cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// The bytes of the mapping from `offset` on.
    #[allow(unsafe_code)]
    pub(crate) fn read(&self, offset: usize, length_bytes: usize) -> Vec<u8> {
        assert!(offset + length_bytes <= self.length_bytes);
        let mut bytes = vec![0; length_bytes];
        // SAFETY: as in `write`, in the other direction.
        unsafe {
            let from = self.base.cast::<u8>().add(offset);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length_bytes);
        }
        bytes
    }

    /// Passes the written bytes to the file system.
    #[allow(unsafe_code)]
    pub(crate) fn sync(&self) {
        // SAFETY: the range is that of the mapping; its content does not change.
        let synced = unsafe { msync(self.base, self.length_bytes, MsyncFlags::SYNC) };
        synced.expect("it is synced");
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nobody holds a reference into it.
        let unmapped = unsafe { munmap(self.base, self.length_bytes) };
        unmapped.expect("it was mapped");
    }
}
