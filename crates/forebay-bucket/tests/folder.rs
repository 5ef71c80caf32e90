//! The store over a folder: the contract of stores, the shape of what is in the bucket, faults.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay::{BuildError, Cache, Settings};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, CallError, FolderBucket, check, collect,
};
use forebay_rt::block_on;
use forebay_rt::thread::pause_current;
use forebay_store::{Failure, IoKind, ObjectId, Request, Store};
use forebay_volume::{
    Access, Call, DATA_PREFIX, INLINE_TOTAL, LOG_PREFIX, Manifest, Reply, Writing,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::Driver;
use volumes::{CHUNK, MIB, pattern, writing};

const PAGE: u64 = PAGE_BYTES as u64;
const OBJECT: ObjectId = BucketStore::OBJECT;

/// A bucket whose answers can be spoilt: what is set is asked before each call, and after it.
#[derive(Default)]
struct Faults {
    spoil: Mutex<Option<Box<Spoil>>>,
}

/// From a call to trouble, and whether it is carried out all the same.
type Spoil = dyn FnMut(&Call) -> Option<(CallError, bool)> + Send;

struct Faulty {
    inner: Arc<dyn Bucket>,
    faults: Arc<Faults>,
}

impl Bucket for Faulty {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let spoilt = lock(&self.faults.spoil)
            .as_mut()
            .and_then(|spoil| spoil(call));
        match spoilt {
            Some((trouble, false)) => Err(trouble),
            Some((trouble, true)) => self.inner.ask(call).and(Err(trouble)),
            None => self.inner.ask(call),
        }
    }
}

