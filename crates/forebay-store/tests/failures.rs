//! Which errors file stores report, and that the next request works.

mod support;

use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::Slot;
use forebay_store::{
    Failure, FileStore, FileStoreSettings, Finish, FinishedIo, Io, IoKind, Method, ObjectId,
    OpenError, OpenMode, Request, StartError, Store,
};
use std::path::Path;
use std::sync::{Arc, Weak};
use support::fixtures::{file_stores, settings};
use support::{Driver, on_a_tiny_file_system};

const MIB: u64 = 1 << 20;

fn driver_of(store: &Arc<FileStore>) -> Driver {
    Driver::new(Arc::clone(store) as Arc<dyn Store>, 512)
}

#[test]
fn what_cannot_be_opened_is_named_with_its_path() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let missing = folder.path().join("missing");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe is made");
    for (_, store) in file_stores() {
        let error = |path: &Path, mode| store.open(path, mode).expect_err("it cannot be opened");
        let expected = OpenError::NotFound(missing.clone());
        assert_eq!(error(&missing, OpenMode::ReadWrite), expected);
        let nowhere = missing.join("file");
        let create = OpenMode::Create { length_bytes: None };
        assert_eq!(
            error(&nowhere, create),
            OpenError::NotFound(nowhere.clone())
        );
        for (path, wrong) in [
            (folder.path(), "a folder"),
            (&pipe, "a pipe"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            match error(path, OpenMode::ReadOnly) {
                OpenError::WrongKind { path: named, what } => {
                    assert_eq!((named.as_path(), what), (path, wrong));
                }
                other => panic!("{}: {other}", path.display()),
            }
        }
        let text = error(&missing, OpenMode::ReadOnly).to_string();
        assert!(text.contains("missing: there is no such file"), "{text}");
    }
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("file");
    std::fs::write(&path, [7; 5000]).expect("the file is written");
    for (name, store) in file_stores() {
        let driver = driver_of(&store);
        let opened = store.open(&path, OpenMode::ReadOnly).expect("it opens");
        assert_eq!(opened.length_bytes, 5000);
        let object = opened.object;
        let refused = Err(Failure::ReadOnly);
        assert_eq!(driver.write(object, 0, &[1; 4096]), refused, "{name}");
        for kind in [IoKind::Discard, IoKind::SetLength] {
            assert_eq!(driver.order(kind, object, 0, 4096), refused, "{name}");
        }
        assert!(driver.read(object, 0, 5000)[..5000] == [7; 5000], "{name}");
        assert_eq!(driver.order(IoKind::Commit, object, 0, 0), Ok(()), "{name}");
        assert_eq!(store.make_writable(object, &path), Ok(true), "{name}");
        assert_eq!(driver.write(object, 0, &[7; 4096]), Ok(()), "{name}");
    }
}

#[test]
fn a_closed_file_is_gone_and_its_number_is_not_used_again() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mode = OpenMode::Create {
        length_bytes: Some(MIB),
    };
    for (name, store) in file_stores() {
        let driver = driver_of(&store);
        let path = folder.path().join(name);
        let first = store.open(&path, mode).expect("it opens");
        assert!(store.close(first.object));
        assert!(!store.close(first.object), "it is closed once");
        let second = store.open(&path, mode).expect("it opens");
        assert_ne!(first.object, second.object);
        for kind in [IoKind::Commit, IoKind::Discard, IoKind::SetLength] {
            let gone = driver.order(kind, first.object, 0, 4096);
            assert_eq!(gone, Err(Failure::Gone), "{name}: {kind:?}");
        }
        assert_eq!(driver.try_read(first.object, 0, 4096), Err(Failure::Gone));
        assert!(driver.read(second.object, 0, 4096) == [0; 4096]);
    }
}

/// Reports that it was called, and keeps the calling thread until it may go on.
#[derive(Default)]
struct Holdup {
    reported: Slot<()>,
    go_on: Slot<()>,
}

impl Finish for Holdup {
    fn finished(&self, io: FinishedIo) {
        assert_eq!(io.result, Ok(()));
        self.reported.set(());
        forebay_rt::block_on(self.go_on.take());
    }
}

