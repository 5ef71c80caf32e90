//! Volumes with checksums of pages, and encrypted ones.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, CallError, FolderBucket, OwnerKey,
    PageFormat, VolumeFault, change_key, check, copy, info, remove,
};
use forebay_rt::thread::pause_current;
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Call, LOG_PREFIX, Manifest, Reply, TWIN_PREFIX, Writing};
use std::path::PathBuf;
use std::sync::Arc;
use support::Driver;
use tempfile::TempDir;
use volumes::{CHUNK, MIB, key_of, pattern, writing_of};

const SEALED: [PageFormat; 2] = [PageFormat::Checksum, PageFormat::Encrypted];

fn owner(byte: u8) -> OwnerKey {
    OwnerKey::parse(&[byte; 32]).expect("32 bytes are a key")
}

fn settings(key: Option<OwnerKey>) -> BucketSettings {
    BucketSettings {
        memory_bytes: 8 << 20,
        answer_timeout: Span::from_millis(500),
        dead_percent: Some(20),
        key,
        ..BucketSettings::USUAL
    }
}

fn bucket(folder: &TempDir, name: &str) -> Arc<dyn Bucket> {
    Arc::new(FolderBucket::open(&folder.path().join(name), true).unwrap())
}

/// A volume with its only client.
struct Volume {
    driver: Driver,
    store: Arc<BucketStore>,
    bytes: Vec<u8>,
}

impl Volume {
    fn open(bucket: &Arc<dyn Bucket>, pages: PageFormat, bytes: Vec<u8>) -> Volume {
        let access = writing_of(pages, true);
        let store = BucketStore::open(bucket.clone(), "v", access, settings(key_of(pages)));
        let store = store.expect("it opens");
        Volume {
            driver: Driver::new(store.clone(), 4_096),
            store,
            bytes,
        }
    }

    fn new(bucket: &Arc<dyn Bucket>, pages: PageFormat) -> Volume {
        Volume::open(bucket, pages, vec![0; 8 << 20])
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
        for (index, part) in bytes.chunks(CHUNK as usize).enumerate() {
            let at = at as u64 + index as u64 * CHUNK;
            let written = self.driver.write(BucketStore::OBJECT, at, part);
            written.expect("it is staged");
        }
    }

    fn commit(&self) {
        let committed = self.driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
        assert_eq!(committed, Ok::<(), Failure>(()));
    }

    fn assert_whole(&self) {
        for at in (0..self.bytes.len()).step_by(CHUNK as usize) {
            let found = self.driver.read(BucketStore::OBJECT, at as u64, CHUNK);
            assert!(found == self.bytes[at..][..CHUNK as usize], "byte {at}");
        }
    }
}

/// The files of the objects whose keys begin with `prefix`.
fn objects(folder: &TempDir, name: &str, prefix: &'static str) -> Vec<PathBuf> {
    let reply = bucket(folder, name).ask(&Call::List { prefix }).unwrap();
    let Reply::Keys(keys) = reply else {
        panic!("it is a listing")
    };
    let root = folder.path().join(name);
    keys.into_iter().map(|(key, _)| root.join(key)).collect()
}

fn refused(bucket: &Arc<dyn Bucket>, key: Option<OwnerKey>) -> VolumeFault {
    match BucketStore::open(bucket.clone(), "v", Access::Read, settings(key)) {
        Err(BucketError::Volume(fault)) => fault,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opens"),
    }
}

/// Pages in records and in chunks, chunks that take over pages of both, holes, and a reopening at
/// every size of commit.
#[test]
fn volumes_in_every_format_are_what_was_written() {
    for pages in SEALED {
        let folder = tempfile::tempdir().unwrap();
        let bucket = bucket(&folder, "v");
        let mut volume = Volume::new(&bucket, pages);
        let mut prng = Prng::from_seed(7);
        for round in 0..60_u64 {
            let count = [1, 3, 9, 16, 40][prng.below(5) as usize];
            let at = prng.below(8 * MIB / PAGE_BYTES as u64 - count) as usize * PAGE_BYTES;
            volume.write(at, &pattern(round, count as usize * PAGE_BYTES));
            if round % 7 == 3 {
                volume.write(at, &vec![0; count as usize * PAGE_BYTES]);
            }
            if round % 3 == 0 {
                volume.commit();
            }
            if round % 20 == 19 {
                volume.commit();
                volume.assert_whole();
                let Volume { store, bytes, .. } = volume;
                assert!(store.close());
                volume = Volume::open(&bucket, pages, bytes);
                volume.assert_whole();
            }
        }
        volume.commit();
        volume.assert_whole();
        let info = info(bucket.clone()).unwrap();
        assert!(info.map.inline_pages() > 0 && info.map.chunk_count() > 0);
        assert_eq!(info.manifest.pages, pages);
        let checked = check(bucket.clone()).unwrap();
        assert_eq!(checked.faults, Vec::<String>::new());
        let other = self::bucket(&folder, "copy");
        copy(bucket.clone(), other.clone(), &(Arc::new(|_, _| {}) as _)).unwrap();
        Volume::open(&other, pages, volume.bytes.clone()).assert_whole();
    }
}

