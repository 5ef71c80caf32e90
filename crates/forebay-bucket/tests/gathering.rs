//! Commits that are answered at once and recorded together.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{PAGE_BYTES, Span};
use forebay_bucket::{Bucket, BucketSettings, BucketStore, CallError, FolderBucket, info};
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Call, Reply};
use std::sync::Arc;
use support::Driver;
use volumes::{pattern, writing};

/// Longer than any of these tests takes.
const LONG: Span = Span::from_secs(3_600);

/// A bucket that takes nothing while it is full.
struct Filling {
    inner: FolderBucket,
    is_full: AtomicBool,
    asked: AtomicU64,
}

impl Bucket for Filling {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        if matches!(call, Call::Make { .. }) && self.is_full.load(Ordering::Relaxed) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            return Err(CallError::lasting("it is full", Failure::NoSpace));
        }
        self.inner.ask(call)
    }
}

struct Volume {
    _folder: tempfile::TempDir,
    bucket: Arc<Filling>,
}

impl Volume {
    fn new() -> Volume {
        let folder = tempfile::tempdir().unwrap();
        let bucket = FolderBucket::open(&folder.path().join("v"), true).unwrap();
        Volume {
            _folder: folder,
            bucket: Arc::new(Filling {
                inner: bucket,
                is_full: AtomicBool::new(false),
                asked: AtomicU64::new(0),
            }),
        }
    }

    fn settings(commit_interval: Span) -> BucketSettings {
        BucketSettings {
            memory_bytes: 8 << 20,
            answer_timeout: Span::from_millis(200),
            commit_interval: Some(commit_interval),
            ..BucketSettings::USUAL
        }
    }

    fn open(&self, commit_interval: Span) -> (Driver, Arc<BucketStore>) {
        let settings = Volume::settings(commit_interval);
        let store = BucketStore::open(self.bucket.clone(), "v", writing(true), settings);
        let store = store.expect("it opens");
        (Driver::new(store.clone(), 64), store)
    }

    fn records(&self) -> u64 {
        info(self.bucket.clone()).unwrap().map.number()
    }

    /// What somebody reads who opens it now.
    fn read(&self, page: u64) -> Vec<u8> {
        let settings = Volume::settings(LONG);
        let store = BucketStore::open(self.bucket.clone(), "v", Access::Read, settings);
        let driver = Driver::new(store.expect("it opens"), 64);
        driver.read(
            BucketStore::OBJECT,
            page * PAGE_BYTES as u64,
            PAGE_BYTES as u64,
        )
    }
}

fn write(driver: &Driver, page: u64, salt: u64) {
    let at = page * PAGE_BYTES as u64;
    let written = driver.write(BucketStore::OBJECT, at, &pattern(salt, PAGE_BYTES));
    written.expect("it is staged");
}

fn commit(driver: &Driver) -> Result<(), Failure> {
    driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
}

#[test]
fn many_commits_are_one_record() {
    let volume = Volume::new();
    let (driver, store) = volume.open(LONG);
    let before = volume.records();
    for page in 0..100 {
        write(&driver, page, page);
        assert_eq!(commit(&driver), Ok(()));
    }
    assert!(!store.is_settled());
    assert_eq!(volume.records(), before);
    assert_eq!(volume.read(99), vec![0; PAGE_BYTES]);
    store.settle().unwrap();
    assert!(store.is_settled());
    assert_eq!(volume.records(), before + 1);
    for page in 0..100 {
        assert_eq!(volume.read(page), pattern(page, PAGE_BYTES));
    }
}

#[test]
fn they_are_recorded_after_the_interval_by_themselves() {
    let volume = Volume::new();
    let (driver, store) = volume.open(Span::from_millis(10));
    for round in 0..3 {
        write(&driver, 5, round);
        assert_eq!(commit(&driver), Ok(()));
        let clock = Stopwatch::start();
        while !store.is_settled() {
            assert!(
                clock.elapsed() < Span::from_secs(60),
                "it is never recorded"
            );
            pause_current(Span::from_millis(5));
        }
        assert_eq!(volume.read(5), pattern(round, PAGE_BYTES));
    }
}

/// Invariant BS4.
#[test]
fn a_record_that_fails_is_told_to_the_next_commit_and_loses_nothing() {
    let volume = Volume::new();
    let (driver, store) = volume.open(LONG);
    write(&driver, 5, 1);
    assert_eq!(commit(&driver), Ok(()));
    volume.bucket.is_full.store(true, Ordering::Relaxed);
    assert_eq!(store.settle(), Err(Failure::NoSpace));
    assert!(!store.is_settled());
    assert!(!store.close(), "it has not everything");
    assert_eq!(commit(&driver), Err(Failure::NoSpace));
    // It was told once.
    assert_eq!(commit(&driver), Ok(()));
    volume.bucket.is_full.store(false, Ordering::Relaxed);
    store.settle().unwrap();
    assert_eq!(volume.read(5), pattern(1, PAGE_BYTES));
}

#[test]
fn a_bucket_that_refuses_is_not_asked_as_often_as_commits_are_recorded() {
    let volume = Volume::new();
    let (driver, store) = volume.open(Span::from_millis(10));
    volume.bucket.is_full.store(true, Ordering::Relaxed);
    write(&driver, 5, 1);
    assert_eq!(commit(&driver), Ok(()));
    pause_current(Span::from_millis(1_500));
    let refusals = volume.bucket.asked.load(Ordering::Relaxed);
    assert!(refusals <= 4, "two copies, asked {refusals} times");
    volume.bucket.is_full.store(false, Ordering::Relaxed);
    store.settle().unwrap();
}

#[test]
fn a_volume_that_is_closed_has_everything() {
    let volume = Volume::new();
    let (driver, store) = volume.open(LONG);
    write(&driver, 5, 1);
    assert_eq!(commit(&driver), Ok(()));
    assert!(store.close());
    assert!(store.close(), "it is closed");
    assert_eq!(volume.read(5), pattern(1, PAGE_BYTES));
    let info = info(volume.bucket.clone()).unwrap();
    assert!(!info.map.is_open());
}

/// As a process that dies: the volume is as of an earlier commit.
#[test]
fn a_store_that_is_dropped_waits_for_nothing() {
    let volume = Volume::new();
    let (driver, store) = volume.open(LONG);
    write(&driver, 5, 1);
    assert_eq!(commit(&driver), Ok(()));
    store.settle().unwrap();
    write(&driver, 5, 2);
    assert_eq!(commit(&driver), Ok(()));
    drop((driver, store));
    assert_eq!(volume.read(5), pattern(1, PAGE_BYTES));
}

#[test]
fn a_writer_that_was_taken_over_is_told_at_once() {
    let volume = Volume::new();
    let (driver, store) = volume.open(LONG);
    write(&driver, 5, 1);
    assert_eq!(commit(&driver), Ok(()));
    let (_next, other) = volume.open(LONG);
    assert_eq!(store.settle(), Err(Failure::Fenced));
    assert_eq!(commit(&driver), Err(Failure::Fenced));
    assert!(!store.close());
    assert_eq!(volume.read(5), vec![0; PAGE_BYTES]);
    assert!(other.close());
}
