//! One request to a store: it owns its pages, and ends once.
//!
//! Safe code cannot use a page that is not its own: nobody can copy an [`Io`], its pages or its
//! end. A page of a read that succeeds has the bytes that its store copied into it or vouches for
//! ([`Io::assume_filled`]), and zeros otherwise.

mod ending;
mod halves;
mod hedge;
mod mirror;
mod page;
mod split;

#[cfg(test)]
pub(crate) use page::leaked_pages;

pub use ending::{Ending, Finish, FinishedIo, Intercept};
pub use hedge::Hedge;
pub use page::{Memory, PagePointer};

use crate::error::{Failure, StoreError};
use crate::request::{IoKind, Request};
use ending::Route;
use forebay_base::{Instant, PAGE_BYTES};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// One request. Page `i` holds the bytes from `offset_bytes + i * PAGE_BYTES`; the last page may
/// be used in part.
///
/// Finish it with [`Io::finish`], [`Io::succeed`] or [`Io::fail`]. If it is dropped unfinished, it
/// fails with [`Failure::Dropped`], or with [`Failure::Panicked`] if a panic drops it.
///
/// It ends once:
///
/// ```compile_fail,E0382
/// fn twice(io: forebay_store::Io) {
///     io.succeed();
///     io.succeed();
/// }
/// ```
///
/// Its pages cannot be copied into another one, nor made of an address by safe code:
///
/// ```compile_fail,E0599
/// fn second(page: &forebay_store::PagePointer) -> forebay_store::PagePointer {
///     page.clone()
/// }
/// ```
///
/// ```compile_fail,E0133
/// fn forged(io: &forebay_store::Io) -> forebay_store::PagePointer {
///     forebay_store::PagePointer::new(io.page_address(0))
/// }
/// ```
pub struct Io {
    parts: Option<Parts>,
}

/// What the submitter wants a write to be when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completion {
    Done,
    Durable,
}

struct Parts {
    request: Request,
    pages: Vec<PagePointer>,
    token: u64,
    route: Route,
    flags: Flags,
    /// When it was submitted, ns plus one; 0 if the submitter did not say so. A request is moved
    /// around, so it stays small.
    submitted_ns: u64,
    /// Of a read: the bytes before this one are the store's, or zeros. Those past it are what the
    /// page had before, and nobody may see them.
    filled_bytes: u64,
    /// The number of the [`Memory`] that the pages come from, or 0.
    memory: u64,
}

/// What the pages hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Nothing: only their number counts.
    Nothing,
    Bytes,
    /// Bytes that a writer may change while the request is under way.
    ChangingBytes,
}

#[derive(Clone, Copy)]
struct Flags {
    content: Content,
    is_awaited: bool,
    completion: Completion,
    grows: bool,
}

const UNFINISHED: &str = "an Io has its parts until it is finished";

impl Io {
    /// The request `request` with its `pages`. When it ends, `finisher` is called with `token`.
    ///
    /// # Panics
    /// If the pages do not fit the range: a read or write has one page for each started
    /// [`PAGE_BYTES`] and starts on a page boundary; the others have none.
    pub fn new(
        request: Request,
        pages: Vec<PagePointer>,
        finisher: Arc<dyn Finish>,
        token: u64,
    ) -> Io {
        let expected = match request.kind {
            IoKind::Read | IoKind::Write => {
                let misplaced = request.offset_bytes % PAGE_BYTES as u64;
                assert_eq!(misplaced, 0, "a request starts on a page");
                request.length_bytes.div_ceil(PAGE_BYTES as u64)
            }
            IoKind::Commit | IoKind::Discard | IoKind::SetLength => 0,
        };
        assert_eq!(
            pages.len() as u64,
            expected,
            "one page for each page of {request:?}"
        );
        Io {
            parts: Some(Parts {
                request,
                pages,
                token,
                route: Route::to(finisher),
                flags: Flags {
                    content: Content::Bytes,
                    is_awaited: false,
                    completion: Completion::Done,
                    grows: false,
                },
                submitted_ns: 0,
                filled_bytes: 0,
                memory: 0,
            }),
        }
    }

