//! A store that reports when its requests begin and end.

use super::observer::{Request, SceneIo, Watch};
use forebay_store::{Ending, Geometry, Intercept, Io, Store};
use std::sync::Arc;

/// A wrapper of store `number` of a stage.
pub(super) struct ObservedStore {
    pub(super) watch: Arc<Watch>,
    pub(super) number: usize,
    pub(super) inner: Arc<dyn Store>,
}

impl Store for ObservedStore {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut io: Io) {
        let request = Request {
            store: self.number,
            number: self.watch.next_request(),
            is: io.request(),
        };
        self.watch.io(SceneIo::RequestBegins(request));
        io.intercept(Arc::new(Passing {
            watch: self.watch.clone(),
            request,
        }));
        self.inner.submit(io);
    }
}

/// A request that has begun.
struct Passing {
    watch: Arc<Watch>,
    request: Request,
}

impl Intercept for Passing {
    fn ended(&self, ending: Ending) {
        let is_done = ending.result().is_ok();
        self.watch.io(SceneIo::RequestEnds(self.request, is_done));
        ending.pass();
    }
}
