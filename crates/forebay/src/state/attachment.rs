//! Which stores have a cache in front of them. Of two caches over one store, each would keep bytes
//! that the other has changed.

use forebay_store::Store;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The addresses of the stores. Hidden from the schedule explorer: nobody waits with the lock.
static ATTACHED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn attached() -> MutexGuard<'static, BTreeSet<usize>> {
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store is in front of one cache as long as this lives. It keeps the store, so that no other
/// one gets its address.
pub(crate) struct Attachment(Arc<dyn Store>);

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").finish_non_exhaustive()
    }
}

impl Attachment {
    /// Of `store`; none if it has one.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Attachment> {
        attached()
            .insert(address(store))
            .then(|| Attachment(store.clone()))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        attached().remove(&address(&self.0));
    }
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_store::MemoryStore;

    #[test]
    fn a_store_is_attached_once_at_a_time() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let attachment = Attachment::of(&store).expect("nobody has it");
        assert!(Attachment::of(&store).is_none());
        assert!(Attachment::of(&other).is_some());
        drop(attachment);
        assert!(Attachment::of(&store).is_some());
    }
}
