//! Each request takes longer: by a fixed span for its kind, any number of them at once.

use super::Held;
use crate::Store;
use crate::io::Io;
use crate::request::IoKind;
use forebay_base::Span;
use forebay_rt::Rt;
use std::sync::Arc;

/// By how much requests are delayed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Reads.
    pub read: Span,
    /// Writes, discards and changes of length.
    pub write: Span,
    /// Commits.
    pub commit: Span,
}

/// A store that begins each request later. Unlike [`RateStore`](crate::RateStore) it has no
/// queue: a thousand requests are delayed as long as one.
///
/// ```
/// use forebay_base::Span;
/// use forebay_rt::Rt;
/// use forebay_store::{DelayStore, Delays, MemoryStore, Store};
/// use std::sync::Arc;
/// let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let delays = Delays { read: Span::from_micros(80), ..Delays::default() };
/// let remote = DelayStore::new(Rt::real(), Arc::clone(&memory), delays);
/// assert_eq!(remote.geometry(), memory.geometry());
/// ```
pub struct DelayStore {
    rt: Rt,
    inner: Arc<dyn Store>,
    delays: Delays,
}

impl DelayStore {
    /// Delays the requests to `inner` on the clock of `rt`.
    pub fn new(rt: Rt, inner: Arc<dyn Store>, delays: Delays) -> DelayStore {
        DelayStore { rt, inner, delays }
    }
}

impl Store for DelayStore {
    forward_to!(inner);

    fn submit(&self, io: Io) {
        let span = match io.request().kind {
            IoKind::Read => self.delays.read,
            IoKind::Write | IoKind::Discard | IoKind::SetLength => self.delays.write,
            IoKind::Commit => self.delays.commit,
        };
        if span == Span::ZERO {
            return self.inner.submit(io);
        }
        submit_later(&self.rt, &self.inner, io, span);
    }
}

/// Submits `io` to `inner` after `span`.
pub(super) fn submit_later(rt: &Rt, inner: &Arc<dyn Store>, io: Io, span: Span) {
    let held = Held::new(io);
    let inner = Arc::clone(inner);
    let wake = rt.sleep(span);
    rt.spawn("store delay", async move {
        // The task has to own all of `held`, so that dropping the task ends the request.
        let held = held;
        wake.await;
        inner.submit(held.release());
    });
}
