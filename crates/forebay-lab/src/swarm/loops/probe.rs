//! A probe: a store that reports when its writes and commits begin and end.

use super::watch::Watch;
use forebay_store::{Finish, FinishedIo, Geometry, Io, IoKind, Store};
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
            io.intercept_with(|reported| {
                Arc::new(Passing {
                    watch: self.watch.clone(),
                    number: self.number,
                    reported,
                })
            });
        }
        self.inner.submit(io);
    }
}

/// A request that has begun.
struct Passing {
    watch: Arc<Watch>,
    number: usize,
    reported: Arc<dyn Finish>,
}

impl Finish for Passing {
    fn finished(&self, io: FinishedIo) {
        self.watch.ends(self.number, io.request, io.result.is_ok());
        self.reported.finished(io);
    }
}