struct Bench {
    folder: tempfile::TempDir,
    faults: Arc<Faults>,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            folder: tempfile::tempdir().expect("there is room"),
            faults: Arc::default(),
        }
    }

    fn bucket(&self) -> Arc<FolderBucket> {
        Arc::new(FolderBucket::open(&self.folder.path().join("v"), true).unwrap())
    }

    fn open(&self, take_over: bool) -> Arc<BucketStore> {
        self.open_with(take_over, None)
    }

    fn open_with(&self, take_over: bool, dead_percent: Option<u32>) -> Arc<BucketStore> {
        let bucket = Arc::new(Faulty {
            inner: self.bucket(),
            faults: self.faults.clone(),
        });
        let settings = BucketSettings {
            memory_bytes: 8 << 20,
            answer_timeout: Span::from_millis(200),
            dead_percent,
            ..BucketSettings::USUAL
        };
        BucketStore::open(bucket, "v", writing(take_over), settings).expect("it opens")
    }

    fn spoil(&self, spoil: impl FnMut(&Call) -> Option<(CallError, bool)> + Send + 'static) {
        *lock(&self.faults.spoil) = Some(Box::new(spoil));
    }

    fn heal(&self) {
        *lock(&self.faults.spoil) = None;
    }

    fn keys(&self, prefix: &'static str) -> Vec<String> {
        match self.bucket().ask(&Call::List { prefix }).unwrap() {
            Reply::Keys(keys) => keys.into_iter().map(|(key, _)| key).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn driver(store: &Arc<BucketStore>) -> Driver {
    Driver::new(store.clone(), 4_096)
}

fn commit(driver: &Driver) -> Result<(), Failure> {
    driver.order(IoKind::Commit, OBJECT, 0, 0)
}

/// A volume with 4 Mi chunks has a map that does not fit.
#[test]
fn a_volume_whose_map_has_no_room_is_refused_with_what_it_needs() {
    let bench = Bench::new();
    let manifest = Manifest::new(7, 1 << 38, CHUNK as u32).unwrap();
    let access = |writer| {
        Access::Write(Writing {
            writer,
            who: "host test".into(),
            create: Some(manifest),
            take_over: false,
        })
    };
    let settings = |memory_bytes| BucketSettings {
        memory_bytes,
        ..BucketSettings::USUAL
    };
    let refused = BucketStore::open(bench.bucket(), "v", access(1), settings(64 << 20));
    let Err(BucketError::Memory {
        needed_bytes,
        map_bytes,
        ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(map_bytes, 28 * (1 << 22) + 96 * INLINE_TOTAL as u64);
    assert!(bench.keys(LOG_PREFIX).is_empty(), "nothing was made");
    let store = BucketStore::open(bench.bucket(), "v", access(2), settings(needed_bytes));
    assert!(store.expect("it is enough").close());
}

#[test]
fn the_contract_of_stores_holds() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    for (salt, offset, length) in [(1, 0, 4096), (2, 8192, 65_536), (3, 40_960, 49_152)] {
        let bytes = pattern(salt, length);
        driver.write(OBJECT, offset, &bytes).expect("it is written");
        assert!(driver.read(OBJECT, offset, length as u64) == bytes);
    }
    assert_eq!(commit(&driver), Ok(()));
    let expected = [pattern(1, 4096), vec![0; 4096], pattern(2, 65_536)].concat();
    let expected = [&expected[..40_960], &pattern(3, 49_152)].concat();
    assert!(driver.read(OBJECT, 0, 65_536) == expected[..65_536]);
    let tail = driver.read(OBJECT, 0, PAGE + 100);
    assert!(tail[4196..].iter().all(|&byte| byte == 0), "not asked for");
    for offset in [8 * MIB - PAGE, 9 * MIB] {
        let end = driver.read(OBJECT, offset, 4 * PAGE);
        assert!(end.iter().all(|&byte| byte == 0), "past the end");
    }
    for (offset, result) in [
        (8 * MIB - PAGE, Err(Failure::OutOfRange)),
        (u64::MAX - PAGE + 1, Err(Failure::OutOfRange)),
        (8 * MIB - 2 * PAGE, Ok(())),
    ] {
        assert_eq!(driver.write(OBJECT, offset, &pattern(4, 8192)), result);
    }
    let most = u64::from(store.geometry().max_io_pages);
    let refused = driver.try_read(OBJECT, 0, (most + 1) * PAGE);
    assert_eq!(refused, Err(Failure::OutOfRange));
    assert_eq!(driver.order(IoKind::SetLength, OBJECT, 8 * MIB, 0), Ok(()));
    let cut = driver.order(IoKind::SetLength, OBJECT, MIB, 0);
    assert_eq!(cut, Err(Failure::Unsupported));
    let other = driver.order(IoKind::Commit, ObjectId(1), 0, 0);
    assert_eq!(other, Err(Failure::Gone));
    for kind in [IoKind::Read, IoKind::Write, IoKind::Discard] {
        assert_eq!(driver.order(kind, OBJECT, 0, 0), Ok(()), "nothing to do");
    }
}

#[test]
fn a_volume_is_not_opened_as_shorter_than_it_is() {
    let bench = Bench::new();
    let store = bench.open(false);
    let settings = Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("the settings are good");
    let attached = cache.attach(store).expect("it is attached");
    let shorter = cache.open(&attached, OBJECT, MIB).map(drop);
    assert!(
        matches!(shorter, Err(BuildError::WrongLength { .. })),
        "{shorter:?}"
    );
    assert!(cache.open(&attached, OBJECT, 8 * MIB).is_ok());
}

#[test]
fn a_bucket_that_panics_fails_its_requests_and_ends_no_thread() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    let bytes = pattern(1, CHUNK as usize);
    driver.write(OBJECT, 0, &bytes).expect("it is written");
    assert_eq!(commit(&driver), Ok(()));
    bench.spoil(|_| panic!("a fault of a client's library"));
    // More often than the store has threads.
    for _ in 0..40 {
        let read = driver.try_read(OBJECT, 0, CHUNK);
        assert_eq!(read, Err(Failure::Panicked));
    }
    driver.write(OBJECT, CHUNK, &bytes).expect("it is staged");
    assert_eq!(commit(&driver), Err(Failure::Panicked));
    bench.heal();
    assert!(driver.read(OBJECT, 0, CHUNK) == bytes);
    driver.write(OBJECT, CHUNK, &bytes).expect("it is staged");
    assert_eq!(commit(&driver), Ok(()));
    assert!(driver.read(OBJECT, CHUNK, CHUNK) == bytes);
}

#[test]
fn a_discarded_range_is_zeros_and_the_rest_stays() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    let mut bytes = pattern(1, MIB as usize);
    for at in (0..MIB).step_by(CHUNK as usize) {
        let piece = &bytes[at as usize..(at + CHUNK) as usize];
        driver.write(OBJECT, at, piece).expect("it is written");
    }
    for (start, length) in [(0, 4096), (12_288, 200_704), (MIB - CHUNK, CHUNK)] {
        assert_eq!(commit(&driver), Ok(()));
        let done = driver.order(IoKind::Discard, OBJECT, start, length);
        assert_eq!(done, Ok(()));
        bytes[start as usize..(start + length) as usize].fill(0);
        for at in (0..MIB).step_by(CHUNK as usize) {
            let expected = &bytes[at as usize..(at + CHUNK) as usize];
            assert!(driver.read(OBJECT, at, CHUNK) == expected, "{start} {at}");
        }
    }
    let past = driver.order(
        IoKind::Discard,
        OBJECT,
        4 * MIB,
        u64::MAX - 4 * MIB + 1 - PAGE,
    );
    assert_eq!(past, Ok(()));
    assert_eq!(commit(&driver), Ok(()));
    drop(driver);
    assert!(store.close());
}

#[test]
fn a_small_commit_is_one_object_and_a_stream_makes_one_for_each_chunk() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    driver.write(OBJECT, 0, &pattern(1, 4096)).unwrap();
    assert_eq!(commit(&driver), Ok(()));
    assert_eq!(commit(&driver), Ok(()), "nothing has changed");
    assert_eq!(bench.keys(LOG_PREFIX).len(), 2, "opening and commit");
    assert_eq!(bench.keys(DATA_PREFIX).len(), 0);
    let stream = pattern(2, 4 * MIB as usize);
    for at in (0..4 * MIB).step_by(CHUNK as usize) {
        let piece = &stream[at as usize..(at + CHUNK) as usize];
        driver.write(OBJECT, at, piece).unwrap();
    }
    assert_eq!(commit(&driver), Ok(()));
    assert_eq!(bench.keys(LOG_PREFIX).len(), 3);
    assert_eq!(bench.keys(DATA_PREFIX).len(), 64);
    assert!(store.close());
    let again = bench.open(false);
    let driver = Driver::new(again, 64);
    for at in (0..4 * MIB).step_by(CHUNK as usize) {
        assert!(driver.read(OBJECT, at, CHUNK) == stream[at as usize..(at + CHUNK) as usize]);
    }
}

