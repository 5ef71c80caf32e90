//! A request in two halves: it ends when both have ended.

use super::ending::{Ending, Route};
use super::{Finish, FinishedIo, Io, PagePointer, Parts};
use crate::error::Failure;
use crate::request::Request;
use forebay_base::sync::{Mutex, lock};
use std::sync::Arc;

/// What one of the two requests is.
pub(super) struct Half {
    pub(super) request: Request,
    pub(super) pages: Vec<PagePointer>,
    pub(super) filled_bytes: u64,
}

/// Makes two requests of `whole`. If it still has its pages, they come back at its end, and those
/// of the halves are dropped. If not, its pages are those of the halves.
pub(super) fn in_halves(whole: Parts, [first, second]: [Half; 2]) -> (Io, Io) {
    let (flags, memory) = (whole.flags, whole.memory);
    let whole: Arc<dyn Finish> = Arc::new(Whole {
        request: whole.request,
        token: whole.token,
        submitted_ns: whole.submitted_ns,
        has_pages: !whole.pages.is_empty(),
        state: Mutex::new(State {
            pages: [whole.pages, Vec::new()],
            route: Some(whole.route),
            under_way: 2,
            failure: None,
            is_durable: true,
        }),
    });
    let io = |half: Half, token| Io {
        parts: Some(Parts {
            request: half.request,
            pages: half.pages,
            token,
            route: Route::to(whole.clone()),
            flags,
            submitted_ns: 0,
            filled_bytes: half.filled_bytes,
            memory,
        }),
    };
    (io(first, 0), io(second, 1))
}

/// The request as it was.
struct Whole {
    request: Request,
    token: u64,
    submitted_ns: u64,
    has_pages: bool,
    state: Mutex<State>,
}

struct State {
    pages: [Vec<PagePointer>; 2],
    /// Taken when the last half has ended.
    route: Option<Route>,
    under_way: usize,
    failure: Option<Failure>,
    is_durable: bool,
}

impl Finish for Whole {
    fn finished(&self, half: FinishedIo) {
        let mut pages = half.pages;
        if self.has_pages {
            // They end before those of the whole are given back.
            pages.clear();
        }
        let ending = {
            let mut state = lock(&self.state);
            if let Err(error) = half.result {
                state.failure.get_or_insert(error.failure);
            }
            state.is_durable &= half.is_durable;
            state.under_way -= 1;
            if !self.has_pages {
                state.pages[usize::from(half.token != 0)] = pages;
            }
            self.ending(&mut state)
        };
        // The finisher may submit again, so no lock is held here.
        drop(ending);
    }
}

impl Whole {
    /// The end of the whole, if both halves have ended.
    fn ending(&self, state: &mut State) -> Option<Ending> {
        if state.under_way > 0 {
            return None;
        }
        let route = state.route.take()?;
        let [mut pages, rest] = std::mem::take(&mut state.pages);
        // The list keeps the room that it had as a whole.
        pages.extend(rest);
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
