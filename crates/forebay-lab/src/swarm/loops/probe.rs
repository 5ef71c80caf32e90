//! A probe: a store that reports when its writes and commits begin and end.

use super::watch::Watch;
use forebay_store::{Ending, Geometry, Intercept, Io, IoKind, Store};
use std::sync::Arc;

/// Stands before the store `number` of a stage.
pub(super) struct Probe {
    pub(super) watch: Arc<Watch>,
    pub(super) number: usize,
    pub(super) inner: Arc<dyn Store>,
}

impl Store for Probe {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut io: Io) {
        if matches!(io.request().kind, IoKind::Write | IoKind::Commit) {
            self.watch.begins(self.number, io.request());
            io.intercept(Arc::new(Passing {
                watch: self.watch.clone(),
                number: self.number,
            }));
        }
        self.inner.submit(io);
    }
}

/// A request that has begun.
struct Passing {
    watch: Arc<Watch>,
    number: usize,
}

impl Intercept for Passing {
    fn ended(&self, ending: Ending) {
        let is_done = ending.result().is_ok();
        self.watch.ends(self.number, ending.request(), is_done);
        ending.pass();
    }
}
