//! Each object of a small volume is lost, left out of listings, or there again after it was
//! removed: what is read is what was flushed, or an error, and `gc` takes nothing that the volume
//! needs.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

#[path = "servers/far.rs"]
mod far;
#[path = "servers/proxy.rs"]
mod proxy;

use far::Far;
use forebay_base::{PAGE_BYTES, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, FolderBucket, check, collect, info,
};
use forebay_store::{Failure, IoKind};
use forebay_volume::{
    Access, DATA_PREFIX, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX, MAPPED_KEY, TWIN_PREFIX,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use support::Driver;
use volumes::objects::{Hiding, Objects, get, make, objects, remove, reset};
use volumes::{CHUNK, pattern, writing};

/// A bad object is waited for, for as long as any answer.
const HASTY: BucketSettings = BucketSettings {
    memory_bytes: 8 << 20,
    answer_timeout: Span::from_millis(100),
    ..BucketSettings::USUAL
};
const CHUNKS: u64 = 3;

fn open(bucket: &Arc<dyn Bucket>, access: Access) -> Result<Driver, BucketError> {
    let store = BucketStore::open(bucket.clone(), "v", access, HASTY)?;
    Ok(Driver::new(store, 64))
}

fn commit(driver: &Driver, offset: u64, salt: u64, pages: usize) -> Result<(), Failure> {
    let bytes = pattern(salt, pages * PAGE_BYTES);
    let written = driver.write(BucketStore::OBJECT, offset, &bytes);
    written.expect("it is staged");
    driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
}

/// What was flushed: each chunk is that of its salt, with a page of another one in it.
fn expected(chunk: u64) -> Vec<u8> {
    let mut bytes = pattern(chunk, CHUNK as usize);
    bytes[PAGE_BYTES..2 * PAGE_BYTES].copy_from_slice(&pattern(100 + chunk, PAGE_BYTES));
    bytes
}

/// A volume of three writers, with chunks, pages in records, two maps, and records that are
/// removed. Returns also every object that was ever there.
fn volume(bucket: &Arc<dyn Bucket>) -> Objects {
    let mut ever = Objects::new();
    for chunk in 0..CHUNKS {
        let driver = open(bucket, writing(true)).expect("it opens");
        assert_eq!(commit(&driver, chunk * CHUNK, 50 + chunk, 16), Ok(()));
        assert_eq!(commit(&driver, chunk * CHUNK, chunk, 16), Ok(()));
        let second = chunk * CHUNK + PAGE_BYTES as u64;
        assert_eq!(commit(&driver, second, 100 + chunk, 1), Ok(()));
        ever.extend(objects(bucket));
        // The last writer's records are after the newest map.
        if chunk + 1 < CHUNKS {
            collect(bucket.clone()).expect("nothing is wrong");
        }
    }
    ever.extend(objects(bucket));
    ever
}

/// What a reader of `bucket` finds: all of it, or which chunks it cannot read.
fn read(bucket: &Arc<dyn Bucket>, access: Access, context: &str) -> Result<Vec<u64>, BucketError> {
    let driver = open(bucket, access)?;
    let mut failed = Vec::new();
    for chunk in 0..CHUNKS {
        match driver.try_read(BucketStore::OBJECT, chunk * CHUNK, CHUNK) {
            Ok(bytes) => assert!(bytes == expected(chunk), "{context}: chunk {chunk}"),
            Err(Failure::Device(5)) => failed.push(chunk),
            Err(failure) => panic!("{context}: {failure:?}"),
        }
    }
    Ok(failed)
}

/// Whether `check` finds something, or nothing can be checked.
fn is_noticed(bucket: &Arc<dyn Bucket>) -> bool {
    match check(bucket.clone()) {
        Ok(checked) => !checked.faults.is_empty() || !checked.notes.is_empty(),
        Err(_) => true,
    }
}

fn assert_whole(bucket: &Arc<dyn Bucket>, context: &str) {
    let failed = read(bucket, Access::Read, context).expect(context);
    assert_eq!(failed, [0; 0], "{context}");
}

/// Another writer commits a page that nobody reads here, if it gets the volume.
fn write_on(bucket: &Arc<dyn Bucket>, context: &str) {
    if let Ok(driver) = open(bucket, writing(true)) {
        assert_eq!(commit(&driver, CHUNKS * CHUNK, 7, 1), Ok(()), "{context}");
    }
}

/// A small volume, each of its objects, and what is to be tried in a bucket without one of them.
struct Losses<'b> {
    bucket: &'b Arc<dyn Bucket>,
    was: Objects,
    /// Objects that were there once and were removed.
    removed: Objects,
    /// Chunks that are replaced already.
    useless: BTreeSet<String>,
}