/// A page is read without the rest of its chunk, and a change of it is noticed all the same.
#[test]
fn a_damaged_page_of_a_chunk_is_not_read() {
    for pages in SEALED {
        let folder = tempfile::tempdir().unwrap();
        let bucket = bucket(&folder, "v");
        let mut volume = Volume::new(&bucket, pages);
        volume.write(0, &pattern(1, CHUNK as usize));
        volume.commit();
        let chunk = objects(&folder, "v", "data/").remove(0);
        let mut bytes = std::fs::read(&chunk).unwrap();
        assert_eq!(bytes.len() as u64, 16 * pages.stored_bytes());
        let at = 3 * pages.stored_bytes() as usize;
        bytes[at + 100] ^= 4;
        std::fs::write(&chunk, &bytes).unwrap();
        let page = PAGE_BYTES as u64;
        let read = |number: u64| {
            let token = volume
                .driver
                .submit_read(BucketStore::OBJECT, number * page, page);
            forebay_rt::block_on(volume.driver.finish(token))
        };
        assert_eq!(read(3), Err(Failure::Device(5)), "{pages:?}");
        assert_eq!(
            read(2).unwrap(),
            pattern(1, CHUNK as usize)[2 * PAGE_BYTES..][..PAGE_BYTES]
        );
        // A whole page at the place of another one.
        let (low, high) = bytes.split_at_mut(2 * pages.stored_bytes() as usize);
        low[..pages.stored_bytes() as usize]
            .swap_with_slice(&mut high[..pages.stored_bytes() as usize]);
        std::fs::write(&chunk, &bytes).unwrap();
        assert_eq!(read(0), Err(Failure::Device(5)), "{pages:?}");
    }
}

#[test]
fn nothing_that_was_written_can_be_read_in_the_bucket_of_an_encrypted_volume() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&folder, "v");
    let mut volume = Volume::new(&bucket, PageFormat::Encrypted);
    let secret = b"nobody but its owner reads this.".repeat(PAGE_BYTES / 32);
    for chunk in 0..4_usize {
        volume.write(chunk * CHUNK as usize, &secret.repeat(16));
        volume.commit();
    }
    volume.write(100 * CHUNK as usize, &secret);
    volume.commit();
    let mut seen = 0;
    for prefix in ["data/", "log/", "twin/", "map/", "key/"] {
        for path in objects(&folder, "v", prefix) {
            let bytes = std::fs::read(path).unwrap();
            assert!(!bytes.windows(32).any(|it| it == &secret[..32]));
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen} objects");
}

#[test]
fn a_volume_is_opened_by_its_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, encrypted] = ["plain", "encrypted"].map(|name| bucket(&folder, name));
    drop(Volume::new(&plain, PageFormat::Checksum));
    drop(Volume::new(&encrypted, PageFormat::Encrypted));
    assert_eq!(refused(&plain, Some(owner(1))), VolumeFault::NotEncrypted);
    assert_eq!(refused(&encrypted, None), VolumeFault::KeyNeeded);
    assert_eq!(refused(&encrypted, Some(owner(2))), VolumeFault::WrongKey);
    for (pages, key) in [
        (PageFormat::Encrypted, None),
        (PageFormat::Checksum, Some(owner(1))),
    ] {
        let new = bucket(&folder, "new");
        let opened = BucketStore::open(new, "v", writing_of(pages, false), settings(key));
        assert!(opened.is_err(), "{pages:?}");
        assert_eq!(objects(&folder, "new", ""), Vec::<PathBuf>::new());
    }
}

