//! What a store may ask of the cache before it.

use crate::parts::Pages;
use crate::state::objects::StoreObject;
use forebay_base::sync::lock;
use forebay_store::{ObjectId, Unwritten};
use std::sync::Weak;
use std::sync::atomic::Ordering;

/// Answers one store of a cache.
#[derive(Debug)]
pub(crate) struct OfStore {
    pub(crate) pages: Weak<Pages>,
    /// The number of the store.
    pub(crate) backing: usize,
}

impl Unwritten for OfStore {
    fn has_unwritten(&self, object: ObjectId) -> bool {
        let pages = self.pages.upgrade();
        pages.is_some_and(|pages| {
            pages.has_unwritten(StoreObject {
                backing: self.backing,
                object,
            })
        })
    }
}

impl Pages {
    /// Whether the object at `place` has bytes, or a length, that are not durable in its store.
    fn has_unwritten(&self, place: StoreObject) -> bool {
        let Some(object) = self.objects.at(place) else {
            return false;
        };
        // First: a request notes what it owes before it counts as ended.
        let is_busy = object.in_flight.changes.load(Ordering::Acquire) > 0;
        let is_dirty = !lock(&object.dirty).is_clean();
        is_busy
            || is_dirty
            || object.to_commit().is_some()
            || object.length.unsynced.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use forebay_base::sync::Mutex;
    use forebay_base::{PAGE_BYTES, Span};
    use forebay_rt::{Virtual, VirtualSettings};
    use forebay_store::{Geometry, Io, MemoryStore, Store};
    use std::sync::Arc;

    /// A store that keeps its requests.
    #[derive(Default)]
    struct Silent {
        requests: Mutex<Vec<Io>>,
        unwritten: Mutex<Option<Arc<dyn Unwritten>>>,
    }

    impl Store for Silent {
        fn geometry(&self) -> Geometry {
            MemoryStore::new().geometry()
        }

        fn submit(&self, io: Io) {
            lock(&self.requests).push(io);
        }

        fn attached(&self, unwritten: Arc<dyn Unwritten>) {
            *lock(&self.unwritten) = Some(unwritten);
        }
    }

    #[test]
    fn a_request_that_outlives_its_cache_is_still_unwritten() {
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        world.run(async move {
            let (silent, cache) = (Arc::new(Silent::default()), Cache::small(&rt, 8));
            let store = cache.attach(silent.clone()).expect("the store is well");
            let file = cache.open(&store, ObjectId(1), 0).expect("it opens");
            let written = file.write_at(&[1; PAGE_BYTES], 0).await;
            assert_eq!(written, Ok(()));
            let synced = rt.timeout(Span::from_secs(1), file.sync()).await;
            assert!(synced.is_err(), "the store does not answer");
            drop((file, store, cache));
            let unwritten = lock(&silent.unwritten).clone().expect("it was attached");
            assert!(unwritten.has_unwritten(ObjectId(1)));
            let requests = std::mem::take(&mut *lock(&silent.requests));
            assert!(!requests.is_empty());
            drop(requests);
            rt.sleep(Span::from_secs(1)).await;
            assert!(!unwritten.has_unwritten(ObjectId(1)), "the cache is gone");
        });
    }
}
