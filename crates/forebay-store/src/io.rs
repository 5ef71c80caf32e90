//! One request to a store: it owns its pages and must be finished.

use crate::error::{Failure, StoreError};
use forebay_base::{Instant, PAGE_BYTES};
use std::fmt;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoKind {
    /// Fill the pages from the range; what the object does not have is zeros, and so is the rest
    /// of the last page.
    Read,
    /// Write the pages to the range. The object grows if the range ends past its end.
    Write,
    /// Make every finished write and length of the object durable. The range is ignored.
    Commit,
    /// The range is no longer needed and reads as zeros from now on.
    Discard,
    /// The object's length becomes `offset_bytes`; the bytes past it are gone.
    SetLength,
}

/// The number by which a store knows one of its objects (a file, a device, an export).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// What is asked of a store, without the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub kind: IoKind,
    /// Of which object.
    pub object: ObjectId,
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Bytes of the range.
    pub length_bytes: u64,
}

impl Request {
    /// The error that says that this request failed for the reason `failure`.
    pub fn error(self, failure: Failure) -> StoreError {
        StoreError {
            failure,
            request: self,
        }
    }
}

/// The address of one page of [`PAGE_BYTES`] bytes that belongs to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePointer(NonNull<u8>);

// SAFETY: a page pointer is an address; access to the bytes that it points to follows the promise
// made at `PagePointer::new`, which does not depend on the thread.
#[allow(unsafe_code)]
unsafe impl Send for PagePointer {}
// SAFETY: as above; a shared page pointer gives no access by itself.
#[allow(unsafe_code)]
unsafe impl Sync for PagePointer {}

impl PagePointer {
    /// The page at `address`.
    ///
    /// # Safety
    /// Until the request that carries it is finished, `address` must be valid for reads and
    /// writes of [`PAGE_BYTES`] bytes and aligned to them; while a read request carries it nobody
    /// else may access the bytes, and while a write request carries it nobody else in this
    /// program may write them unless the store's geometry allows it (`stable_pages` is false).
    #[allow(unsafe_code)]
    pub unsafe fn new(address: NonNull<u8>) -> PagePointer {
        debug_assert_eq!(
            address.as_ptr().align_offset(PAGE_BYTES),
            0,
            "a page is aligned"
        );
        PagePointer(address)
    }

    /// The address, for a store that passes it to the system.
    pub fn address(self) -> NonNull<u8> {
        self.0
    }
}

/// `count` pages that lie one after the other and are never freed, for unit tests.
#[cfg(test)]
#[allow(unsafe_code)]
pub(crate) fn leaked_pages(count: usize) -> Vec<PagePointer> {
    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);
    let pages: Vec<Page> = (0..count).map(|_| Page([0; PAGE_BYTES])).collect();
    pages
        .leak()
        .iter_mut()
        // SAFETY: the page is aligned, lives for ever, and its only reference ends here.
        .map(|page| unsafe { PagePointer::new(NonNull::from(&mut page.0).cast()) })
        .collect()
}

/// What is called when a request is finished: once for each request, on any thread. It must not
/// wait.
pub trait Finish: Send + Sync {
    /// Takes back what the request owned.
    fn finished(&self, io: FinishedIo);
}

/// A finished request and its result.
#[derive(Debug)]
pub struct FinishedIo {
    /// What was asked.
    pub request: Request,
    /// The pages that the request owned, in the order of the range.
    pub pages: Vec<PagePointer>,
    /// The number that the submitter gave it.
    pub token: u64,
    /// Done, or why not.
    pub result: Result<(), StoreError>,
    /// What this write wrote is durable, so that it needs no commit ([`Io::durable`]).
    pub is_durable: bool,
    /// When it was submitted, if the submitter said so ([`Io::submitted_at`]).
    pub submitted: Option<Instant>,
}

/// One request. Page `i` holds the bytes from `offset_bytes + i * PAGE_BYTES`; the last page may
/// be used in part.
///
/// Finish it with [`Io::finish`], [`Io::succeed`] or [`Io::fail`]. Dropping it unfinished would
/// leave its pages locked and its waiters asleep for ever, so that stops the program.
pub struct Io {
    parts: Option<Parts>,
}

/// What the submitter wants a write to be when it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Done,
    Durable,
}

struct Parts {
    request: Request,
    pages: Vec<PagePointer>,
    token: u64,
    finisher: Arc<dyn Finish>,
    has_bytes: bool,
    is_awaited: bool,
    asked: Asked,
    grows: bool,
    /// When it was submitted, ns plus one; 0 if the submitter did not say so. A request is moved
    /// around, so it stays small.
    submitted_ns: u64,
}