/// Whatever is written meanwhile, each commit that ends well is there: invariants BS1, BS2 and BS3.
#[test]
fn a_flush_is_in_the_bucket_whatever_happens_meanwhile() {
    const SLOTS: u64 = 128;
    let bench = Bench::new();
    let store = bench.open(false);
    let mut driver = driver(&store);
    let mut prng = Prng::from_seed(11);
    let mut expected = vec![0_u8; (SLOTS * 4 * PAGE) as usize];
    for round in 0..40 {
        if round % 4 == 1 {
            // A third of all answers is lost, half of them after the act.
            let mut chance = Prng::from_seed(round);
            bench.spoil(move |_| {
                let is_spoilt = chance.chance(1, 3);
                is_spoilt.then(|| (CallError::passing("lost"), chance.chance(1, 2)))
            });
        }
        let mut tokens = Vec::new();
        for _ in 0..prng.below(40) {
            let (slot, length) = (prng.below(SLOTS), 1 + prng.below(4));
            let at = slot * 4 * PAGE;
            let bytes = pattern(prng.next_u64(), (length * PAGE) as usize);
            // One write of a page at a time, as a cache does.
            let is_new = tokens.iter().all(|(busy, _, _)| *busy != slot);
            if is_new {
                let token = driver.submit_write(OBJECT, at, &bytes);
                tokens.push((slot, token, bytes));
            }
        }
        for (slot, token, bytes) in tokens {
            let at = (slot * 4 * PAGE) as usize;
            block_on(driver.finish(token)).expect("it is staged");
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        while commit(&driver).is_err() {}
        bench.heal();
        if round % 8 == 7 {
            // The process ends without a word; another one finds all of it.
            let next = bench.open(true);
            driver.write(OBJECT, 0, &pattern(1, 4096)).unwrap();
            assert_eq!(commit(&driver), Err(Failure::Fenced));
            assert_eq!(driver.write(OBJECT, 0, &[1; 4096]), Err(Failure::Fenced));
            driver = Driver::new(next, 4_096);
        }
        for at in (0..expected.len()).step_by(CHUNK as usize) {
            let read = driver.read(OBJECT, at as u64, CHUNK);
            assert!(read == expected[at..at + CHUNK as usize], "round {round}");
        }
    }
}

#[test]
fn a_commit_fails_while_the_bucket_is_away_and_nothing_is_lost() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    let bytes = pattern(1, 2 * CHUNK as usize);
    for at in [0, CHUNK] {
        let piece = &bytes[at as usize..(at + CHUNK) as usize];
        driver.write(OBJECT, at, piece).unwrap();
    }
    assert_eq!(commit(&driver), Ok(()));
    driver.write(OBJECT, 0, &pattern(2, 4096)).unwrap();
    // Carried out each time, and never answered.
    bench.spoil(|_| Some((CallError::passing("away"), true)));
    assert_eq!(commit(&driver), Err(Failure::NoAnswer));
    driver.write(OBJECT, 4096, &pattern(3, 4096)).unwrap();
    assert_eq!(commit(&driver), Err(Failure::NoAnswer));
    bench.spoil(|_| Some((CallError::lasting("full", Failure::NoSpace), false)));
    assert_eq!(commit(&driver), Err(Failure::NoSpace));
    assert!(!store.close(), "something is not committed");
    assert_eq!(commit(&driver), Err(Failure::NoSpace), "it goes on");
    bench.heal();
    assert_eq!(commit(&driver), Ok(()));
    assert!(store.close());
    assert_eq!(driver.write(OBJECT, 0, &bytes[..4096]), Err(Failure::Gone));
    let next = Driver::new(bench.open(false), 64);
    let expected = [&pattern(2, 4096), &pattern(3, 4096), &bytes[8192..]].concat();
    for at in [0, CHUNK] {
        assert!(next.read(OBJECT, at, CHUNK) == expected[at as usize..(at + CHUNK) as usize]);
    }
}

