//! A store that keeps nothing, for worlds that judge only levels and times.

use forebay_store::{Durability, Geometry, Io, MemoryStore, Store};

/// Takes every request at once and keeps nothing.
pub(super) struct NullStore {
    /// When it says that what was written is durable.
    pub(super) durability: Durability,
}

impl Store for NullStore {
    fn geometry(&self) -> Geometry {
        Geometry {
            durability: self.durability,
            ..MemoryStore::new().geometry()
        }
    }

    fn submit(&self, io: Io) {
        io.succeed();
    }
}