impl Losses<'_> {
    fn new(bucket: &Arc<dyn Bucket>) -> Losses<'_> {
        let mut removed = volume(bucket);
        let was = objects(bucket);
        removed.retain(|key, _| !was.contains_key(key));
        let named = info(bucket.clone()).expect("it is whole").map;
        let named: BTreeSet<String> = named.chunks().map(|(_, it)| it.name.to_string()).collect();
        let data = was.keys().filter(|key| key.starts_with(DATA_PREFIX));
        let useless = data.filter(|key| !named.contains(*key)).cloned().collect();
        assert!(!is_noticed(bucket), "nothing is lost yet");
        Losses {
            bucket,
            was,
            removed,
            useless,
        }
    }

    /// Without `key`, all is read but what lies there, and `check` finds it.
    fn lose(&self, key: &str, context: &str) {
        remove(self.bucket, key);
        self.assert_honest(key, context);
        let is_useless = self.useless.contains(key);
        assert_eq!(is_noticed(self.bucket), !is_useless, "{context}");
    }

    fn assert_honest(&self, key: &str, context: &str) {
        let holds = key.starts_with(DATA_PREFIX) && !self.useless.contains(key);
        match read(self.bucket, Access::Read, context) {
            Ok(failed) => assert_eq!(failed.len(), usize::from(holds), "{context}"),
            Err(error) => assert_eq!(key, MANIFEST_KEY, "{context}: {error}"),
        }
    }

    fn reset(&self) {
        reset(self.bucket, &self.was);
    }
}

#[test]
fn what_is_read_without_an_object_is_what_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::open(&folder.path().join("v"), true).unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(bucket);
    let losses = Losses::new(&bucket);
    let kinds = [
        LOG_PREFIX,
        TWIN_PREFIX,
        MAP_PREFIX,
        DATA_PREFIX,
        MANIFEST_KEY,
        MAPPED_KEY,
    ];
    for kind in kinds {
        let mut keys = losses.was.keys();
        assert!(keys.any(|key| key.starts_with(kind)), "{kind}");
    }
    assert!(!losses.removed.is_empty() && !losses.useless.is_empty());
    for (key, bytes) in &losses.was {
        let context = format!("without {key}");
        losses.lose(key, &context);
        // A volume without a part of it may be refused.
        let _ = collect(bucket.clone());
        losses.assert_honest(key, &context);
        if get(&bucket, key).is_none() {
            make(&bucket, key, bytes);
        }
        assert_whole(&bucket, &format!("{key} is back after gc"));
        losses.reset();
        remove(&bucket, key);
        write_on(&bucket, &context);
        losses.assert_honest(key, &context);
        losses.reset();
    }
}

#[test]
fn what_is_in_no_listing_or_there_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = FolderBucket::open(&folder.path().join("v"), true).unwrap();
    let bucket: Arc<dyn Bucket> = Arc::new(bucket);
    let losses = Losses::new(&bucket);
    for key in losses.was.keys() {
        let context = format!("{key} is not listed");
        let hiding: Arc<dyn Bucket> = Arc::new(Hiding {
            inner: bucket.clone(),
            key: key.clone(),
        });
        assert_whole(&hiding, &context);
        let _ = collect(hiding.clone());
        assert_whole(&bucket, &context);
        write_on(&hiding, &context);
        assert_whole(&bucket, &context);
        losses.reset();
    }
    for (key, bytes) in &losses.removed {
        let context = format!("{key} is there again");
        make(&bucket, key, bytes);
        assert_whole(&bucket, &context);
        collect(bucket.clone()).expect(&context);
        assert_whole(&bucket, &context);
        write_on(&bucket, &context);
        assert_whole(&bucket, &context);
        losses.reset();
    }
}

#[test]
fn servers_tell_a_lost_object_from_the_end_of_the_log() {
    for far in Far::one_of_each() {
        let bucket: Arc<dyn Bucket> = far.bucket("losses");
        let losses = Losses::new(&bucket);
        for (key, bytes) in &losses.was {
            losses.lose(key, &format!("{} without {key}", far.name));
            make(&bucket, key, bytes);
        }
        assert_whole(&bucket, far.name);
    }
}
