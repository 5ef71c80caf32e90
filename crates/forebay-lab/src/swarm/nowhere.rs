//! A store for worlds in which only levels and times are judged.

use forebay_store::{Durability, Geometry, Io, MemoryStore, Store};

/// Takes everything at once and keeps nothing.
#[derive(Default)]
pub(super) struct Nowhere {
    /// What was written needs a commit.
    pub(super) is_unstable: bool,
}

impl Store for Nowhere {
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
