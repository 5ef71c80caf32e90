//! A read that is asked for several times: the first good answer counts, and a late one harms
//! nobody, because each attempt has pages of its own.

use super::ending::Route;
use super::{Finish, FinishedIo, Flags, Io, PagePointer, Parts};
use crate::error::Failure;
use crate::request::IoKind;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use std::ptr::NonNull;
use std::sync::Arc;

/// A read, and the attempts to carry it out ([`Io::hedge`]).
///
/// It ends with the first attempt that goes well. It fails when every attempt has failed and this
/// value is dropped, for the reason of the last one.
pub struct Hedge(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
}

struct State {
    io: Option<Io>,
    failure: Failure,
}

impl Io {
    /// The same read, for several attempts. Each reads into a buffer of its own, which is copied
    /// into the pages of the read if it is the first.
    ///
    /// ```
    /// use forebay_store::{Finish, FinishedIo, Io, IoKind, MemoryStore, ObjectId, Request, Store};
    /// # struct Done;
    /// # impl Finish for Done {
    /// #     fn finished(&self, io: FinishedIo) {
    /// #         assert_eq!(io.result, Ok(()));
    /// #     }
    /// # }
    /// # let request = Request {
    /// #     kind: IoKind::Read,
    /// #     object: ObjectId(1),
    /// #     offset_bytes: 0,
    /// #     length_bytes: 4096,
    /// # };
    /// # let io = Io::phantom(request, std::sync::Arc::new(Done), 0);
    /// let (near, far) = (MemoryStore::new(), MemoryStore::new());
    /// let hedge = io.hedge();
    /// let late = hedge.attempt().expect("nobody has answered");
    /// far.submit(hedge.attempt().expect("nobody has answered"));
    /// assert!(hedge.attempt().is_none());
    /// near.submit(late);
    /// ```
    ///
    /// # Panics
    /// If this is not a read.
    pub fn hedge(self) -> Hedge {
        assert_eq!(self.request().kind, IoKind::Read, "only reads are hedged");
        Hedge(Arc::new(Shared {
            state: Mutex::new(State {
                io: Some(self),
                failure: Failure::Dropped,
            }),
        }))
    }
}

impl Hedge {
    /// One more attempt, or none if the read has ended.
    pub fn attempt(&self) -> Option<Io> {
        let state = lock(&self.0.state);
        let io = state.io.as_ref()?;
        let (parts, has_bytes) = (io.parts(), io.has_bytes());
        let count = parts.pages.len();
        let buffer = Buffer::new(if has_bytes { count } else { 0 });
        let pages = if has_bytes {
            buffer.pages()
        } else {
            (0..count).map(|_| PagePointer::nowhere()).collect()
        };
        let finisher = Arc::new(Attempt {
            shared: self.0.clone(),
            buffer,
        });
        Some(Io {
            parts: Some(Parts {
                request: parts.request,
                pages,
                token: 0,
                route: Route::to(finisher),
                submitted_ns: 0,
                filled_bytes: 0,
                flags: Flags {
                    is_awaited: false,
                    ..parts.flags
                },
                memory: 0,
            }),
        })
    }
}

struct Attempt {
    shared: Arc<Shared>,
    buffer: Buffer,
}

impl Finish for Attempt {
    fn finished(&self, attempt: FinishedIo) {
        let mut state = lock(&self.shared.state);
        let failed = attempt.result.err();
        if let Some(error) = failed {
            state.failure = error.failure;
        }
        let first = if failed.is_none() {
            state.io.take()
        } else {
            None
        };
        drop(state);
        let Some(mut io) = first else { return };
        if io.has_bytes() {
            for page in 0..io.page_count() {
                io.fill_page(page, 0, self.buffer.page(page, &attempt));
            }
        }
        io.succeed();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        let (io, failure) = (state.io.take(), state.failure);
        drop(state);
        if let Some(io) = io {
            io.fail(failure);
        }
    }
}

#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Pages of an attempt. The finisher of the attempt owns them, and every unfinished request owns
/// its finisher, so they live until the pages have come back.
struct Buffer {
    first: NonNull<Page>,
    count: usize,
}

// SAFETY: the bytes are accessed through the request that has the pages and, after it has ended,
// through `page`, which only reads.
#[allow(unsafe_code)]
unsafe impl Send for Buffer {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new(count: usize) -> Buffer {
        let pages: Box<[Page]> = (0..count).map(|_| Page([0; PAGE_BYTES])).collect();
        let pages: NonNull<[Page]> = NonNull::from(Box::leak(pages));
        Buffer {
            first: pages.cast(),
            count,
        }
    }

    /// All its pages, for the one request of its attempt.
    #[allow(unsafe_code)]
    fn pages(&self) -> Vec<PagePointer> {
        let page = |at| {
            // SAFETY: the page is inside the buffer, which is aligned and lives until the request
            // has ended; `Hedge::attempt` calls this once for each buffer, and `page` asks for
            // the ended request.
            unsafe { PagePointer::new(self.first.add(at).cast()) }
        };
        (0..self.count).map(page).collect()
    }

    /// The bytes of a page, now that `ended`, the request of this attempt, has given it back.
    #[allow(unsafe_code)]
    fn page(&self, at: usize, ended: &FinishedIo) -> &[u8; PAGE_BYTES] {
        assert_eq!(ended.pages.len(), self.count, "the request of this buffer");
        assert!(at < self.count, "a page of the buffer");
        // SAFETY: the page is inside the buffer and was initialised; nobody writes it, because the
        // request that could has ended.
        unsafe { &self.first.add(at).as_ref().0 }
    }
}

impl Drop for Buffer {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        let pages = NonNull::slice_from_raw_parts(self.first, self.count);
        // SAFETY: the slice was leaked by `new` with this length, and nobody uses it any more.
        drop(unsafe { Box::from_raw(pages.as_ptr()) });
    }
}

#[cfg(test)]
#[path = "hedge_tests.rs"]
mod tests;
