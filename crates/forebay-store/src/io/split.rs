//! One request as two, which go their own ways.

use super::ending::{Ending, Route};
use super::{Finish, FinishedIo, Io, Parts};
use crate::error::Failure;
use crate::request::Request;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use std::sync::Arc;

/// The token of the first part; the other one has the next.
const FIRST: u64 = 0;

/// The request as it was, which ends when both parts have.
struct Whole {
    request: Request,
    token: u64,
    submitted_ns: u64,
    state: Mutex<State>,
}

struct State {
    ended: [Option<FinishedIo>; 2],
    route: Option<Route>,
    failure: Option<Failure>,
}

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
        let Parts {
            request,
            pages: mut first_pages,
            token,
            route,
            submitted_ns,
            filled_bytes,
            flags,
            memory,
        } = self.parts.take().expect(super::UNFINISHED);
        let rest_pages = first_pages.split_off(pages);
        let cut_bytes = (pages * PAGE_BYTES) as u64;
        let whole: Arc<dyn Finish> = Arc::new(Whole {
            request,
            token,
            submitted_ns,
            state: Mutex::new(State {
                ended: [None, None],
                route: Some(route),
                failure: None,
            }),
        });
        let part = |request, pages, token, filled_bytes| Io {
            parts: Some(Parts {
                request,
                pages,
                token,
                route: Route::to(whole.clone()),
                submitted_ns: 0,
                filled_bytes,
                flags,
                memory,
            }),
        };
        let of_first = Request {
            length_bytes: cut_bytes,
            ..request
        };
        let of_rest = Request {
            offset_bytes: request.offset_bytes + cut_bytes,
            length_bytes: request.length_bytes - cut_bytes,
            ..request
        };
        let filled = (
            filled_bytes.min(cut_bytes),
            filled_bytes.saturating_sub(cut_bytes),
        );
        (
            part(of_first, first_pages, FIRST, filled.0),
            part(of_rest, rest_pages, FIRST + 1, filled.1),
        )
    }
}

impl Finish for Whole {
    fn finished(&self, part: FinishedIo) {
        let ending = {
            let mut state = lock(&self.state);
            if let Err(error) = part.result {
                state.failure.get_or_insert(error.failure);
            }
            let place = usize::from(part.token != FIRST);
            state.ended[place] = Some(part);
            self.ending(&mut state)
        };
        // The finisher may submit again, so no lock is held here.
        drop(ending);
    }
}

impl Whole {
    /// The end of the whole, if both parts have ended.
    fn ending(&self, state: &mut State) -> Option<Ending> {
        if state.ended.iter().any(Option::is_none) {
            return None;
        }
        let [first, rest] = state.ended.each_mut().map(Option::take);
        let (mut first, rest, route) = (first?, rest?, state.route.take()?);
        // The list keeps the room that it had as a whole.
        first.pages.extend(rest.pages);
        let failed = state.failure.map(|failure| self.request.error(failure));
        let io = FinishedIo {
            request: self.request,
            pages: first.pages,
            token: self.token,
            result: failed.map_or(Ok(()), Err),
            is_durable: first.is_durable && rest.is_durable,
            submitted: super::submitted(self.submitted_ns),
        };
        Some(Ending::new(io, route))
    }
}
