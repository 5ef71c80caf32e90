//! The crash: the moment at which the power fails. It is chosen among the moments at which a store
//! changes.

use forebay_base::Prng;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::WaitQueue;
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// What one store holds after the crash.
pub(super) type Image = BTreeMap<ObjectId, Vec<u8>>;

/// A store that leaves an image when it crashes.
pub(super) trait Imaged: Send + Sync {
    /// What a loss of power leaves.
    fn image(&self, chance: Prng) -> Image;
}

/// Counts what happens in all stores. It takes the images when the count is reached.
#[derive(Debug)]
pub(super) struct CrashSwitch {
    left: AtomicU64,
    crashed: Arc<AtomicBool>,
    images: Mutex<Vec<Image>>,
    stores: Mutex<Vec<Weak<dyn Imaged>>>,
    chance: Prng,
    /// Woken when it is pulled.
    news: Arc<WaitQueue>,
}

impl CrashSwitch {
    /// An alarm that is pulled at the `after`-th event, or never if that is 0.
    pub(super) fn new(after: u64, chance: Prng, news: Arc<WaitQueue>) -> Arc<CrashSwitch> {
        Arc::new(CrashSwitch {
            left: AtomicU64::new(after),
            crashed: Arc::new(AtomicBool::new(false)),
            images: Mutex::new(Vec::new()),
            stores: Mutex::new(Vec::new()),
            chance,
            news,
        })
    }

    pub(super) fn watch(&self, store: Weak<dyn Imaged>) {
        lock(&self.stores).push(store);
    }

    /// The flag that the ledgers look at.
    pub(super) fn crashed(&self) -> Arc<AtomicBool> {
        self.crashed.clone()
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    /// Something in a store is about to happen, or has just happened. The caller holds no lock of a
    /// store.
    pub(super) fn tick(&self) {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        if left > 1 {
            return;
        }
        let stores: Vec<_> = lock(&self.stores)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let number = |at: usize| self.chance.child(&at.to_string());
        let images = stores
            .iter()
            .enumerate()
            .map(|(at, store)| store.image(number(at)));
        *lock(&self.images) = images.collect();
        self.crashed.store(true, Ordering::Relaxed);
        self.news.wake_all();
    }

    /// What the crash leaves, one image for each store.
    pub(super) fn take_images(&self) -> Vec<Image> {
        std::mem::take(&mut lock(&self.images))
    }
}
