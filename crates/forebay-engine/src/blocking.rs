//! The same cache, for threads that block while they wait.
//!
//! A call that finds what it needs in memory is served on the calling thread without touching the
//! runtime; any other call is driven by `block_on`, also on the calling thread.

use crate::error::{AccessError, SyncError};
use crate::file::MOST_UNDER_WAY;
use crate::file::{Advice, ReadRequest};
use crate::guard::PageGuard;
use forebay_rt::block_on;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

/// A handle whose calls block the calling thread. See [`crate::File`] for what each call does and
/// how it fails.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::{Cache, Settings};
/// use forebay_store::{MemoryStore, ObjectId};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
/// let file = cache.open(&backing, ObjectId(1), 0)?.blocking();
/// file.write_at(b"forebay", 100)?;
/// let mut bytes = [0; 7];
/// file.read_at(&mut bytes, 100)?;
/// assert_eq!(&bytes, b"forebay");
/// file.sync()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct File {
    inner: crate::File,
}

impl crate::File {
    /// The same object, for threads that block while they wait.
    pub fn blocking(&self) -> File {
        File::new(self.clone())
    }
}

impl File {
    pub(crate) fn new(inner: crate::File) -> File {
        File { inner }
    }

    /// The asynchronous handle.
    pub fn as_async(&self) -> &crate::File {
        &self.inner
    }

    /// The length of the object, bytes.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// See [`crate::File::read_at`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize, AccessError> {
        match self.inner.try_read(buffer, offset_bytes) {
            Ok(done) => Ok(done),
            Err(begun) => block_on(self.inner.read_rest(buffer, offset_bytes, begun)),
        }
    }

    /// See [`crate::File::read_vectored_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> Result<usize, AccessError> {
        match self.inner.try_read_vectored(buffers, offset_bytes) {
            Ok(done) => Ok(done),
            Err(begun) => block_on(self.inner.read_vectored_rest(buffers, offset_bytes, begun)),
        }
    }

    /// See [`crate::File::read_many`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read_many(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), AccessError> {
        self.read_many_within(requests, MOST_UNDER_WAY)
    }

    /// See [`crate::File::read_many_within`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read_many_within(
        &self,
        requests: &mut [ReadRequest<'_>],
        most_under_way: usize,
    ) -> Result<(), AccessError> {
        if self.inner.read_many_resident(requests) {
            return Ok(());
        }
        block_on(self.inner.read_many_rest(requests, most_under_way))
    }

    /// See [`crate::File::write_at`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), AccessError> {
        let handle = &*self.inner.handle;
        let done = handle
            .engine
            .files
            .write_resident(handle, bytes, offset_bytes);
        if done == bytes.len() {
            return Ok(());
        }
        block_on(
            self.inner
                .write_at(&bytes[done..], offset_bytes + done as u64),
        )
    }

    /// See [`crate::File::write_vectored_at`].
    ///
    /// # Errors
    /// As there.
    pub fn write_vectored_at(
        &self,
        buffers: &[IoSlice<'_>],
        offset_bytes: u64,
    ) -> Result<(), AccessError> {
        block_on(self.inner.write_vectored_at(buffers, offset_bytes))
    }

    /// See [`crate::File::page`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn page(&self, page_index: u64) -> Result<PageGuard<'_>, AccessError> {
        match self.inner.try_page(page_index) {
            Some(guard) => Ok(guard),
            None => block_on(self.inner.page(page_index)),
        }
    }

    /// See [`crate::File::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self) -> Result<(), SyncError> {
        block_on(self.inner.sync())
    }

    /// See [`crate::File::sync_range`].
    ///
    /// # Errors
    /// As there.
    pub fn sync_range(&self, range: Range<u64>) -> Result<(), SyncError> {
        block_on(self.inner.sync_range(range))
    }

    /// See [`crate::File::truncate`].
    ///
    /// # Errors
    /// As there.
    pub fn truncate(&self, length_bytes: u64) -> Result<(), AccessError> {
        block_on(self.inner.truncate(length_bytes))
    }

    /// See [`crate::File::discard`].
    ///
    /// # Errors
    /// As there.
    pub fn discard(&self, range: Range<u64>) -> Result<(), AccessError> {
        block_on(self.inner.discard(range))
    }

    /// See [`crate::File::advise`].
    ///
    /// # Errors
    /// As there.
    pub fn advise(&self, advice: Advice, range: Range<u64>) -> Result<(), AccessError> {
        block_on(self.inner.advise(advice, range))
    }
}
