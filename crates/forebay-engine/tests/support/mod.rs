//! A cache in virtual time in front of a store of the test's choice.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod model;
pub(crate) mod scan;
pub(crate) mod versions;
pub(crate) mod void;
pub(crate) mod writers;

use forebay_base::Span;
use forebay_engine::event::{Event, EventRing};
use forebay_engine::lab::{Kernel, LabCache};
use forebay_engine::{
    AccessError, AttachedStore, Cache, Counter, File, Parts, Settings, SyncError,
};
use forebay_kernels::Policy;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{
    Durability, Failure, FaultStore, Geometry, MemoryStore, ObjectId, Rate, RateStore, Store,
};
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
    /// Waits until the cache has the size that it should have.
    pub(crate) async fn settles(&self, longest: Span) {
        let deadline = self.rt.now() + longest;
        let over = || self.cache.statistics().pages_over;
        while over() > 0 {
            assert!(self.rt.now() < deadline, "{} over", over());
            self.rt.sleep(Span::from_millis(10)).await;
        }
    }

    /// A cache of `mib` MiB in front of `wrap` around memory.
    pub(crate) fn new(
        rt: Rt,
        mib: u64,
        wrap: impl FnOnce(Rt, Arc<MemoryStore>) -> Arc<dyn Store>,
    ) -> Bench {
        Bench::with(rt, Settings::of_mib(mib), wrap)
    }

    pub(crate) fn with(
        rt: Rt,
        settings: impl Into<Setup>,
        wrap: impl FnOnce(Rt, Arc<MemoryStore>) -> Arc<dyn Store>,
    ) -> Bench {
        let memory = Arc::new(MemoryStore::new());
        let store = wrap(rt.clone(), memory.clone());
        Bench::around(rt, settings, memory, store)
    }

    /// A cache in front of `store`, which is `memory` or a store around it.
    pub(crate) fn around(
        rt: Rt,
        settings: impl Into<Setup>,
        memory: Arc<MemoryStore>,
        store: Arc<dyn Store>,
    ) -> Bench {
        let ring = Arc::new(EventRing::new(100_000));
        let parts = Parts {
            rt: rt.clone(),
            sink: Some(ring.clone()),
        };
        let Setup { settings, kernel } = settings.into();
        let cache = Cache::of_kernel(settings, parts, kernel);
        let cache = cache.expect("the settings are good");
        let store = cache.attach(store).expect("a store is attached");
        Bench {
            cache,
            store,
            memory,
            ring,
            rt,
        }
    }

    /// A small cache in front of a store whose requests can be made to fail.
    pub(crate) fn faulty(rt: Rt, mib: u64) -> (Bench, Arc<FaultStore>) {
        Bench::faulty_over(rt, Settings::of_mib(mib), MemoryStore::new())
    }

    /// A cache in front of `memory`, whose requests can be made to fail.
    pub(crate) fn faulty_over(
        rt: Rt,
        settings: impl Into<Setup>,
        memory: MemoryStore,
    ) -> (Bench, Arc<FaultStore>) {
        let memory = Arc::new(memory);
        let faults = Arc::new(FaultStore::new(rt.clone(), memory.clone()));
        let bench = Bench::around(rt, settings, memory, faults.clone());
        (bench, faults)
    }

    /// A small cache in front of a store with this rate.
    pub(crate) fn rated(rt: Rt, mib: u64, rate: Rate) -> Bench {
        Bench::new(rt, mib, |rt, memory| {
            Arc::new(RateStore::new(rt, memory, rate))
        })
    }

    /// The plain memory store as it is.
    pub(crate) fn plain(rt: Rt, mib: u64) -> Bench {
        Bench::new(rt, mib, |_, memory| memory)
    }

    /// Swaps to `object` of the store, which gives it `bytes`.
    pub(crate) fn set_swap(&self, object: ObjectId, bytes: u64) {
        self.cache
            .set_swap(&self.store, object, bytes)
            .expect("there is room for swap");
    }

    /// Opens the file of the test. Each call is another handle on the same one.
    pub(crate) fn open(&self, length_bytes: u64) -> File {
        self.open_object(FILE, length_bytes)
    }

    pub(crate) fn open_object(&self, object: ObjectId, length_bytes: u64) -> File {
        self.cache
            .open(&self.store, object, length_bytes)
            .expect("the object opens")
    }

    /// The value of a counter now.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.cache.statistics().get(counter)
    }

    /// The events kept, with the milliseconds at which they happened.
    pub(crate) fn events(&self) -> Vec<(u64, Event)> {
        let of_ring = |(at, event): (forebay_base::Instant, Event)| (at.as_millis(), event);
        self.ring.latest().into_iter().map(of_ring).collect()
    }

    /// Whether the store has the pages that [`page_of`] makes for `numbers`, each in its place.
    pub(crate) fn has_stored(&self, numbers: std::ops::Range<u64>) -> bool {
        let stored = self.memory.snapshot(FILE);
        numbers.into_iter().all(|number| {
            let start = number as usize * PAGE;
            stored.get(start..start + PAGE) == Some(&page_of(number)[..])
        })
    }

    /// Checks that nothing is inconsistent.
    pub(crate) fn assert_consistent(&self) {
        assert_eq!(self.cache.check(), Vec::<String>::new());
    }
}

/// A store in memory that makes durable what it takes as `durability` says.
pub(crate) fn memory_of(durability: Durability) -> MemoryStore {
    MemoryStore::with(Geometry {
        durability,
        ..MemoryStore::new().geometry()
    })
}

/// Why the store failed, if that is what a sync reports.
pub(crate) fn sync_failure(result: Result<(), SyncError>) -> Option<Failure> {
    match result {
        Err(SyncError::Store(error)) => Some(error.failure),
        _ => None,
    }
}

/// Settings, and an older kernel if a test is about one.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) kernel: Kernel,
}

impl From<Settings> for Setup {
    fn from(settings: Settings) -> Setup {
        settings.under(Policy::default())
    }
}

/// Settings of tests.
pub(crate) trait OfSize {
    /// The usual settings for a cache of `mib` MiB, whose memory is touched when it is used.
    fn of_mib(mib: u64) -> Settings;

    /// These settings under `policy`.
    fn under(self, policy: Policy) -> Setup;
}

impl OfSize for Settings {
    fn of_mib(mib: u64) -> Settings {
        Settings {
            memory_bytes: mib << 20,
            prefault: false,
            ..Settings::default()
        }
    }

    fn under(self, policy: Policy) -> Setup {
        Setup {
            settings: self,
            kernel: policy.kernel(),
        }
    }
}

/// Writes the pages that [`page_of`] makes for `numbers`, each in its place.
pub(crate) async fn write_pages(
    file: &File,
    numbers: std::ops::Range<u64>,
) -> Result<(), AccessError> {
    for number in numbers {
        file.write_at(&page_of(number), number * PAGE as u64)
            .await?;
    }
    Ok(())
}

/// Reads page `number` and returns whether it is what [`page_of`] makes.
pub(crate) async fn has_page(file: &File, number: u64) -> Result<bool, AccessError> {
    let mut bytes = vec![0; PAGE];
    let read = file.read_at(&mut bytes, number * PAGE as u64).await?;
    Ok(read == PAGE && bytes == page_of(number))
}

/// The content of an object whose pages are those that [`page_of`] makes.
pub(crate) fn pages(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(page_of).collect()
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
