//! The end of a request on its way back: from the store, past the wrappers, to the submitter.

use super::PagePointer;
use crate::error::{Failure, StoreError};
use crate::request::{IoKind, Request};
use forebay_base::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ThreadId, current, panicking};

/// What is called when a request is finished: once for each request, on any thread. It must not
/// wait. No store ever gets hold of it, so nobody can call it a second time or with another
/// request.
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
    /// What this write wrote is durable, so that it needs no commit
    /// ([`Io::durable`](crate::Io::durable)).
    pub is_durable: bool,
    /// When it was submitted, if the submitter said so
    /// ([`Io::submitted_at`](crate::Io::submitted_at)).
    pub submitted: Option<Instant>,
}

/// A wrapper that sees the end of a request ([`Io::intercept`](crate::Io::intercept)).
pub trait Intercept: Send + Sync {
    /// The request has ended below. It goes on when `ending` is passed on or dropped. A panic
    /// here fails the request and ends here.
    fn ended(&self, ending: Ending);
}

/// The end of a request, which goes on to the submitter when it is dropped.
#[derive(Debug)]
pub struct Ending {
    way: Option<Way>,
    /// The thread that made this, if it was unwinding already: a caller may end its requests in a
    /// destructor, and no wrapper has panicked then.
    unwinding: Option<ThreadId>,
}

#[derive(Debug)]
struct Way {
    io: FinishedIo,
    route: Route,
}

const UNDER_WAY: &str = "an ending has its request until it is dropped";

impl Ending {
    pub(super) fn new(io: FinishedIo, route: Route) -> Ending {
        Ending {
            way: Some(Way { io, route }),
            unwinding: panicking().then(|| current().id()),
        }
    }

    fn io(&self) -> &FinishedIo {
        &self.way.as_ref().expect(UNDER_WAY).io
    }

    fn io_mut(&mut self) -> &mut FinishedIo {
        &mut self.way.as_mut().expect(UNDER_WAY).io
    }

    /// What was asked.
    pub fn request(&self) -> Request {
        self.io().request
    }

    /// Done, or why not.
    ///
    /// # Errors
    /// Those of the store.
    pub fn result(&self) -> Result<(), StoreError> {
        self.io().result
    }

    /// How many pages it has.
    pub fn page_count(&self) -> usize {
        self.io().pages.len()
    }

    /// Whether what was written is durable.
    pub fn is_durable(&self) -> bool {
        self.io().is_durable
    }

    /// The request has failed for the reason `failure`, whatever it was before. What failed cannot
    /// be made good here: its pages may not have been filled.
    pub fn fail(&mut self, failure: Failure) {
        let io = self.io_mut();
        io.result = Err(io.request.error(failure));
        io.is_durable = false;
    }

    /// What a write that went well has written is durable, because the wrapper has seen to it.
    pub fn make_durable(&mut self) {
        let io = self.io_mut();
        io.is_durable = io.result.is_ok() && io.request.kind == IoKind::Write;
    }

    /// Lets it go on.
    pub fn pass(self) {
        drop(self);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let has_panicked = panicking() && self.unwinding != Some(current().id());
        if has_panicked && self.result().is_ok() {
            self.fail(Failure::Panicked);
        }
        let Some(Way { io, route }) = self.way.take() else {
            return;
        };
        let Some(link) = route.wrappers else {
            return route.finisher.finished(io);
        };
        let Link { wrapper, next } = *link;
        let ending = Ending::new(
            io,
            Route {
                wrappers: next,
                ..route
            },
        );
        // The thread belongs to the store, whose other requests would be lost with it.
        if catch_unwind(AssertUnwindSafe(|| wrapper.ended(ending))).is_err() {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                forebay_rt::say("a wrapper of a store panicked; its request fails");
            }
        }
    }
}

/// Who hears of the end of a request: wrappers, the last one first, then the submitter.
pub(super) struct Route {
    wrappers: Option<Box<Link>>,
    finisher: Arc<dyn Finish>,
}

struct Link {
    wrapper: Arc<dyn Intercept>,
    next: Option<Box<Link>>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").finish_non_exhaustive()
    }
}

impl Route {
    pub(super) fn to(finisher: Arc<dyn Finish>) -> Route {
        Route {
            wrappers: None,
            finisher,
        }
    }

    /// `wrapper` hears first from now on.
    pub(super) fn through(&mut self, wrapper: Arc<dyn Intercept>) {
        let next = self.wrappers.take();
        self.wrappers = Some(Box::new(Link { wrapper, next }));
    }
}
