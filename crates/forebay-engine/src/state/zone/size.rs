//! The size that a zone should have and the numbers that follow from it, readable without a lock.

use crate::state::frame::NO_FRAME;
use forebay_base::sync::{Mutex, atomic::AtomicU64};
use forebay_law::watermark::{Watermarks, reserved_pages};

/// The size that a zone should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneSize {
    /// Frames that it may have. It has more while its balloon is being filled.
    pub(crate) managed_pages: u64,
    pub(crate) marks: Watermarks,
    /// Free frames that requests of each class must leave (spec/reclaim.md 1.4).
    pub(crate) lowmem_reserve: Vec<u64>,
}

/// The same, readable without a lock, and the balloon.
#[derive(Debug)]
pub(super) struct Size {
    pub(super) managed_pages: AtomicU64,
    pub(super) marks: [AtomicU64; 3],
    pub(super) lowmem_reserve: Box<[AtomicU64]>,
    /// [`Zone::reserved_pages`], computed from the above.
    pub(super) reserved_pages: AtomicU64,
    /// Frames in the balloon.
    pub(super) balloon_pages: AtomicU64,
    /// The first of them. Every change of the size or the balloon takes this lock, so that the
    /// balloon is never filled for a size that is no longer wanted.
    pub(super) balloon: Mutex<u32>,
}

impl ZoneSize {
    /// Pages that never count as dirtyable: what requests must leave, and the high mark.
    pub(super) fn reserved_pages(&self) -> u64 {
        let reserves = self.lowmem_reserve.iter().copied();
        reserved_pages(self.managed_pages, reserves, self.marks.high)
    }
}

impl Size {
    pub(super) fn new(size: &ZoneSize) -> Size {
        let Watermarks { min, low, high } = size.marks;
        Size {
            managed_pages: AtomicU64::new(size.managed_pages),
            marks: [min, low, high].map(AtomicU64::new),
            lowmem_reserve: size
                .lowmem_reserve
                .iter()
                .copied()
                .map(AtomicU64::new)
                .collect(),
            reserved_pages: AtomicU64::new(size.reserved_pages()),
            balloon_pages: AtomicU64::new(0),
            balloon: Mutex::new(NO_FRAME),
        }
    }
}