/// Nothing is taken over without the key.
#[test]
fn a_wrong_key_ends_no_writer() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&folder, "v");
    let mut volume = Volume::new(&bucket, PageFormat::Encrypted);
    for key in [None, Some(owner(2))] {
        let access = writing_of(PageFormat::Encrypted, true);
        assert!(BucketStore::open(bucket.clone(), "v", access, settings(key)).is_err());
        volume.write(0, &pattern(1, PAGE_BYTES));
        volume.commit();
    }
    volume.assert_whole();
    assert!(volume.store.close());
}

/// Each copy of the wrapped key is enough, `check` misses either, and without both the volume is
/// refused and never called whole.
#[test]
fn a_lost_copy_of_the_key_is_noticed_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&folder, "v");
    let mut volume = Volume::new(&bucket, PageFormat::Encrypted);
    volume.write(0, &pattern(1, CHUNK as usize));
    volume.commit();
    let Volume { store, bytes, .. } = volume;
    assert!(store.close());
    let copies = objects(&folder, "v", "key/");
    assert_eq!(copies.len(), 2);
    for copy in &copies {
        let kept = std::fs::read(copy).unwrap();
        for damaged in [None, Some(&kept[1..])] {
            match damaged {
                None => std::fs::remove_file(copy).unwrap(),
                Some(bytes) => std::fs::write(copy, bytes).unwrap(),
            }
            let faults = check(bucket.clone()).unwrap().faults;
            assert_eq!(faults.len(), 1, "{faults:?}");
            let volume = Volume::open(&bucket, PageFormat::Encrypted, bytes.clone());
            volume.assert_whole();
        }
        std::fs::write(copy, kept).unwrap();
    }
    for copy in &copies {
        std::fs::remove_file(copy).unwrap();
    }
    assert!(!check(bucket.clone()).unwrap().faults.is_empty());
    let fault = refused(&bucket, Some(owner(1)));
    assert!(matches!(fault, VolumeFault::Missing { .. }), "{fault}");
}

/// What is asked of a bucket from number `stops_at` on is refused.
struct Stopping {
    inner: Arc<dyn Bucket>,
    asked: AtomicU64,
    stops_at: u64,
}

impl Bucket for Stopping {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= self.stops_at {
            return Err(CallError::lasting("stopped", Failure::Device(13)));
        }
        self.inner.ask(call)
    }
}

#[test]
fn a_change_of_the_key_that_is_interrupted_anywhere_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut interrupted = 0;
    for stops_at in 0.. {
        let name = format!("v{stops_at}");
        let bucket = bucket(&folder, &name);
        let mut volume = Volume::new(&bucket, PageFormat::Encrypted);
        volume.write(0, &pattern(1, CHUNK as usize));
        volume.commit();
        let Volume { store, bytes, .. } = volume;
        assert!(store.close());
        let stopping = Stopping {
            inner: bucket.clone(),
            asked: AtomicU64::new(0),
            stops_at,
        };
        let changed = change_key(Arc::new(stopping), &owner(1), &owner(2));
        // One of them opens it at any time.
        let opens = |byte| {
            let opened = BucketStore::open(
                bucket.clone(),
                "v",
                Access::Read,
                settings(Some(owner(byte))),
            );
            opened.is_ok()
        };
        assert!(opens(1) || opens(2), "after {stops_at} calls");
        interrupted += u64::from(changed.is_err());
        change_key(bucket.clone(), &owner(1), &owner(2)).unwrap();
        assert!(!opens(1) && opens(2), "after {stops_at} calls");
        assert_eq!(objects(&folder, &name, "key/").len(), 2);
        assert_eq!(check(bucket.clone()).unwrap().faults, Vec::<String>::new());
        change_key(bucket.clone(), &owner(2), &owner(1)).unwrap();
        Volume::open(&bucket, PageFormat::Encrypted, bytes).assert_whole();
        if changed.is_ok() {
            break;
        }
    }
    assert!(interrupted >= 6, "{interrupted} calls");
}

/// A bucket that lets another change, from one key to another, come between the calls of the first
/// one: before an object is made after so many others.
struct Overtaken {
    inner: Arc<dyn Bucket>,
    made: AtomicU64,
    comes_at: u64,
    change: (u8, u8),
}

