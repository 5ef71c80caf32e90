//! One write for two stores, which both read its pages.

use super::ending::{Ending, Route};
use super::{Finish, FinishedIo, Io, PagePointer, Parts};
use crate::error::Failure;
use crate::request::{IoKind, Request};
use forebay_base::sync::{Mutex, lock};
use std::sync::Arc;

/// The write as it was. It has its pages, and ends when both copies have.
struct Whole {
    request: Request,
    token: u64,
    submitted_ns: u64,
    state: Mutex<State>,
}

struct State {
    /// Taken when the last copy has ended.
    held: Option<(Vec<PagePointer>, Route)>,
    under_way: usize,
    failure: Option<Failure>,
    is_durable: bool,
}

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
        let Parts {
            request,
            pages,
            token,
            route,
            submitted_ns,
            filled_bytes,
            flags,
            memory,
        } = self.parts.take().expect(super::UNFINISHED);
        // SAFETY: the requests below are the only ones that get these pages. Both are writes, so
        // nobody writes through them, and `Whole` has the page until both have ended.
        let again = |page: &PagePointer| unsafe { PagePointer::new(page.address()) };
        let copies = [(); 2].map(|()| pages.iter().map(again).collect());
        let whole: Arc<dyn Finish> = Arc::new(Whole {
            request,
            token,
            submitted_ns,
            state: Mutex::new(State {
                held: Some((pages, route)),
                under_way: 2,
                failure: None,
                is_durable: true,
            }),
        });
        let copy = |pages| Io {
            parts: Some(Parts {
                request,
                pages,
                token: 0,
                route: Route::to(whole.clone()),
                flags,
                submitted_ns: 0,
                filled_bytes,
                memory,
            }),
        };
        let [one, other] = copies.map(copy);
        (one, other)
    }
}

impl Finish for Whole {
    fn finished(&self, copy: FinishedIo) {
        let (result, is_durable) = (copy.result, copy.is_durable);
        // Its page pointers end before those of the whole are given back.
        drop(copy);
        let ending = {
            let mut state = lock(&self.state);
            if let Err(error) = result {
                state.failure.get_or_insert(error.failure);
            }
            state.is_durable &= is_durable;
            state.under_way -= 1;
            self.ending(&mut state)
        };
        // The finisher may submit again, so no lock is held here.
        drop(ending);
    }
}

impl Whole {
    /// The end of the write, if both copies have ended.
    fn ending(&self, state: &mut State) -> Option<Ending> {
        if state.under_way > 0 {
            return None;
        }
        let (pages, route) = state.held.take()?;
        let failed = state.failure.map(|failure| self.request.error(failure));
        let io = FinishedIo {
            request: self.request,
            pages,
            token: self.token,
            result: failed.map_or(Ok(()), Err),
            is_durable: state.is_durable && failed.is_none(),
            submitted: super::submitted(self.submitted_ns),
        };
        Some(Ending::new(io, route))
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