#[test]
fn a_bucket_that_can_only_be_read_ends_a_commit_in_time() {
    let bench = Bench::new();
    let driver = driver(&bench.open(false));
    for pages in [1, 17] {
        for page in 0..pages {
            driver
                .write(OBJECT, page * PAGE, &pattern(page, PAGE_BYTES))
                .unwrap();
        }
        bench.spoil(|call| {
            matches!(call, Call::Make { .. }).then(|| (CallError::passing("slow down"), false))
        });
        assert_eq!(commit(&driver), Err(Failure::NoAnswer), "{pages} pages");
        bench.heal();
        assert_eq!(commit(&driver), Ok(()), "{pages} pages");
    }
}

#[test]
fn writes_that_have_no_room_wait_or_fail_with_what_they_wait_for() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    bench.spoil(|call| {
        let is_make = matches!(call, Call::Make { .. });
        is_make.then(|| (CallError::lasting("full", Failure::NoSpace), false))
    });
    let bytes = pattern(5, CHUNK as usize);
    let results: Vec<_> = (0..8 * MIB / CHUNK)
        .map(|chunk| driver.write(OBJECT, chunk * CHUNK, &bytes))
        .collect();
    assert_eq!(results[0], Ok(()), "there is room in memory");
    assert!(
        results.contains(&Err(Failure::NoSpace)),
        "not for everything"
    );
    bench.heal();
    for (chunk, result) in (0..).zip(&results) {
        if result.is_err() {
            driver
                .write(OBJECT, chunk * CHUNK, &bytes)
                .expect("there is room again");
        }
    }
    assert_eq!(commit(&driver), Ok(()));
    assert_eq!(bench.keys(DATA_PREFIX).len(), 128);
}

/// A bucket that is full for the first two objects that are made at once. It refuses the first when
/// it is told to, and the second when somebody makes a third.
struct FullForTwo {
    inner: Arc<FolderBucket>,
    made: AtomicUsize,
    is_first_refused: AtomicBool,
}

impl Bucket for FullForTwo {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let is_chunk = matches!(call, Call::Make { key, .. } if key.starts_with(DATA_PREFIX));
        if !is_chunk {
            return self.inner.ask(call);
        }
        match self.made.fetch_add(1, Ordering::AcqRel) {
            0 => wait_until(|| self.is_first_refused.load(Ordering::Acquire)),
            1 => wait_until(|| self.made.load(Ordering::Acquire) > 2),
            _ => return self.inner.ask(call),
        }
        Err(CallError::lasting("full", Failure::NoSpace))
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        pause_current(Span::from_millis(1));
    }
}