impl Bucket for Overtaken {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let is_made = matches!(call, Call::Make { .. });
        if is_made && self.made.fetch_add(1, Ordering::Relaxed) == self.comes_at {
            let (old, new) = self.change;
            change_key(self.inner.clone(), &owner(old), &owner(new)).unwrap();
        }
        self.inner.ask(call)
    }
}

/// Also if the other one comes when this one is half done, and takes its key for the old one.
#[test]
fn of_two_changes_of_the_key_one_fails_and_one_key_is_left() {
    for (comes_at, change) in [(0, (1, 3)), (1, (2, 3))] {
        let folder = tempfile::tempdir().unwrap();
        let bucket = bucket(&folder, "v");
        drop(Volume::new(&bucket, PageFormat::Encrypted));
        let overtaken = Overtaken {
            inner: bucket.clone(),
            made: AtomicU64::new(0),
            comes_at,
            change,
        };
        let failed = change_key(Arc::new(overtaken), &owner(1), &owner(2)).unwrap_err();
        assert!(matches!(failed, BucketError::KeyChanged), "{failed}");
        assert_eq!(refused(&bucket, Some(owner(2))), VolumeFault::WrongKey);
        assert_eq!(refused(&bucket, Some(owner(1))), VolumeFault::WrongKey);
        assert_eq!(objects(&folder, "v", "key/").len(), 2);
        let opened = BucketStore::open(bucket, "v", Access::Read, settings(Some(owner(3))));
        assert!(opened.is_ok());
    }
}

fn wrapped_keys(bucket: &Arc<dyn Bucket>) -> Vec<String> {
    let reply = bucket.ask(&Call::List { prefix: "key/" }).unwrap();
    let Reply::Keys(keys) = reply else {
        panic!("it is a listing")
    };
    keys.into_iter().map(|(key, _)| key).collect()
}

/// A copy that was interrupted, and completed after the key had changed.
#[test]
fn a_copy_has_no_key_that_its_original_has_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let from = bucket(&folder, "from");
    let mut volume = Volume::new(&from, PageFormat::Encrypted);
    volume.write(0, &pattern(1, CHUNK as usize));
    volume.commit();
    assert!(volume.store.close());
    drop(volume);
    let to = bucket(&folder, "to");
    for key in wrapped_keys(&from) {
        let found = from.ask(&Call::Get {
            key: key.clone(),
            range: None,
        });
        let Ok(Reply::Bytes(bytes)) = found else {
            panic!("{found:?}")
        };
        let bytes = Arc::new(bytes);
        assert_eq!(to.ask(&Call::Make { key, bytes }).unwrap(), Reply::Done);
    }
    change_key(from.clone(), &owner(1), &owner(2)).unwrap();
    copy(from, to.clone(), &(Arc::new(|_, _| {}) as _)).unwrap();
    assert_eq!(objects(&folder, "to", "key/").len(), 2);
    assert_eq!(refused(&to, Some(owner(1))), VolumeFault::WrongKey);
    let opened = BucketStore::open(to, "v", Access::Read, settings(Some(owner(2))));
    assert!(opened.is_ok());
}

#[test]
fn an_encrypted_volume_is_removed_with_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&folder, "v");
    let volume = Volume::new(&bucket, PageFormat::Encrypted);
    assert!(volume.store.close());
    drop(volume);
    remove(bucket, false, &(Arc::new(|_, _| {}) as _)).unwrap();
    assert_eq!(objects(&folder, "v", ""), Vec::<PathBuf>::new());
}

/// A bucket that does not answer for records.
struct Silent {
    inner: Arc<dyn Bucket>,
    is_silent: AtomicBool,
}

impl Bucket for Silent {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let is_record = |key: &str| {
            [LOG_PREFIX, TWIN_PREFIX]
                .iter()
                .any(|it| key.starts_with(it))
        };
        match call {
            Call::Make { key, .. } | Call::Get { key, .. }
                if is_record(key) && self.is_silent.load(Ordering::Relaxed) =>
            {
                Err(CallError::passing("it is silent"))
            }
            _ => self.inner.ask(call),
        }
    }
}

/// How the request `token` ended; nobody waits longer than a while.
fn end_of(driver: &Driver, token: u64) -> Result<(), Failure> {
    for _ in 0..2_000 {
        if let Some(io) = driver.desk.try_take(token) {
            return io.result.map_err(|error| error.failure);
        }
        pause_current(Span::from_millis(10));
    }
    panic!("the request does not end");
}