    /// The request `request` for pages without bytes: only their number counts. Filling such a page
    /// does nothing, and copying from it gives zeros.
    ///
    /// # Panics
    /// As [`Io::new`].
    pub fn without_bytes(
        request: Request,
        pages: Vec<PagePointer>,
        finisher: Arc<dyn Finish>,
        token: u64,
    ) -> Io {
        let mut io = Io::new(request, pages, finisher, token);
        io.parts_mut().flags.content = Content::Nothing;
        io
    }

    /// The same write, whose pages may be changed while it is under way, as the geometry of its
    /// store allows ([`crate::Geometry::stable_pages`]).
    #[must_use]
    pub fn changing(mut self) -> Io {
        if self.has_bytes() {
            self.parts_mut().flags.content = Content::ChangingBytes;
        }
        self
    }

    /// The same request, whose pages lie in `memory`.
    #[must_use]
    pub fn in_memory(mut self, memory: &Memory) -> Io {
        self.parts_mut().memory = memory.number();
        self
    }

    /// The number of the memory that its pages come from; 0 if the submitter did not say so.
    pub fn memory(&self) -> u64 {
        self.parts().memory
    }

    /// The same request, for whose end the call that submits it will wait. A store may let the
    /// thread that blocks in that call wait for the device itself, in place of waking it.
    ///
    /// ```
    /// use forebay_rt::{block_on, wait::Slot};
    /// use forebay_store::{
    ///     FileStore, FileStoreSettings, Finish, FinishedIo, Io, IoKind, OpenMode, Request, Store,
    /// };
    /// use std::sync::Arc;
    /// struct Reported(Slot<bool>);
    /// impl Finish for Reported {
    ///     fn finished(&self, io: FinishedIo) {
    ///         self.0.set(io.result.is_ok());
    ///     }
    /// }
    /// let file = tempfile::NamedTempFile::new()?;
    /// let store = FileStore::new(FileStoreSettings::default())?;
    /// let object = store.open(file.path(), OpenMode::ReadWrite)?.object;
    /// let request = Request { kind: IoKind::Commit, object, offset_bytes: 0, length_bytes: 0 };
    /// let reported = Arc::new(Reported(Slot::new()));
    /// let is_durable = block_on(async {
    ///     store.submit(Io::new(request, Vec::new(), reported.clone(), 0).awaited());
    ///     reported.0.take().await
    /// });
    /// assert!(is_durable);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn awaited(mut self) -> Io {
        self.parts_mut().flags.is_awaited = true;
        self
    }

    /// Whether the call that submits it will wait for its end.
    pub fn is_awaited(&self) -> bool {
        self.parts().flags.is_awaited
    }

    /// The same request, which is submitted at `now`: its end says so again. No store needs it.
    ///
    /// ```
    /// use forebay_base::Instant;
    /// use forebay_store::{Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store};
    /// struct Done;
    /// impl Finish for Done {
    ///     fn finished(&self, io: FinishedIo) {
    ///         assert_eq!(io.submitted, Some(Instant::from_nanos(5)));
    ///     }
    /// }
    /// let request = Request {
    ///     kind: IoKind::Commit,
    ///     object: ObjectId(1),
    ///     offset_bytes: 0,
    ///     length_bytes: 0,
    /// };
    /// let io = Io::phantom(request, std::sync::Arc::new(Done), 0);
    /// MemoryStore::new().submit(io.submitted_at(Instant::from_nanos(5)));
    /// ```
    #[must_use]
    pub fn submitted_at(mut self, now: Instant) -> Io {
        self.parts_mut().submitted_ns = now.as_nanos().saturating_add(1);
        self
    }

    /// The same write, which a commit of its object would follow. If the store can make just this
    /// write durable in the same step, it may do that and say so ([`Io::succeed_durably`]); then
    /// the write needs no commit. A store that does not know of this leaves it to the commit.
    ///
    /// ```
    /// use forebay_store::{Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store};
    /// struct Done;
    /// impl Finish for Done {
    ///     fn finished(&self, io: FinishedIo) {
    ///         assert!(io.result.is_ok() && !io.is_durable);
    ///     }
    /// }
    /// let request = Request {
    ///     kind: IoKind::Write,
    ///     object: ObjectId(1),
    ///     offset_bytes: 0,
    ///     length_bytes: 4096,
    /// };
    /// let io = Io::phantom(request, std::sync::Arc::new(Done), 0).durable();
    /// assert!(io.asks_durable());
    /// MemoryStore::new().submit(io);
    /// ```
    #[must_use]
    pub fn durable(mut self) -> Io {
        self.parts_mut().flags.completion = Completion::Durable;
        self
    }

    /// The same write, which is not to be made durable in the same step.
    #[must_use]
    pub fn without_durability(mut self) -> Io {
        self.parts_mut().flags.completion = Completion::Done;
        self
    }

    /// Whether the store may make this write durable in the same step.
    pub fn asks_durable(&self) -> bool {
        self.parts().flags.completion == Completion::Durable
    }

    /// The same write, which makes its object longer. It is durable only if the new length is as
    /// well.
    ///
    /// ```
    /// # use forebay_store::{Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request};
    /// # use forebay_store::Store;
    /// # struct Done;
    /// # impl Finish for Done {
    /// #     fn finished(&self, _io: FinishedIo) {}
    /// # }
    /// let request = Request {
    ///     kind: IoKind::Write,
    ///     object: ObjectId(1),
    ///     offset_bytes: 4096,
    ///     length_bytes: 200,
    /// };
    /// let io = Io::phantom(request, std::sync::Arc::new(Done), 0).durable().growing();
    /// assert!(io.asks_durable() && io.grows());
    /// # MemoryStore::new().submit(io);
    /// ```
    #[must_use]
    pub fn growing(mut self) -> Io {
        self.parts_mut().flags.grows = true;
        self
    }

    /// Whether this write makes its object longer.
    pub fn grows(&self) -> bool {
        self.parts().flags.grows
    }

    /// The request `request` for as many pages as it needs, none of which has bytes.
    ///
    /// ```
    /// use forebay_store::{Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store};
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
    /// let store = MemoryStore::new();
    /// store.submit(Io::phantom(request, std::sync::Arc::new(Done), 0));
    /// assert_eq!(store.snapshot(ObjectId(1)), [0; 10_000]);
    /// ```
    ///
    /// # Panics
    /// As [`Io::new`].
    pub fn phantom(request: Request, finisher: Arc<dyn Finish>, token: u64) -> Io {
        let pages = match request.kind {
            IoKind::Read | IoKind::Write => request.length_bytes.div_ceil(PAGE_BYTES as u64),
            IoKind::Commit | IoKind::Discard | IoKind::SetLength => 0,
        };
        let pages = (0..pages).map(|_| PagePointer::nowhere()).collect();
        Io::without_bytes(request, pages, finisher, token)
    }

    /// Whether the pages have bytes. A store that passes addresses to a device should get only
    /// pages with bytes; a store that only simulates time should not touch the bytes.
    pub fn has_bytes(&self) -> bool {
        self.parts().flags.content != Content::Nothing
    }

    /// What is asked.
    pub fn request(&self) -> Request {
        self.parts().request
    }

    /// The submitter's number.
    pub fn token(&self) -> u64 {
        self.parts().token
    }

    /// How many pages it has.
    pub fn page_count(&self) -> usize {
        self.parts().pages.len()
    }

    /// The address of page `page`, for a store that passes it to the system.
    ///
    /// To use the bytes there is unsafe. It is sound until the request is finished; of a read by
    /// one access at a time, of a write only to read, and if its pages are changing, not by this
    /// program.
    pub fn page_address(&self, page: usize) -> NonNull<u8> {
        self.parts().pages[page].address()
    }

    /// The store vouches that it has written the first `bytes` bytes of the pages of this read
    /// through [`Io::page_address`]. What is past them, and was not copied, is zeros when the read
    /// succeeds.
    ///
    /// # Safety
    /// Those bytes must have been written since the request was submitted, and nobody may be
    /// writing any byte of its pages now.
    #[allow(unsafe_code)]
    pub unsafe fn assume_filled(&mut self, bytes: u64) {
        let parts = self.parts_mut();
        let all = (parts.pages.len() * PAGE_BYTES) as u64;
        parts.filled_bytes = parts.filled_bytes.max(bytes.min(all));
    }

    /// Copies `bytes` into page `page` of a read request from its byte `start` on. Bytes that are
    /// never filled are zeros when the read succeeds.
    ///
    /// # Panics
    /// If this is not a read or the bytes leave the page.
    pub fn fill_page(&mut self, page: usize, start: usize, bytes: &[u8]) {
        assert_eq!(self.request().kind, IoKind::Read, "only a read fills pages");
        let fits = start <= PAGE_BYTES && bytes.len() <= PAGE_BYTES - start;
        assert!(fits && page < self.page_count(), "the bytes fit the page");
        if !self.has_bytes() {
            return;
        }
        let from = (page * PAGE_BYTES + start) as u64;
        let to = from + bytes.len() as u64;
        if self.parts().filled_bytes < from {
            self.clear_up_to(from);
        }
        self.put(page, start, bytes);
        let parts = self.parts_mut();
        parts.filled_bytes = parts.filled_bytes.max(to);
    }

    /// Makes zeros of what is not filled before byte `end` of the pages.
    fn clear_up_to(&mut self, end: u64) {
        static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        let mut at = self.parts().filled_bytes as usize;
        while (at as u64) < end {
            let start = at % PAGE_BYTES;
            let length = (PAGE_BYTES - start).min(end as usize - at);
            self.put(at / PAGE_BYTES, start, &ZEROS[..length]);
            at += length;
        }
        self.parts_mut().filled_bytes = at as u64;
    }

    /// Copies `bytes` to byte `start` of a page of a read with bytes.
    #[allow(unsafe_code)]
    fn put(&mut self, page: usize, start: usize, bytes: &[u8]) {
        assert!(start + bytes.len() <= PAGE_BYTES, "the bytes fit the page");
        let address = self.page_address(page);
        // SAFETY: a read request has its pages to itself until it is finished (PagePointer::new);
        // `&mut self` keeps two fills of one request apart; the bound was checked above; only
        // pages with bytes come here.
        unsafe {
            address
                .add(start)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Copies from byte `start` of page `page` of a write request into `bytes`.
    ///
    /// A store that uses this sets `stable_pages` in its geometry. If it does not, the page may be
    /// changed meanwhile; then the copy may be partly old and partly new, and the page is written
    /// again.
    ///
    /// # Panics
    /// If this is not a write or the bytes leave the page.
    #[allow(unsafe_code)]
    pub fn copy_page(&self, page: usize, start: usize, bytes: &mut [u8]) {
        assert_eq!(
            self.request().kind,
            IoKind::Write,
            "only a write has pages to copy from"
        );
        let fits = start <= PAGE_BYTES && bytes.len() <= PAGE_BYTES - start;
        assert!(fits && page < self.page_count(), "the bytes fit the page");
        if !self.has_bytes() {
            bytes.fill(0);
            return;
        }
        let address = self.page_address(page);
        if self.parts().flags.content == Content::ChangingBytes {
            for (at, byte) in bytes.iter_mut().enumerate() {
                // SAFETY: the page is valid until the request is finished (PagePointer::new), and
                // the bound was checked above. A writer may change the byte meanwhile; each byte
                // is read once, by itself, as the kernel would, and any value of it is good.
                *byte = unsafe { address.add(start + at).read_volatile() };
            }
            return;
        }
        // SAFETY: nobody writes the pages of such a write request until it is finished
        // (PagePointer::new); the bound was checked above.
        unsafe {
            address
                .add(start)
                .copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len());
        }
    }

    /// Lets `wrapper` see the end of the request before those that were put here earlier, and
    /// before the submitter.
    ///
    /// ```
    /// use forebay_store::{
    ///     Ending, Failure, Finish, FinishedIo, Intercept, Io, IoKind, MemoryStore, ObjectId,
    ///     Request, Store,
    /// };
    /// struct Refuse;
    /// impl Intercept for Refuse {
    ///     fn ended(&self, mut ending: Ending) {
    ///         ending.fail(Failure::Forgotten);
    ///     }
    /// }
    /// struct Refused;
    /// impl Finish for Refused {
    ///     fn finished(&self, io: FinishedIo) {
    ///         assert_eq!(io.result, Err(io.request.error(Failure::Forgotten)));
    ///     }
    /// }
    /// # let request = Request {
    /// #     kind: IoKind::Commit,
    /// #     object: ObjectId(1),
    /// #     offset_bytes: 0,
    /// #     length_bytes: 0,
    /// # };
    /// let mut io = Io::new(request, Vec::new(), std::sync::Arc::new(Refused), 0);
    /// io.intercept(std::sync::Arc::new(Refuse));
    /// MemoryStore::new().submit(io);
    /// ```
    pub fn intercept(&mut self, wrapper: Arc<dyn Intercept>) {
        self.parts_mut().route.through(wrapper);
    }

    /// Ends the request with `result` and tells its submitter.
    pub fn finish(self, result: Result<(), StoreError>) {
        self.end(result, false);
    }

    fn end(mut self, result: Result<(), StoreError>, is_durable: bool) {
        drop(self.ending(result, is_durable));
    }

    fn ending(&mut self, result: Result<(), StoreError>, is_durable: bool) -> Option<Ending> {
        let parts = self.parts.as_ref()?;
        let all = (parts.pages.len() * PAGE_BYTES) as u64;
        let is_short = parts.filled_bytes < all && parts.request.kind == IoKind::Read;
        if is_short && self.has_bytes() && result.is_ok() {
            self.clear_up_to(all);
        }
        let Parts {
            request,
            pages,
            token,
            route,
            submitted_ns,
            ..
        } = self.parts.take()?;
        let io = FinishedIo {
            request,
            pages,
            token,
            result,
            is_durable,
            submitted: submitted(submitted_ns),
        };
        Some(Ending::new(io, route))
    }

    /// Ends the request as done.
    pub fn succeed(self) {
        self.finish(Ok(()));
    }

    /// Ends a write as done and durable, whether or not that was asked for. The length that it
    /// gives its object is durable too ([`Io::grows`]).
    ///
    /// # Panics
    /// If this is not a write.
    pub fn succeed_durably(self) {
        assert_eq!(self.request().kind, IoKind::Write, "a write is durable");
        self.end(Ok(()), true);
    }

    /// Ends the request as failed for the reason `failure`.
    pub fn fail(self, failure: Failure) {
        let error = self.request().error(failure);
        self.finish(Err(error));
    }

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect(UNFINISHED)
    }

    fn parts_mut(&mut self) -> &mut Parts {
        self.parts.as_mut().expect(UNFINISHED)
    }
}

/// The time that `Parts::submitted_ns` stands for.
fn submitted(ns_plus_one: u64) -> Option<Instant> {
    ns_plus_one.checked_sub(1).map(Instant::from_nanos)
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        f.debug_struct("Io")
            .field("request", &parts.request)
            .field("token", &parts.token)
            .finish_non_exhaustive()
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let Some(parts) = &self.parts else { return };
        let failure = if std::thread::panicking() {
            Failure::Panicked
        } else {
            Failure::Dropped
        };
        let error = parts.request.error(failure);
        drop(self.ending(Err(error), false));
    }
}

#[cfg(test)]
#[path = "io_tests.rs"]
mod tests;
