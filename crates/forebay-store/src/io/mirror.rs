//! One write for two stores, which both read its pages.

use super::halves::{Half, in_halves};
use super::{Io, PagePointer};
use crate::request::IoKind;

impl Io {
    /// The same write twice, for two stores that each get all of it. Both read the same pages,
    /// which are the request's until both have ended: then it ends, with the failure of the copy
    /// that failed first if one did. It is durable if both are. A copy can be mirrored again.
    ///
    /// A writer may change pages meanwhile unless the geometry of the store forbids it
    /// ([`crate::Geometry::stable_pages`]): then the copies may differ until the page, which is
    /// dirty again, has been written once more. A store over two others that may not differ
    /// forbids it.
    ///
    /// Reads have [`Io::hedge`], whose attempts have memory of their own.
    ///
    /// ```
    /// use forebay_store::{
    ///     Failure, Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store,
    /// };
    /// struct Done;
    /// impl Finish for Done {
    ///     fn finished(&self, io: FinishedIo) {
    ///         assert_eq!((io.pages.len(), io.result), (3, Ok(())));
    ///     }
    /// }
    /// let request = Request {
    ///     kind: IoKind::Write,
    ///     object: ObjectId(1),
    ///     offset_bytes: 0,
    ///     length_bytes: 10_000,
    /// };
    /// let (near, far) = (MemoryStore::new(), MemoryStore::new());
    /// let (one, other) = Io::phantom(request, std::sync::Arc::new(Done), 0).mirror();
    /// near.submit(one);
    /// far.submit(other);
    /// assert_eq!(near.snapshot(ObjectId(1)), far.snapshot(ObjectId(1)));
    /// ```
    ///
    /// # Panics
    /// If this is not a write.
    #[allow(unsafe_code)]
    pub fn mirror(mut self) -> (Io, Io) {
        assert_eq!(self.request().kind, IoKind::Write, "a write is mirrored");
        let whole = self.parts.take().expect(super::UNFINISHED);
        // SAFETY: the requests below are the only ones that get these pages. Both are writes, so
        // nobody writes through them, and the whole has the page until both have ended.
        let again = |page: &PagePointer| unsafe { PagePointer::new(page.address()) };
        let copies = [(); 2].map(|()| Half {
            request: whole.request,
            pages: whole.pages.iter().map(again).collect(),
            filled_bytes: whole.filled_bytes,
        });
        in_halves(whole, copies)
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
