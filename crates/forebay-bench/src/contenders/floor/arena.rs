//! An arena of pages, in huge pages if possible. All of them are touched before measuring begins.

use crate::contender::PagedFile;
use crate::error::BenchError;
use crate::measure::AlignedBytes;
use crate::phases::cached::sum_of_line;
use forebay_base::PAGE_BYTES;
use forebay_host::bytes_in;

pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages.
pub(crate) struct Arena {
    bytes: AlignedBytes,
}

impl Arena {
    /// An arena of `length` bytes, all of them present in memory.
    pub(crate) fn new(length: usize) -> Arena {
        let mut bytes = huge_bytes(length);
        // Zeros that were never written take no memory until the first write, which is this one.
        for page in bytes.chunks_mut(PAGE_BYTES) {
            page[PAGE_BYTES - 1] = 1;
        }
        Arena { bytes }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Zeros in huge pages if possible. A transfer into them is one piece for the disk, where each
/// small page would be another one.
pub(super) fn huge_bytes(length: usize) -> AlignedBytes {
    let mut bytes = AlignedBytes::new(length, HUGE_PAGE_BYTES);
    advise_huge_pages(&mut bytes);
    bytes
}

/// Asks for huge pages for `bytes`. If the request is refused, the pages stay ordinary, and the
/// remark on huge pages shows it.
#[allow(unsafe_code)]
fn advise_huge_pages(bytes: &mut [u8]) {
    let start = bytes.as_mut_ptr().cast();
    // SAFETY: the range is the exclusively borrowed slice, and this advice changes neither its
    // contents nor its validity.
    let advised =
        unsafe { rustix::mm::madvise(start, bytes.len(), rustix::mm::Advice::LinuxHugepage) };
    if let Err(refused) = advised {
        eprintln!("forebay: no huge pages for the floor: {refused}");
    }
}

/// A remark on how much of the process of `who` is in huge pages, if the kernel reports it.
pub(crate) fn huge_pages_remark(who: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let huge_bytes = bytes_in(&text, "AnonHugePages:")?;
    Some(format!("{who} has {} MiB in huge pages", huge_bytes >> 20))
}

impl PagedFile for Arena {
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let start = offset_bytes as usize;
        buffer.copy_from_slice(&self.bytes[start..start + buffer.len()]);
        Ok(())
    }

    fn read_run(&mut self, buffers: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.read_at(buffers, offset_bytes)
    }

    fn touch(&mut self, page_index: u64) -> Result<Option<u64>, BenchError> {
        let start = page_index as usize * PAGE_BYTES;
        Ok(Some(sum_of_line(&self.bytes[start..start + PAGE_BYTES])))
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        let start = offset_bytes as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_on_huge_pages_leaves_the_bytes_and_the_arena_readable() {
        let mut arena = Arena::new(5 << 20);
        assert_eq!(arena.bytes_mut().as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
        arena.write_at(&[7; 64], 3 * PAGE_BYTES as u64).unwrap();
        let mut found = [0_u8; 64];
        arena.read_at(&mut found, 3 * PAGE_BYTES as u64).unwrap();
        assert_eq!(found, [7; 64]);
        let sum = u64::from_le_bytes([7; 8]).wrapping_mul(8);
        assert_eq!(arena.touch(3).unwrap(), Some(sum));
        assert_eq!(arena.touch(2).unwrap(), Some(0));
    }
}
