//! A store that keeps nothing, for worlds that judge only levels and times.

use forebay_store::{Durability, Geometry, Io, MemoryStore, Store};

/// Takes every request at once and keeps nothing.
#[derive(Default)]
pub(super) struct NullStore {
    /// What was written needs a commit.
    pub(super) is_unstable: bool,
}

impl Store for NullStore {
    fn geometry(&self) -> Geometry {
        let geometry = MemoryStore::new().geometry();
        if self.is_unstable {
            Geometry {
                durability: Durability::Unstable,
                ..geometry
            }
        } else {
            geometry
        }
    }

    fn submit(&self, io: Io) {
        io.succeed();
    }
}
