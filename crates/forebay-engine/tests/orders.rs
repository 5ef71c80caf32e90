//! Files are closed, and opened for reading, in orders that suit whoever owns the store: what the
//! cache has to write is written all the same, or refused at once.

#![allow(clippy::unwrap_used)]

use forebay_base::Span;
use forebay_engine::{AccessError, Advice, AttachedStore, Cache, Settings};
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_rt::wait::Slot;
use forebay_store::{
    CountStore, Fault, FaultAction, FaultStore, FileStore, FileStoreSettings, Io, IoKind, ObjectId,
    OpenError, OpenMode, Opened, Opener, Store, VolumeError, VolumeMode,
};
use std::path::PathBuf;
use std::sync::Arc;

const LENGTH_BYTES: u64 = 1 << 20;

struct Bench {
    folder: tempfile::TempDir,
    files: Arc<FileStore>,
    cache: Cache,
    store: AttachedStore,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(|files| files)
    }

    /// With what `wrap` makes of the store.
    fn with(wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Bench {
        let settings = Settings {
            memory_bytes: 16 << 20,
            // Nothing is written before somebody asks for it.
            dirty_expire: Span::from_secs(3_600),
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let files = FileStore::new(FileStoreSettings::default()).unwrap();
        let store = cache.attach(wrap(files.clone())).unwrap();
        Bench {
            folder: tempfile::tempdir().unwrap(),
            files,
            cache,
            store,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open_below(&self, name: &str, mode: OpenMode) -> Opened {
        self.files.open(&self.path(name), mode).unwrap()
    }

    fn create(&self, name: &str) -> Opened {
        let length_bytes = Some(LENGTH_BYTES);
        self.open_below(name, OpenMode::Create { length_bytes })
    }

    fn open(&self, opened: Opened) -> forebay_engine::blocking::File {
        let file = self
            .cache
            .open(&self.store, opened.object, opened.length_bytes);
        file.unwrap().blocking()
    }

    fn close(&self) {
        forebay_rt::block_on(self.cache.close()).unwrap();
    }

    /// Waits until no file of the folder is open: a thread of the store may be about to let it go.
    fn assert_all_closed(&self) {
        let began = Stopwatch::start();
        while self.descriptors() > 0 {
            assert!(began.elapsed() < Span::from_secs(60), "a file stays open");
            // What is closing is looked at by each close.
            self.files.close(ObjectId(u64::MAX));
            pause_current(Span::from_millis(1));
        }
    }

    fn descriptors(&self) -> usize {
        let folder = self.folder.path().canonicalize().unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter(|path| path.starts_with(&folder))
            .count()
    }
}

#[test]
fn a_file_that_is_closed_before_its_cache_gets_its_bytes() {
    let bench = Bench::new();
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 10_000], 5_000).unwrap();
    drop(file);
    assert!(bench.files.close(opened.object));
    assert!(!bench.files.close(opened.object), "it is closed already");
    bench.close();
    let bytes = std::fs::read(bench.path("a")).unwrap();
    assert!(bytes[5_000..15_000].iter().all(|&byte| byte == 7));
    // Nothing keeps it any more.
    let other = bench.create("b");
    assert!(bench.files.close(other.object));
    bench.assert_all_closed();
}

/// It would be two objects, and the older bytes of the first would be written last.
#[test]
fn a_file_that_is_closing_is_not_opened_before_it_is_written() {
    let bench = Bench::new();
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 4_096], 0).unwrap();
    assert!(bench.files.close(opened.object));
    std::fs::hard_link(bench.path("a"), bench.path("same")).unwrap();
    let length_bytes = Some(10);
    for mode in [OpenMode::ReadWrite, OpenMode::Create { length_bytes }] {
        let refused = bench.files.open(&bench.path("same"), mode).unwrap_err();
        assert!(matches!(refused, OpenError::Closing(_)), "{refused}");
    }
    file.sync().unwrap();
    assert_eq!(std::fs::read(bench.path("a")).unwrap()[..4_096], [7; 4_096]);
    drop(file);
    let began = Stopwatch::start();
    let again = loop {
        match bench.files.open(&bench.path("a"), OpenMode::ReadWrite) {
            Ok(again) => break again,
            // The request of the sync may be about to end.
            Err(OpenError::Closing(_)) => pause_current(Span::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < Span::from_secs(60), "it stays closed");
    };
    let file = bench.open(again);
    file.write_at(&[8; 4_096], 0).unwrap();
    drop(file);
    bench.close();
    assert_eq!(std::fs::read(bench.path("a")).unwrap()[..4_096], [8; 4_096]);
}

/// Another server would read what is about to be written over.
#[test]
fn an_image_is_claimed_until_everything_is_written() {
    let bench = Bench::new();
    bench.files.close(bench.create("a").object);
    let path = bench.path("a");
    let volume = bench
        .files
        .open_volume(path.as_os_str(), VolumeMode::ReadWrite)
        .unwrap();
    let opened = bench
        .cache
        .open(&bench.store, volume.object, volume.length_bytes);
    let file = opened.unwrap().blocking();
    file.write_at(&[7; 4_096], 0).unwrap();
    drop(volume);
    let other = FileStore::new(FileStoreSettings::default()).unwrap();
    let refused = other
        .open_volume(path.as_os_str(), VolumeMode::ReadWrite)
        .err();
    assert!(
        matches!(refused, Some(VolumeError::InUse { .. })),
        "{refused:?}"
    );
    drop(file);
    bench.close();
    bench.assert_all_closed();
    assert_eq!(std::fs::read(&path).unwrap()[..4_096], [7; 4_096]);
    assert!(
        other
            .open_volume(path.as_os_str(), VolumeMode::ReadWrite)
            .is_ok()
    );
}

