//! A thread's handle on a file of the cache.

use crate::contender::{PagedFile, RUN_PAGES, page_slices};
use crate::error::BenchError;
use crate::phases::cached::sum_of_line;
use crate::phases::commit::DurableFile;
use forebay::{Advice, File, ReadRequest, blocking};
use forebay_base::PAGE_BYTES;
use forebay_host::StepError;
use std::fmt::Display;

/// A separate handle, as every thread should have: it has its own readahead and its own place among
/// the writers.
pub(crate) struct Handle {
    file: blocking::File,
}

impl Handle {
    pub(crate) fn new(file: &File) -> Handle {
        Handle {
            file: file.clone().blocking(),
        }
    }

    /// The same for reads at random.
    pub(crate) fn random(file: &File) -> Result<Handle, BenchError> {
        let handle = Handle::new(file);
        let advised = handle.file.advise(Advice::Random, 0..u64::MAX);
        advised.map_err(|reason| failed("advise", reason))?;
        Ok(handle)
    }

    /// Copies the pages `page_indexes` out into as many parts of `buffers` by one call, which keeps
    /// at most `depth` reads of the store under way.
    pub(crate) fn read_scattered<const PAGES: usize>(
        &self,
        buffers: &mut [u8],
        page_indexes: &[u64; PAGES],
        depth: u32,
    ) -> Result<(), BenchError> {
        let mut pages = buffers.chunks_exact_mut(PAGE_BYTES);
        let mut requests = page_indexes.map(|page_index| ReadRequest {
            offset_bytes: page_index * PAGE_BYTES as u64,
            buffer: pages
                .next()
                .expect("the caller gives a buffer for each page"),
            done_bytes: 0,
        });
        self.file
            .read_many_within(&mut requests, depth as usize)
            .map_err(|reason| failed("read", reason))?;
        requests
            .iter()
            .try_for_each(|request| whole(request.done_bytes, PAGE_BYTES))
    }
}

impl DurableFile for Handle {
    fn commit(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.write_at(bytes, offset_bytes)?;
        self.file.sync().map_err(|reason| failed("sync", reason))
    }

    fn cut(&mut self, length_bytes: u64) -> Result<(), BenchError> {
        self.file
            .truncate(length_bytes)
            .map_err(|reason| failed("cut a file", reason))
    }
}

/// An error of the cache.
#[cold]
pub(crate) fn failed(action: &'static str, reason: impl Display) -> BenchError {
    StepError::cache(action, reason).into()
}

/// Checks that a read returned everything that it asked for.
fn whole(read: usize, wanted: usize) -> Result<(), BenchError> {
    if read == wanted {
        return Ok(());
    }
    Err(failed(
        "read",
        format_args!("{read} of {wanted} bytes were read"),
    ))
}

impl PagedFile for Handle {
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let read = self
            .file
            .read_at(buffer, offset_bytes)
            .map_err(|reason| failed("read", reason))?;
        whole(read, buffer.len())
    }

    fn read_run(&mut self, buffers: &mut [u8], offset_bytes: u64) -> Result<(), BenchError> {
        let read = self
            .file
            .read_vectored_at(&mut page_slices(buffers), offset_bytes)
            .map_err(|reason| failed("read", reason))?;
        whole(read, RUN_PAGES * PAGE_BYTES)
    }

    fn read_batch(
        &mut self,
        buffers: &mut [u8],
        page_indexes: &[u64; RUN_PAGES],
    ) -> Result<(), BenchError> {
        self.read_scattered(buffers, page_indexes, 1)
    }

    fn touch(&mut self, page_index: u64) -> Result<Option<u64>, BenchError> {
        let page = self
            .file
            .page(page_index)
            .map_err(|reason| failed("hold a page", reason))?;
        Ok(Some(sum_of_line(&page)))
    }

    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError> {
        self.file
            .write_at(bytes, offset_bytes)
            .map_err(|reason| failed("write", reason))
    }
}