#[test]
fn an_upload_that_fails_late_ends_no_later_commit() {
    let bench = Bench::new();
    let bucket = Arc::new(FullForTwo {
        inner: bench.bucket(),
        made: AtomicUsize::new(0),
        is_first_refused: AtomicBool::new(false),
    });
    let settings = BucketSettings {
        memory_bytes: 8 << 20,
        ..BucketSettings::USUAL
    };
    let store = BucketStore::open(bucket.clone(), "v", writing(false), settings);
    let driver = driver(&store.expect("it opens"));
    let bytes = pattern(10, CHUNK as usize);
    for chunk in 0..2 {
        driver.write(OBJECT, chunk * CHUNK, &bytes).unwrap();
    }
    wait_until(|| bucket.made.load(Ordering::Acquire) == 2);
    let request = Request {
        kind: IoKind::Commit,
        object: OBJECT,
        offset_bytes: 0,
        length_bytes: 0,
    };
    let first = driver.submit(request, Vec::new());
    bucket.is_first_refused.store(true, Ordering::Release);
    match block_on(driver.finish(first)) {
        // The first refusal came while it waited.
        Err(Failure::NoSpace) if bucket.made.load(Ordering::Acquire) == 2 => {
            assert_eq!(commit(&driver), Ok(()));
        }
        // The first refusal came before, and the second while it waited.
        ended => assert_eq!(ended, Ok(Vec::new()), "its trouble is older (BS3)"),
    }
    for chunk in 0..2 {
        assert!(driver.read(OBJECT, chunk * CHUNK, CHUNK) == bytes);
    }
}

#[test]
fn a_missing_object_fails_its_reads_and_the_rest_is_served() {
    let bench = Bench::new();
    let store = bench.open(false);
    let driver = driver(&store);
    let bytes = pattern(6, CHUNK as usize);
    for chunk in 0..4 {
        driver.write(OBJECT, chunk * CHUNK, &bytes).unwrap();
        assert_eq!(commit(&driver), Ok(()));
    }
    let keys = bench.keys(DATA_PREFIX);
    let missing = keys.iter().find(|key| key.ends_with("-0000000000000001"));
    let key = missing.expect("the second one").clone();
    assert_eq!(bench.bucket().ask(&Call::Remove { key }), Ok(Reply::Done));
    for chunk in [0, 2, 3] {
        assert!(driver.read(OBJECT, chunk * CHUNK, CHUNK) == bytes);
    }
    let failed = driver.try_read(OBJECT, CHUNK, CHUNK);
    assert_eq!(failed, Err(Failure::Device(5)));
    // A write of the whole chunk makes it good again.
    driver.write(OBJECT, CHUNK, &bytes).unwrap();
    assert_eq!(commit(&driver), Ok(()));
    assert!(driver.read(OBJECT, CHUNK, CHUNK) == bytes);
}

#[test]
fn a_writer_removes_what_its_commits_made_useless() {
    for dead_percent in [Some(50), None] {
        let bench = Bench::new();
        let settings = BucketSettings {
            memory_bytes: 8 << 20,
            dead_percent,
            ..BucketSettings::default()
        };
        let opened = BucketStore::open(bench.bucket(), "v", writing(false), settings);
        let store = opened.expect("it opens");
        let driver = driver(&store);
        for round in 0..4 {
            for chunk in 0..128 {
                let bytes = pattern(round * 1_000 + chunk, CHUNK as usize);
                driver.write(OBJECT, chunk * CHUNK, &bytes).unwrap();
            }
            assert_eq!(commit(&driver), Ok(()));
        }
        if dead_percent.is_none() {
            assert_eq!(bench.keys(DATA_PREFIX).len(), 4 * 128);
            // Records take a little too.
            assert_eq!(store.statistics().dead_bytes / CHUNK, 3 * 128);
            continue;
        }
        // 64 of them may stay.
        while store.statistics().dead_bytes > 64 * CHUNK {
            pause_current(Span::from_millis(5));
        }
        assert!(store.close());
        drop((driver, store));
        // Records and maps that wait count too.
        let objects = bench.keys(DATA_PREFIX).len();
        assert!((128 + 60..=128 + 64).contains(&objects), "{objects}");
        assert_eq!(check(bench.bucket()).unwrap().faults, [""; 0]);
        let next = Driver::new(bench.open(false), 64);
        for chunk in 0..128 {
            let read = next.read(OBJECT, chunk * CHUNK, CHUNK);
            assert!(read == pattern(3_000 + chunk, CHUNK as usize), "{chunk}");
        }
    }
}

