//! What a store may ask of the cache before it.

use crate::engine::Engine;
use forebay_base::sync::lock;
use forebay_store::{ObjectId, Unwritten};
use std::sync::Weak;
use std::sync::atomic::Ordering;

/// Answers one store of a cache.
#[derive(Debug)]
pub(crate) struct OfStore {
    pub(crate) engine: Weak<Engine>,
    /// The number of the store.
    pub(crate) backing: usize,
}

impl Unwritten for OfStore {
    fn has_unwritten(&self, object: ObjectId) -> bool {
        let engine = self.engine.upgrade();
        engine.is_some_and(|engine| engine.has_unwritten((self.backing, object)))
    }
}

impl Engine {
    /// Whether the object at `place` has bytes, or a length, that are not durable in its store.
    fn has_unwritten(&self, place: (usize, ObjectId)) -> bool {
        let Some(object) = self.pages.objects.at(place) else {
            return false;
        };
        // First: a request notes what it owes before it counts as ended.
        let is_busy = object.changes_in_flight.load(Ordering::Acquire) > 0;
        let is_dirty = !lock(&object.dirty).is_clean();
        is_busy
            || is_dirty
            || object.to_commit().is_some()
            || object.length_unsynced.load(Ordering::Acquire)
    }
}
