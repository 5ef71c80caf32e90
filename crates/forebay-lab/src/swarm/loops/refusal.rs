//! A store that refuses some pages of one object for a while.

use forebay_base::{Instant, PAGE_BYTES};
use forebay_rt::Rt;
use forebay_store::{Failure, Geometry, Io, IoKind, ObjectId, Store};
use std::ops::Range;
use std::sync::Arc;

/// What is refused, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) object: ObjectId,
    pub(super) pages: Range<u64>,
    pub(super) until: Instant,
}

/// See above.
pub(super) struct Refusing {
    pub(super) rt: Rt,
    pub(super) inner: Arc<dyn Store>,
    pub(super) refused: Option<Refused>,
}

impl Refusing {
    fn refuses(&self, io: &Io) -> bool {
        let request = io.request();
        let first = request.offset_bytes / PAGE_BYTES as u64;
        let end = first + io.page_count() as u64;
        self.refused.as_ref().is_some_and(|refused| {
            request.kind == IoKind::Write
                && request.object == refused.object
                && first < refused.pages.end
                && refused.pages.start < end
                && self.rt.now() < refused.until
        })
    }
}

impl Store for Refusing {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, io: Io) {
        if self.refuses(&io) {
            io.fail(Failure::Device(5));
        } else {
            self.inner.submit(io);
        }
    }
}
