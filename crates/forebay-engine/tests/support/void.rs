//! A store that takes everything and keeps nothing, for tests that are about times and levels.

use forebay_store::{Geometry, Io, IoKind, MemoryStore, Store};

/// It answers at once, and reads return zeros.
pub(crate) struct Void;

impl Store for Void {
    fn geometry(&self) -> Geometry {
        MemoryStore::new().geometry()
    }

    fn submit(&self, mut io: Io) {
        if io.request().kind == IoKind::Read {
            for slot in 0..io.page_count() {
                io.fill_page(slot, 0, &[0; super::PAGE]);
            }
        }
        io.succeed();
    }
}