#[test]
fn what_was_submitted_before_a_close_is_carried_out() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mode = OpenMode::Create {
        length_bytes: Some(MIB),
    };
    for (name, store) in file_stores() {
        let one_at_a_time = FileStoreSettings {
            queue_depth: 1,
            ..settings(store.method(), true)
        };
        let store = FileStore::new(one_at_a_time).expect("it starts");
        let driver = driver_of(&store);
        let object = store
            .open(&folder.path().join(name), mode)
            .expect("it opens")
            .object;
        let holdup = Arc::new(Holdup::default());
        let request = Request {
            kind: IoKind::Commit,
            object,
            offset_bytes: 0,
            length_bytes: 0,
        };
        let finish = Arc::clone(&holdup) as Arc<dyn Finish>;
        store.submit(Io::new(request, Vec::new(), finish, 0));
        forebay_rt::block_on(holdup.reported.take());
        // The store's thread is with us, so this waits.
        let write = driver.submit_write(object, 0, &[7; 4096]);
        let cut = Request {
            kind: IoKind::SetLength,
            offset_bytes: 4096,
            ..request
        };
        let cut = driver.submit(cut, Vec::new());
        assert!(store.close(object), "{name}");
        holdup.go_on.set(());
        for token in [write, cut] {
            let done = forebay_rt::block_on(driver.finish(token));
            assert!(done.is_ok(), "{name}: {done:?}");
        }
        let bytes = std::fs::read(folder.path().join(name)).expect("it is read");
        assert!(bytes == [7; 4096], "{name}");
    }
}

#[test]
fn a_file_that_shrank_behind_the_store_reads_as_zeros() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("file");
    for (name, store) in file_stores() {
        std::fs::write(&path, vec![7; 65_536]).expect("the file is written");
        let driver = driver_of(&store);
        let opened = store.open(&path, OpenMode::ReadWrite).expect("it opens");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(10_000))
            .expect("it shrinks");
        let read = driver.read(opened.object, 0, 65_536);
        assert!(read[..10_000] == [7; 10_000], "{name}");
        assert!(read[10_000..].iter().all(|&byte| byte == 0), "{name}");
    }
}

#[test]
fn a_write_ends_the_file_where_it_ends() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for (name, store) in file_stores() {
        let driver = driver_of(&store);
        let path = folder.path().join(name);
        let mode = OpenMode::Create { length_bytes: None };
        let object = store.open(&path, mode).expect("it opens").object;
        for (offset, length) in [(0, 100), (4096, 8193), (65_536, 4096), (8192, 10)] {
            driver
                .write(object, offset, &vec![7; length])
                .expect("it is written");
        }
        assert_eq!(store.length_bytes(object), Ok(69_632), "{name}");
        let shorter = driver.order(IoKind::SetLength, object, 5001, 0);
        assert_eq!(shorter, Ok(()), "{name}");
        let on_disk = std::fs::metadata(&path).expect("it is there").len();
        assert_eq!(on_disk, 5001, "{name}");
        driver
            .order(IoKind::Discard, object, 4096, MIB)
            .expect("it is discarded");
        assert_eq!(store.length_bytes(object), Ok(5001), "{name}");
    }
}

#[test]
fn a_full_disk_is_said_and_room_is_used_again() {
    on_a_tiny_file_system("2m", |folder| {
        for (name, store) in file_stores() {
            let driver = driver_of(&store);
            let path = folder.join("file");
            let mode = OpenMode::Create { length_bytes: None };
            let object = store.open(&path, mode).expect("it opens").object;
            let chunk = vec![7; 1 << 20];
            let results: Vec<_> = (0..3)
                .map(|index| driver.write(object, index * MIB, &chunk))
                .collect();
            assert_eq!(results[0], Ok(()), "{name}");
            assert!(
                results.contains(&Err(Failure::NoSpace)),
                "{name}: {results:?}"
            );
            assert!(
                driver.read(object, 0, MIB) == chunk,
                "{name}: the first stays"
            );
            driver
                .order(IoKind::SetLength, object, 0, 0)
                .expect("it is emptied");
            assert_eq!(driver.write(object, 0, &chunk), Ok(()), "{name}");
            std::fs::remove_file(&path).expect("it is removed");
        }
    });
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    for (depth, pages, named) in [(0, 256, "queue_depth"), (8, 1025, "max_io_pages")] {
        let wrong = FileStoreSettings {
            queue_depth: depth,
            max_io_pages: pages,
            ..settings(Method::Auto, true)
        };
        match FileStore::new(wrong) {
            Err(StartError::Setting { setting, .. }) => assert_eq!(setting, named),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{named} was accepted"),
        }
    }
}

