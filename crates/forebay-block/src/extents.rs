//! The layout of extents in the buffer of a job.

use forebay_store::Extent;

/// Bytes that one extent takes in a buffer.
pub const EXTENT_BYTES: usize = 8;

/// An extent in the form that it has in the buffer of a finished
/// [`Job::Extents`](crate::Job::Extents); [`extents`] decodes it.
///
/// ```
/// use forebay_block::{Extent, encode_extent, extents};
/// let extent = Extent { end_bytes: 8192, is_hole: true };
/// assert_eq!(extents(&encode_extent(extent)).collect::<Vec<_>>(), [extent]);
/// ```
pub fn encode_extent(extent: Extent) -> [u8; EXTENT_BYTES] {
    debug_assert!(extent.end_bytes < 1 << 63, "no file is that long");
    (extent.end_bytes << 1 | u64::from(extent.is_hole)).to_ne_bytes()
}

/// The extents in the buffer of a finished [`Job::Extents`](crate::Job::Extents). `bytes` are the
/// bytes that the job wrote.
pub fn extents(bytes: &[u8]) -> impl Iterator<Item = Extent> + '_ {
    let (entries, _) = bytes.as_chunks::<EXTENT_BYTES>();
    entries.iter().map(|&entry| {
        let word = u64::from_ne_bytes(entry);
        Extent {
            end_bytes: word >> 1,
            is_hole: word & 1 == 1,
        }
    })
}