/// A writer that was taken over and needs an object that the other one has removed gets as far as
/// no record: it would never know.
#[test]
fn a_writer_that_misses_an_object_finds_out_that_it_was_taken_over() {
    let bench = Bench::new();
    let first = bench.open(false);
    let driver_of_first = driver(&first);
    let bytes = pattern(1, CHUNK as usize);
    for chunk in 0..2 {
        driver_of_first
            .write(OBJECT, chunk * CHUNK, &bytes)
            .unwrap();
    }
    assert_eq!(commit(&driver_of_first), Ok(()));
    let second = bench.open(true);
    let driver_of_second = driver(&second);
    let others = pattern(2, CHUNK as usize);
    driver_of_second.write(OBJECT, 0, &others).unwrap();
    assert_eq!(commit(&driver_of_second), Ok(()));
    collect(bench.bucket()).expect("the volume is well");
    // More than fits into a record: the chunks are made anew, from what was there.
    for chunk in 0..2 {
        let part = &bytes[..9 * PAGE_BYTES];
        driver_of_first.write(OBJECT, chunk * CHUNK, part).unwrap();
    }
    assert_eq!(commit(&driver_of_first), Err(Failure::Fenced));
    assert!(first.is_fenced() && !first.close());
    assert_eq!(commit(&driver_of_first), Err(Failure::Fenced));
    let read = driver_of_first.try_read(OBJECT, CHUNK, PAGE);
    assert_eq!(read, Err(Failure::Fenced), "it may be another's by now");
    assert!(driver_of_second.read(OBJECT, 0, CHUNK) == others);
}

#[test]
fn a_bucket_that_lets_nothing_be_removed_serves_all_the_same() {
    let bench = Bench::new();
    let store = bench.open_with(false, Some(50));
    let driver = driver(&store);
    let tries = Arc::new(Mutex::new(0));
    let counted = tries.clone();
    bench.spoil(move |call| {
        matches!(call, Call::Remove { .. }).then(|| {
            *lock(&counted) += 1;
            (CallError::lasting("no", Failure::Device(13)), false)
        })
    });
    for round in 0..3 {
        for chunk in 0..128 {
            let bytes = pattern(round, CHUNK as usize);
            driver.write(OBJECT, chunk * CHUNK, &bytes).unwrap();
        }
        assert_eq!(commit(&driver), Ok(()));
    }
    assert!(store.close());
    assert_eq!(*lock(&tries), 1, "it asks no second time");
}

#[test]
fn too_little_memory_is_refused_and_the_volume_left_to_others() {
    let bench = Bench::new();
    let little = BucketSettings {
        memory_bytes: 1 << 20,
        ..BucketSettings::default()
    };
    let refused = BucketStore::open(bench.bucket(), "v", writing(false), little);
    let text = refused.map(drop).unwrap_err().to_string();
    assert!(text.contains("give more memory"), "{text}");
    assert!(bench.open(false).close());
}

#[test]
fn a_cache_writes_back_more_than_its_memory() {
    let bench = Bench::new();
    let store = bench.open(false);
    let settings = Settings {
        memory_bytes: 4 << 20,
        ..Settings::default()
    };
    let cache = Cache::new(settings).unwrap();
    let attached = cache.attach(store.clone()).unwrap();
    let file = cache.open(&attached, OBJECT, 8 * MIB).unwrap().blocking();
    let mut prng = Prng::from_seed(9);
    let mut expected = vec![0_u8; 8 * MIB as usize];
    for round in 0..400_u64 {
        let at = prng.below(8 * MIB - 70_000);
        let bytes = pattern(round, 1 + prng.below(70_000) as usize);
        file.write_at(&bytes, at).unwrap();
        expected[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        if round % 50 == 49 {
            file.sync().unwrap();
        }
    }
    file.sync().unwrap();
    drop((file, attached, cache));
    assert!(store.close());
    let next = Driver::new(bench.open(false), 64);
    for at in (0..expected.len()).step_by(CHUNK as usize) {
        let read = next.read(OBJECT, at as u64, CHUNK);
        assert!(read == expected[at..at + CHUNK as usize], "{at}");
    }
}