#[test]
fn the_way_that_is_used_is_reported() {
    let store = FileStore::new(settings(Method::Auto, true)).expect("it starts");
    let refused = store.uring_refusal().is_some();
    assert_eq!(store.method() == Method::Positioned, refused);
    let store = FileStore::new(settings(Method::Positioned, true)).expect("it starts");
    assert_eq!(
        (store.method(), store.uring_refusal()),
        (Method::Positioned, None)
    );
}

/// Holds the last handle of a store and lets go of it when a request is finished, on a thread of
/// that store.
struct LastOwner {
    store: Mutex<Option<Arc<FileStore>>>,
    dropped: Arc<Slot<()>>,
}

impl Finish for LastOwner {
    fn finished(&self, _io: FinishedIo) {
        let store = lock(&self.store).take();
        drop(store);
        self.dropped.set(());
    }
}

#[test]
fn a_finisher_may_drop_the_store() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for (name, store) in file_stores() {
        for kind in [IoKind::Commit, IoKind::SetLength] {
            let fresh = FileStore::new(settings(store.method(), true)).expect("it starts");
            let mode = OpenMode::Create { length_bytes: None };
            let opened = fresh
                .open(&folder.path().join(name), mode)
                .expect("it opens");
            let request = Request {
                kind,
                object: opened.object,
                offset_bytes: 0,
                length_bytes: 0,
            };
            let dropped = Arc::new(Slot::new());
            let watched: Weak<FileStore> = Arc::downgrade(&fresh);
            let owner = Arc::new(LastOwner {
                store: Mutex::new(None),
                dropped: Arc::clone(&dropped),
            });
            let io = Io::new(
                request,
                Vec::new(),
                Arc::clone(&owner) as Arc<dyn Finish>,
                0,
            );
            // The finisher runs with the lock free, and finds the store there.
            let mut slot = lock(&owner.store);
            fresh.submit(io);
            *slot = Some(fresh);
            drop(slot);
            forebay_rt::block_on(dropped.take());
            assert!(watched.upgrade().is_none(), "{name}");
        }
    }
}

#[test]
fn a_request_for_pages_without_bytes_fails_at_a_file() {
    for (name, store) in file_stores() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mode = OpenMode::Create {
            length_bytes: Some(4096),
        };
        let opened = store.open(&folder.path().join("data"), mode);
        let request = Request {
            kind: IoKind::Read,
            object: opened.expect("it opens").object,
            offset_bytes: 0,
            length_bytes: 4096,
        };
        let desk = Arc::<support::Desk>::default();
        store.submit(Io::phantom(request, desk.clone(), 1));
        let ended = forebay_rt::block_on(desk.take(1));
        let expected = Err(request.error(Failure::Unsupported));
        assert_eq!(ended.result, expected, "{name}");
    }
}

/// Whether a byte of the file at `path` is in the kernel's cache. None if the system does not say,
/// or if the file has no other place.
fn is_cached(path: &Path) -> Option<bool> {
    const TMPFS: u32 = 0x0102_1994;
    let file = std::fs::File::open(path).expect("it is there");
    let system = rustix::fs::fstatfs(&file).ok()?;
    if system.f_type as u32 == TMPFS {
        return None;
    }
    let mut byte = [0];
    let mut pieces = [std::io::IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(&file, &mut pieces, 0, rustix::io::ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(rustix::io::Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

/// Bytes that this cache keeps need not be kept by the kernel once more.
#[test]
fn what_is_written_past_the_cache_of_the_kernel_is_not_in_it() {
    for (name, store) in file_stores() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("data");
        let mode = OpenMode::Create {
            length_bytes: Some(4 * 4096),
        };
        let opened = store.open(&path, mode).expect("it opens");
        let driver = driver_of(&store);
        let written = driver.write(opened.object, 0, &[7; 4 * 4096]);
        written.expect("there is room");
        assert!(driver.read(opened.object, 0, 4 * 4096) == [7; 4 * 4096]);
        // To look may bring it there.
        let is_cached = is_cached(&path).unwrap_or(!opened.direct);
        assert_eq!(is_cached, !opened.direct, "{name}");
    }
}

#[test]
fn a_request_says_what_it_asks_for() {
    let request = Request {
        kind: IoKind::Discard,
        object: ObjectId(23),
        offset_bytes: 4096,
        length_bytes: 8192,
    };
    let io = Io::new(request, Vec::new(), Arc::<support::Desk>::default(), 91);
    let said = format!("{io:?}");
    for part in ["Discard", "23", "4096", "8192", "91"] {
        assert!(said.contains(part), "{said} without {part}");
    }
    io.succeed();
}
