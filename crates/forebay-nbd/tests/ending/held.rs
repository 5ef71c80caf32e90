//! A store that holds back some kinds of requests until the test lets go.

use forebay_base::sync::{Mutex, lock};
use forebay_rt::block_on;
use forebay_rt::wait::Gate;
use forebay_store::{Geometry, Io, IoKind, MemoryStore, Store};

pub(crate) struct HeldStore {
    inner: MemoryStore,
    kinds: &'static [IoKind],
    /// `None` once the test has released them.
    held: Mutex<Option<Vec<Io>>>,
    /// Opened by the first request that is held back.
    has_some: Gate,
}

impl HeldStore {
    /// A store that holds back requests of these kinds.
    pub(crate) fn of(kinds: &'static [IoKind]) -> HeldStore {
        HeldStore {
            inner: MemoryStore::new(),
            kinds,
            held: Mutex::new(Some(Vec::new())),
            has_some: Gate::new(false),
        }
    }

    /// Returns once a request is held back.
    pub(crate) fn await_request(&self) {
        block_on(self.has_some.wait());
    }

    /// Lets all requests through, now and later.
    pub(crate) fn release(&self) {
        let held = lock(&self.held).take();
        for io in held.into_iter().flatten() {
            self.inner.submit(io);
        }
    }
}

impl Store for HeldStore {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, io: Io) {
        if self.kinds.contains(&io.request().kind)
            && let Some(held) = lock(&self.held).as_mut()
        {
            held.push(io);
            self.has_some.open();
            return;
        }
        self.inner.submit(io);
    }
}