/// The pages of a record in doubt stay in memory, are counted there, and what waits for their room
/// ends although nobody commits.
#[test]
fn pages_of_a_record_in_doubt_are_counted_and_give_their_room_back() {
    const PAGES: u64 = 60;
    const MORE: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let silent = Arc::new(Silent {
        inner: bucket(&folder, "v"),
        is_silent: AtomicBool::new(false),
    });
    let access = || writing_of(PageFormat::Encrypted, true);
    let with = |memory_bytes| BucketSettings {
        memory_bytes,
        ..settings(Some(owner(1)))
    };
    let refused = BucketStore::open(silent.clone(), "v", access(), with(1 << 20));
    let Err(BucketError::Memory { needed_bytes, .. }) = refused else {
        panic!("{refused:?}")
    };
    let store = BucketStore::open(silent.clone(), "v", access(), with(needed_bytes)).unwrap();
    let driver = Driver::new(store.clone(), 4_096);
    // Each lies in a chunk of its own, so that all of them go into the record.
    let write = |index: u64| {
        let bytes = pattern(index, PAGE_BYTES);
        driver.submit_write(BucketStore::OBJECT, index * CHUNK, &bytes)
    };
    for index in 0..PAGES {
        assert_eq!(end_of(&driver, write(index)), Ok(()));
    }
    silent.is_silent.store(true, Ordering::Relaxed);
    let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
    assert_eq!(committed, Err(Failure::NoAnswer));
    // More than half of what there is room for may have become chunks meanwhile.
    let staged_bytes = store.statistics().staged_bytes;
    assert!(staged_bytes >= 2 * CHUNK, "{staged_bytes} bytes");
    let tokens: Vec<u64> = (PAGES..PAGES + MORE).map(write).collect();
    let ends: Vec<_> = tokens.iter().map(|&it| end_of(&driver, it)).collect();
    assert!(ends.contains(&Ok(())), "{ends:?}");
    assert!(ends.contains(&Err(Failure::NoAnswer)), "{ends:?}");
    silent.is_silent.store(false, Ordering::Relaxed);
    let tokens: Vec<u64> = (PAGES..PAGES + MORE).map(write).collect();
    for token in tokens {
        assert_eq!(end_of(&driver, token), Ok(()));
    }
    let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
    assert_eq!(committed, Ok(()));
    assert_eq!(store.statistics().staged_bytes, 0);
    for index in 0..PAGES + MORE {
        let found = driver.read(BucketStore::OBJECT, index * CHUNK, PAGE_BYTES as u64);
        assert!(found == pattern(index, PAGE_BYTES), "page {index}");
    }
    assert!(store.close());
}

/// A bucket in which another creation comes between the calls of the first one.
struct Raced {
    inner: Arc<dyn Bucket>,
    is_over: AtomicBool,
}

impl Bucket for Raced {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        if matches!(call, Call::Make { .. }) && !self.is_over.swap(true, Ordering::Relaxed) {
            let manifest = Manifest::new(8, 8 * MIB, CHUNK as u32).unwrap();
            let access = Access::Write(Writing {
                writer: 8,
                who: "host other".into(),
                create: Some(manifest.with_pages(PageFormat::Encrypted)),
                take_over: false,
            });
            let settings = settings(Some(owner(3)));
            let other = BucketStore::open(self.inner.clone(), "v", access, settings);
            assert!(other.unwrap().close());
        }
        self.inner.ask(call)
    }
}

#[test]
fn a_creation_that_finds_the_volume_of_another_key_leaves_it_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = bucket(&folder, "v");
    let raced = Raced {
        inner: bucket.clone(),
        is_over: AtomicBool::new(false),
    };
    let access = || writing_of(PageFormat::Encrypted, false);
    let refused = BucketStore::open(Arc::new(raced), "v", access(), settings(Some(owner(1))));
    let refused = refused.map(drop).unwrap_err();
    let is_named = matches!(refused, BucketError::Volume(VolumeFault::WrongKey));
    assert!(is_named, "{refused}");
    let opened = BucketStore::open(bucket, "v", access(), settings(Some(owner(3))));
    assert!(opened.expect("nobody has it").close());
}