#[test]
fn it_is_written_by_a_sync_after_the_close_too() {
    let bench = Bench::new();
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 4_096], 0).unwrap();
    assert!(bench.files.close(opened.object));
    file.sync().unwrap();
    assert_eq!(std::fs::read(bench.path("a")).unwrap()[..4_096], [7; 4_096]);
    drop(file);
    bench.close();
}

#[test]
fn a_file_without_changes_is_closed_at_once() {
    let bench = Bench::new();
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 4_096], 0).unwrap();
    file.sync().unwrap();
    drop(file);
    assert!(bench.descriptors() > 0);
    assert!(bench.files.close(opened.object));
    bench.assert_all_closed();
    bench.close();
}

/// What is read ahead is no reason: nothing of it has to be written.
#[test]
fn a_file_of_which_something_is_being_read_is_opened_again() {
    let faults = Arc::new(Slot::new());
    let kept = faults.clone();
    let bench = Bench::with(move |files| {
        let store = Arc::new(FaultStore::new(forebay_rt::Rt::real(), files));
        kept.set(store.clone());
        store
    });
    let faults: Arc<FaultStore> = forebay_rt::block_on(faults.take());
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 4_096], 0).unwrap();
    file.sync().unwrap();
    faults.inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
    file.advise(Advice::WillNeed, 64 << 10..128 << 10).unwrap();
    assert!(faults.injected(IoKind::Read) > 0);
    drop(file);
    assert!(bench.files.close(opened.object));
    let again = bench.open_below("a", OpenMode::ReadWrite);
    faults.clear();
    faults.release();
    let file = bench.open(again);
    let mut bytes = [0; 4_096];
    file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7; 4_096]);
    drop(file);
    bench.close();
}

#[test]
fn a_file_that_was_cut_and_closed_is_cut_below() {
    let bench = Bench::new();
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.truncate(1_000).unwrap();
    assert!(bench.files.close(opened.object));
    drop(file);
    bench.close();
    assert_eq!(std::fs::metadata(bench.path("a")).unwrap().len(), 1_000);
}

/// The wrappers of this crate ask what they wrap.
#[test]
fn a_wrapped_store_keeps_its_files_too() {
    let rt = forebay_rt::Rt::real();
    let bench = Bench::with(|files| Arc::new(CountStore::new(rt, files)));
    let opened = bench.create("a");
    let file = bench.open(opened);
    file.write_at(&[7; 4_096], 0).unwrap();
    drop(file);
    assert!(bench.files.close(opened.object));
    bench.close();
    assert_eq!(std::fs::read(bench.path("a")).unwrap()[..4_096], [7; 4_096]);
}

#[test]
fn what_may_only_be_read_refuses_changes_at_once() {
    let bench = Bench::new();
    assert!(bench.files.close(bench.create("a").object));
    let opened = bench.open_below("a", OpenMode::ReadOnly);
    let file = bench.open(opened);
    let refused = file.write_at(&[7; 100], 0).unwrap_err();
    assert!(matches!(refused, AccessError::ReadOnly { .. }), "{refused}");
    let refused = file.truncate(10).unwrap_err();
    assert!(matches!(refused, AccessError::ReadOnly { .. }), "{refused}");
    let refused = file.discard(0..4_096).unwrap_err();
    assert!(matches!(refused, AccessError::ReadOnly { .. }), "{refused}");
    assert_eq!(bench.cache.statistics().dirty(), 0);
    let mut bytes = [1; 100];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 100);
    // From then on it takes them.
    let made = bench.files.make_writable(opened.object, &bench.path("a"));
    assert!(made.unwrap());
    file.write_at(&[7; 100], 0).unwrap();
    drop(file);
    bench.close();
    assert_eq!(std::fs::read(bench.path("a")).unwrap()[..100], [7; 100]);
}

/// A store that says nothing of it refuses when it is written to, as before.
#[test]
fn a_store_that_does_not_know_is_not_asked_twice() {
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Asked(forebay_store::MemoryStore, AtomicU64);
    impl Store for Asked {
        fn geometry(&self) -> forebay_store::Geometry {
            self.0.geometry()
        }
        fn submit(&self, io: Io) {
            assert_ne!(io.request().kind, IoKind::Discard);
            self.0.submit(io);
        }
        fn is_read_only(&self, _: ObjectId) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed);
            false
        }
    }
    let store = Arc::new(Asked(forebay_store::MemoryStore::new(), AtomicU64::new(0)));
    let cache = Cache::new(Settings {
        memory_bytes: 16 << 20,
        ..Settings::default()
    });
    let cache = cache.unwrap();
    let attached = cache.attach(store.clone()).unwrap();
    let file = cache.open(&attached, ObjectId(1), 0).unwrap();
    let file = file.blocking();
    for at in 0..100 {
        file.write_at(&[7; 100], at * 100).unwrap();
    }
    assert_eq!(store.1.load(Ordering::Relaxed), 1);
    drop(file);
    forebay_rt::block_on(cache.close()).unwrap();
}
