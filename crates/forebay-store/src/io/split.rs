//! One request as two, which go their own ways.

use super::Io;
use super::halves::{Half, in_halves};
use crate::request::Request;
use forebay_base::PAGE_BYTES;

impl Io {
    /// The same read or write as two requests: one for the first `pages` pages and one for the
    /// others. It ends when both have ended, and fails for the reason of the part that failed
    /// first. It is durable if both are.
    ///
    /// ```
    /// use forebay_store::{
    ///     Failure, Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store,
    /// };
    /// struct Torn;
    /// impl Finish for Torn {
    ///     fn finished(&self, io: FinishedIo) {
    ///         assert_eq!((io.pages.len(), io.token), (3, 9));
    ///         assert_eq!(io.result, Err(io.request.error(Failure::NoSpace)));
    ///     }
    /// }
    /// let request = Request {
    ///     kind: IoKind::Write,
    ///     object: ObjectId(1),
    ///     offset_bytes: 0,
    ///     length_bytes: 10_000,
    /// };
    /// let io = Io::phantom(request, std::sync::Arc::new(Torn), 9);
    /// let (first, rest) = io.split(2);
    /// assert_eq!(rest.request().offset_bytes, 8192);
    /// assert_eq!(rest.request().length_bytes, 10_000 - 8192);
    /// rest.fail(Failure::NoSpace);
    /// let store = MemoryStore::new();
    /// store.submit(first);
    /// assert_eq!(store.length_bytes(ObjectId(1)), 8192);
    /// ```
    ///
    /// # Panics
    /// If one of the parts would have no page.
    pub fn split(mut self, pages: usize) -> (Io, Io) {
        let count = self.page_count();
        assert!(0 < pages && pages < count, "each part has a page");
        let mut whole = self.parts.take().expect(super::UNFINISHED);
        let mut first_pages = std::mem::take(&mut whole.pages);
        let rest_pages = first_pages.split_off(pages);
        let (request, cut_bytes) = (whole.request, (pages * PAGE_BYTES) as u64);
        let first = Half {
            request: Request {
                length_bytes: cut_bytes,
                ..request
            },
            pages: first_pages,
            filled_bytes: whole.filled_bytes.min(cut_bytes),
        };
        let rest = Half {
            request: Request {
                offset_bytes: request.offset_bytes + cut_bytes,
                length_bytes: request.length_bytes - cut_bytes,
                ..request
            },
            pages: rest_pages,
            filled_bytes: whole.filled_bytes.saturating_sub(cut_bytes),
        };
        in_halves(whole, [first, rest])
    }
}
