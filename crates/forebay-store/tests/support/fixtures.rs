//! Every store and wrapper that the contract is held over.

use super::Driver;
use forebay_base::Span;
use forebay_rt::Rt;
use forebay_store::{
    CountStore, DelayStore, Delays, FaultStore, FileStore, FileStoreSettings, MemoryStore, Method,
    ObjectId, OpenMode, Rate, RateStore, Store,
};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) const ARENA_PAGES: usize = 4096;

/// A store with empty objects in it.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) driver: Driver,
    objects: Box<dyn FnMut() -> ObjectId>,
    _folder: Option<TempDir>,
}

impl Fixture {
    /// Another object, empty.
    pub(crate) fn object(&mut self) -> ObjectId {
        (self.objects)()
    }
}

pub(crate) fn settings(method: Method, direct: bool) -> FileStoreSettings {
    FileStoreSettings {
        method,
        // Fewer than the tests have in flight, so that requests have to wait for a slot.
        queue_depth: 16,
        direct,
        ..FileStoreSettings::default()
    }
}

/// Every file store that this system can run; a message names those that it cannot run.
pub(crate) fn file_stores() -> Vec<(&'static str, Arc<FileStore>)> {
    let wanted = [
        ("uring, direct", Method::Uring, true),
        ("uring, buffered", Method::Uring, false),
        ("positioned, direct", Method::Positioned, true),
        ("positioned, buffered", Method::Positioned, false),
    ];
    let mut stores = Vec::new();
    for (name, method, direct) in wanted {
        match FileStore::new(settings(method, direct)) {
            Ok(store) => stores.push((name, store)),
            Err(error) => {
                assert_eq!(
                    method,
                    Method::Uring,
                    "positioned I/O is everywhere: {error}"
                );
                eprintln!("skipped: {name}: {error}");
            }
        }
    }
    stores
}

fn file_fixture(name: &'static str, store: Arc<FileStore>) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, ARENA_PAGES);
    store.register_memory(driver.arena.memory());
    let path = folder.path().to_owned();
    let mut count = 0;
    Fixture {
        name,
        driver,
        objects: Box::new(move || {
            count += 1;
            let mode = OpenMode::Create { length_bytes: None };
            store
                .open(&path.join(count.to_string()), mode)
                .expect("the file opens")
                .object
        }),
        _folder: Some(folder),
    }
}

fn memory_fixture(
    name: &'static str,
    wrap: impl Fn(Rt, Arc<dyn Store>) -> Arc<dyn Store>,
) -> Fixture {
    let mut count = 0;
    Fixture {
        name,
        driver: Driver::new(wrap(Rt::real(), Arc::new(MemoryStore::new())), ARENA_PAGES),
        objects: Box::new(move || {
            count += 1;
            ObjectId(count)
        }),
        _folder: None,
    }
}

/// One fixture of each kind.
pub(crate) fn all() -> Vec<Fixture> {
    let span = Span::from_micros(50);
    let delays = Delays {
        read: span,
        write: span,
        commit: span,
    };
    let mut fixtures = vec![
        memory_fixture("memory", |_, inner| inner),
        memory_fixture("delay", move |rt, inner| {
            Arc::new(DelayStore::new(rt, inner, delays))
        }),
        memory_fixture("rate", |rt, inner| {
            Arc::new(RateStore::new(rt, inner, Rate::bytes(4_000_000_000)))
        }),
        memory_fixture("fault", |rt, inner| Arc::new(FaultStore::new(rt, inner))),
        memory_fixture("count", |rt, inner| Arc::new(CountStore::new(rt, inner))),
        memory_fixture("count over fault over rate over delay", move |rt, inner| {
            let delayed = Arc::new(DelayStore::new(rt.clone(), inner, delays));
            let slow = Arc::new(RateStore::new(rt.clone(), delayed, Rate::UNLIMITED));
            let faulty = Arc::new(FaultStore::new(rt.clone(), slow));
            Arc::new(CountStore::new(rt, faulty))
        }),
    ];
    for (name, store) in file_stores() {
        fixtures.push(file_fixture(name, store));
    }
    for (name, store) in file_stores() {
        let mut fixture = file_fixture(name, store);
        fixture.driver.awaits = true;
        fixtures.push(fixture);
    }
    fixtures
}
