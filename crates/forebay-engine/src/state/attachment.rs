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

/// A cache is in front of a store, and of those inside it, as long as this lives. It keeps the
/// store, so that no other one gets an address of these.
pub(crate) struct Attachment {
    _store: Arc<dyn Store>,
    addresses: BTreeSet<usize>,
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").finish_non_exhaustive()
    }
}

impl Attachment {
    /// Of `store`; none if it, or a store inside it, has one.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Option<Attachment> {
        let mut addresses = BTreeSet::new();
        add_addresses(&**store, &mut addresses);
        let mut attached = attached();
        if !attached.is_disjoint(&addresses) {
            return None;
        }
        attached.extend(&addresses);
        Some(Attachment {
            _store: store.clone(),
            addresses,
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut attached = attached();
        attached.retain(|address| !self.addresses.contains(address));
    }
}

/// Adds the addresses of `store` and of all stores inside it.
fn add_addresses(store: &dyn Store, addresses: &mut BTreeSet<usize>) {
    // A store without a field has the address of the next one, and keeps nothing to be undone.
    if size_of_val(store) > 0 {
        addresses.insert(std::ptr::from_ref(store).cast::<()>().addr());
    }
    for inner in store.inner() {
        add_addresses(inner, addresses);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_rt::Rt;
    use forebay_store::{CountStore, DelayStore, Delays, MemoryStore};

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

    #[test]
    fn a_wrapper_is_the_store_inside() {
        let (store, other): (Arc<dyn Store>, Arc<dyn Store>) =
            (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let wrapped = |store: &Arc<dyn Store>| -> Arc<dyn Store> {
            let delayed = DelayStore::new(Rt::real(), store.clone(), Delays::default());
            Arc::new(CountStore::new(Rt::real(), Arc::new(delayed)))
        };
        let (one, two) = (wrapped(&store), wrapped(&store));
        let attachment = Attachment::of(&one).expect("nobody has it");
        assert!(Attachment::of(&two).is_none() && Attachment::of(&store).is_none());
        assert!(Attachment::of(&wrapped(&other)).is_some());
        drop(attachment);
        let attachment = Attachment::of(&store).expect("nobody has it");
        assert!(Attachment::of(&one).is_none());
        drop(attachment);
        assert!(Attachment::of(&two).is_some());
    }
}
