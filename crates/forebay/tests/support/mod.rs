//! A cache in virtual time before a store of the test's choice.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod model;

use forebay::event::EventRing;
use forebay::{AttachedStore, Cache, File, Parts, Settings};
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId, Store};
use std::sync::Arc;

pub(crate) const PAGE: usize = 4096;
pub(crate) const FILE: ObjectId = ObjectId(1);

/// A small cache and what a test needs to know of it.
pub(crate) struct Bench {
    pub(crate) cache: Cache,
    pub(crate) store: AttachedStore,
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) rt: Rt,
}

impl Bench {
    /// A cache of `mib` MiB before `wrap` around memory.
    pub(crate) fn new(
        rt: Rt,
        mib: u64,
        wrap: impl FnOnce(Rt, Arc<MemoryStore>) -> Arc<dyn Store>,
    ) -> Bench {
        let settings = Settings {
            memory_bytes: mib << 20,
            prefault: false,
            ..Settings::default()
        };
        Bench::with(rt, settings, wrap)
    }

    pub(crate) fn with(
        rt: Rt,
        settings: Settings,
        wrap: impl FnOnce(Rt, Arc<MemoryStore>) -> Arc<dyn Store>,
    ) -> Bench {
        let memory = Arc::new(MemoryStore::new());
        let store = wrap(rt.clone(), memory.clone());
        Bench::around(rt, settings, memory, store)
    }

    /// A cache before `store`, which is `memory` or something around it.
    pub(crate) fn around(
        rt: Rt,
        settings: Settings,
        memory: Arc<MemoryStore>,
        store: Arc<dyn Store>,
    ) -> Bench {
        let ring = Arc::new(EventRing::new(100_000));
        let parts = Parts {
            rt: rt.clone(),
            sink: Some(ring.clone()),
        };
        let cache = Cache::with_parts(settings, parts).expect("the settings are good");
        let store = cache.attach(store).expect("a store is attached");
        Bench {
            cache,
            store,
            memory,
            ring,
            rt,
        }
    }

    /// The plain memory store as it is.
    pub(crate) fn plain(rt: Rt, mib: u64) -> Bench {
        Bench::new(rt, mib, |_, memory| memory)
    }

    pub(crate) fn open(&self, length_bytes: u64) -> File {
        self.cache
            .open(&self.store, FILE, length_bytes)
            .expect("the object opens")
    }

    /// Nothing is inconsistent.
    pub(crate) fn assert_consistent(&self) {
        assert_eq!(self.cache.check(), Vec::<String>::new());
    }
}

/// Runs `test` on a virtual machine with this seed.
pub(crate) fn simulate<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Rt) -> F) {
    simulated(seed, test);
}

/// Runs `test` on a virtual machine with this seed, and returns the hash of all that happened.
pub(crate) fn simulated<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Rt) -> F) -> u64 {
    let machine = Virtual::new(VirtualSettings {
        seed,
        ..VirtualSettings::default()
    });
    machine.run(test(machine.rt()));
    machine.trace_hash()
}

/// A page that says which one it is.
pub(crate) fn page_of(number: u64) -> Vec<u8> {
    let mut bytes = vec![(number % 251) as u8; PAGE];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}
