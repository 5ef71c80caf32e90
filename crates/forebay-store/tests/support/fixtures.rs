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

/// Puts a wrapper around a store.
pub(crate) type Wrap = fn(Rt, Arc<dyn Store>) -> Arc<dyn Store>;

/// Each wrapper under the name of its file in `src/wrap`. A test compares the names with the files.
pub(crate) const WRAPPERS: [(&str, Wrap); 4] = [
    ("delay", |rt, inner| {
        let span = Span::from_micros(50);
        let delays = Delays {
            read: span,
            write: span,
            commit: span,
        };
        Arc::new(DelayStore::new(rt, inner, delays))
    }),
    ("rate", |rt, inner| {
        Arc::new(RateStore::new(rt, inner, Rate::bytes(4_000_000_000)))
    }),
    ("fault", |rt, inner| Arc::new(FaultStore::new(rt, inner))),
    ("count", |rt, inner| Arc::new(CountStore::new(rt, inner))),
];

/// A store in memory below `wrappers`, the first of them innermost.
fn memory_fixture(name: &'static str, wrappers: &[(&str, Wrap)]) -> Fixture {
    let rt = Rt::real();
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let wrapped = wrappers.iter();
    let store = wrapped.fold(memory, |inner, (_, wrap)| wrap(rt.clone(), inner));
    let mut count = 0;
    Fixture {
        name,
        driver: Driver::new(store, ARENA_PAGES),
        objects: Box::new(move || {
            count += 1;
            ObjectId(count)
        }),
        _folder: None,
    }
}

/// One fixture of each kind.
pub(crate) fn all() -> Vec<Fixture> {
    let unlimited: Wrap = |rt, inner| Arc::new(RateStore::new(rt, inner, Rate::UNLIMITED));
    let mut fixtures = vec![
        memory_fixture("memory", &[]),
        memory_fixture("unlimited rate", &[("rate", unlimited)]),
        memory_fixture("every wrapper", &WRAPPERS),
    ];
    for wrapper in WRAPPERS {
        fixtures.push(memory_fixture(wrapper.0, &[wrapper]));
    }
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