/// The address of pages without bytes: aligned, and used by nobody.
const NOWHERE: NonNull<u8> = NonNull::without_provenance(match NonZero::new(PAGE_BYTES) {
    Some(address) => address,
    None => unreachable!(),
});

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
                finisher,
                has_bytes: true,
                is_awaited: false,
                asked: Asked::Done,
                grows: false,
                submitted_ns: 0,
            }),
        }
    }

    /// The same request for pages without bytes: only their number counts. Filling such a page does
    /// nothing, and copying from it gives zeros.
    #[must_use]
    pub fn without_bytes(mut self) -> Io {
        self.parts.as_mut().expect(UNFINISHED).has_bytes = false;
        self
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
        self.parts.as_mut().expect(UNFINISHED).is_awaited = true;
        self
    }

    /// Whether the call that submits it will wait for its end.
    pub fn is_awaited(&self) -> bool {
        self.parts().is_awaited
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
        self.parts.as_mut().expect(UNFINISHED).submitted_ns = now.as_nanos().saturating_add(1);
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
        self.parts.as_mut().expect(UNFINISHED).asked = Asked::Durable;
        self
    }

    /// The same write, which is not to be made durable in the same step.
    #[must_use]
    pub fn without_durability(mut self) -> Io {
        self.parts.as_mut().expect(UNFINISHED).asked = Asked::Done;
        self
    }

    /// Whether the store may make this write durable in the same step.
    pub fn asks_durable(&self) -> bool {
        self.parts().asked == Asked::Durable
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
        self.parts.as_mut().expect(UNFINISHED).grows = true;
        self
    }

    /// Whether this write makes its object longer.
    pub fn grows(&self) -> bool {
        self.parts().grows
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
        let pages = vec![PagePointer(NOWHERE); pages as usize];
        Io::new(request, pages, finisher, token).without_bytes()
    }

    /// Whether the pages have bytes. A store that passes addresses to a device should get only
    /// pages with bytes; a store that only simulates time should not touch the bytes.
    pub fn has_bytes(&self) -> bool {
        self.parts().has_bytes
    }

    /// What is asked.
    pub fn request(&self) -> Request {
        self.parts().request
    }

    /// The submitter's number.
    pub fn token(&self) -> u64 {
        self.parts().token
    }

    /// The pages, in the order of the range.
    pub fn pages(&self) -> &[PagePointer] {
        &self.parts().pages
    }

    /// Copies `bytes` into page `page` of a read request from its byte `start` on.
    ///
    /// # Panics
    /// If this is not a read or the bytes leave the page.
    #[allow(unsafe_code)]
    pub fn fill_page(&mut self, page: usize, start: usize, bytes: &[u8]) {
        assert_eq!(self.request().kind, IoKind::Read, "only a read fills pages");
        assert!(start + bytes.len() <= PAGE_BYTES, "the bytes fit the page");
        if !self.has_bytes() {
            return;
        }
        let address = self.pages()[page].address();
        // SAFETY: a read request has its pages to itself until it is finished (PagePointer::new);
        // `&mut self` keeps two fills of one request apart; the bound was checked above.
        unsafe {
            address
                .add(start)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Copies from byte `start` of page `page` of a write request into `bytes`.
    ///
    /// A store that uses this sets `stable_pages` in its geometry, so that nobody writes the page
    /// meanwhile.
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
        assert!(start + bytes.len() <= PAGE_BYTES, "the bytes fit the page");
        if !self.has_bytes() {
            bytes.fill(0);
            return;
        }
        let address = self.pages()[page].address();
        // SAFETY: nobody writes the pages of a write request of a store with stable pages until
        // it is finished (PagePointer::new); the bound was checked above.
        unsafe {
            address
                .add(start)
                .copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len());
        }
    }

    /// Replaces the finisher by `finisher` and returns the old one: this is how a wrapper sees the
    /// end of a request. The wrapper must call the old one.
    pub fn intercept(&mut self, finisher: Arc<dyn Finish>) -> Arc<dyn Finish> {
        std::mem::replace(
            &mut self.parts.as_mut().expect(UNFINISHED).finisher,
            finisher,
        )
    }

    /// Replaces the finisher by what `make` makes of it. The wrapper must call the old one.
    pub fn intercept_with(&mut self, make: impl FnOnce(Arc<dyn Finish>) -> Arc<dyn Finish>) {
        let finisher = &mut self.parts.as_mut().expect(UNFINISHED).finisher;
        *finisher = make(Arc::clone(finisher));
    }

    /// Ends the request with `result` and calls its finisher.
    pub fn finish(self, result: Result<(), StoreError>) {
        self.end(result, false);
    }

    fn end(mut self, result: Result<(), StoreError>, is_durable: bool) {
        let parts = self.parts.take().expect(UNFINISHED);
        let Parts {
            request,
            pages,
            token,
            finisher,
            submitted_ns,
            ..
        } = parts;
        let submitted = submitted_ns.checked_sub(1).map(Instant::from_nanos);
        finisher.finished(FinishedIo {
            request,
            pages,
            token,
            result,
            is_durable,
            submitted,
        });
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
        if let Some(parts) = &self.parts {
            forebay_rt::say(format_args!(
                "a store dropped an unfinished {:?}; its pages would stay locked for ever, so the \
                 program stops",
                parts.request
            ));
            std::process::abort();
        }
    }
}
