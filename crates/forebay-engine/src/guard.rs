//! A page held without a copy.

use crate::memory::Memory;
use crate::state::frame::SharedHold;
use std::fmt;
use std::ops::Deref;

/// The bytes of one page. While the guard lives, the page is neither written nor evicted. Drop it
/// soon: meanwhile a writer of the page waits, and fails after a while.
///
/// ```
/// # forebay_rt::block_on(async {
/// # use forebay_engine as forebay;
/// # use forebay::{Cache, Settings};
/// # use forebay_store::{MemoryStore, ObjectId};
/// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// # let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
/// # let file = cache.open(&backing, ObjectId(1), 0)?;
/// file.write_at(&[7; 5000], 0).await?;
/// let page = file.page(1).await?;
/// assert_eq!(page.len(), 4096);
/// assert_eq!((page[903], page[904]), (7, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct PageGuard<'a> {
    memory: &'a Memory,
    hold: SharedHold<'a>,
}

impl<'a> PageGuard<'a> {
    pub(crate) fn new(memory: &'a Memory, hold: SharedHold<'a>) -> PageGuard<'a> {
        PageGuard { memory, hold }
    }
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.memory.frames.arena().bytes(&self.hold)
    }
}

impl fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageGuard")
            .field("frame", &self.hold.frame())
            .finish_non_exhaustive()
    }
}
