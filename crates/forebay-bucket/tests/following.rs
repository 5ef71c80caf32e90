//! Stores that follow the writer of their volume.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay::blocking::File;
use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_bucket::{
    Bucket, BucketSettings, BucketStore, FolderBucket, PageFormat, collect, resize,
};
use forebay_rt::thread::pause_current;
use forebay_store::IoKind;
use forebay_volume::Access;
use std::sync::Arc;
use support::Driver;
use volumes::{CHUNK, MIB, key_of, pattern, removing, writing_of};

const LENGTH: u64 = 8 * MIB;
/// Longer than any test.
const NEVER: Span = Span::from_secs(3_600);

fn volume(folder: &tempfile::TempDir) -> Arc<dyn Bucket> {
    Arc::new(FolderBucket::open(&folder.path().join("v"), true).unwrap())
}

/// The writer of the volume.
struct Written {
    driver: Driver,
    store: Arc<BucketStore>,
}

impl Written {
    fn new(bucket: &Arc<dyn Bucket>, pages: PageFormat) -> Written {
        let access = writing_of(pages, false);
        let store = BucketStore::open(bucket.clone(), "v", access, removing(pages)).unwrap();
        Written {
            driver: Driver::new(store.clone(), 4_096),
            store,
        }
    }

    fn flush(&self, at: u64, bytes: &[u8]) {
        for (chunk, part) in (0..).zip(bytes.chunks(CHUNK as usize)) {
            let at = at + chunk * CHUNK;
            self.driver.write(BucketStore::OBJECT, at, part).unwrap();
        }
        let committed = self.driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
        committed.expect("it is recorded");
    }
}

/// A cache over a store that follows the volume.
struct Follower {
    store: Arc<BucketStore>,
    file: File,
    _cache: Cache,
}

impl Follower {
    fn open(bucket: &Arc<dyn Bucket>, pages: PageFormat, interval: Span) -> Follower {
        let settings = BucketSettings {
            follow_interval: Some(interval),
            ..removing(pages)
        };
        let store = BucketStore::open(bucket.clone(), "v", Access::Read, settings).unwrap();
        let settings = Settings {
            memory_bytes: 16 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let attached = cache.attach(store.clone()).unwrap();
        let file = cache.open_read_only(&attached, BucketStore::OBJECT, LENGTH);
        let file = file.unwrap();
        let followed = file.clone();
        store.follow(move |bytes| followed.invalidate(bytes) == 0);
        Follower {
            store,
            file: file.blocking(),
            _cache: cache,
        }
    }

    fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.file.read_at(&mut bytes, at).unwrap();
        bytes
    }

    fn close(self) {
        let Follower { store, file, .. } = self;
        drop(file);
        assert!(store.close());
    }

    /// Waits until it shows `bytes`.
    fn comes_to(&self, at: u64, bytes: &[u8]) {
        for _ in 0..600 {
            if self.read(at, bytes.len()) == bytes {
                return;
            }
            pause_current(Span::from_millis(50));
        }
        panic!("it has not come to byte {at} within 30 s");
    }
}

/// Invariant BS5.
#[test]
fn what_is_flushed_is_read_also_where_the_cache_had_what_was_there_before() {
    for pages in PageFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let bucket = volume(&folder);
        let writer = Written::new(&bucket, pages);
        let whole = pattern(1, LENGTH as usize);
        writer.flush(0, &whole);
        let follower = Follower::open(&bucket, pages, Span::from_millis(100));
        assert_eq!(follower.read(0, whole.len()), whole, "{pages:?}");
        // Pages in a record, which stays one, chunks, and a hole.
        for (at, length) in [(4_096, 8_192), (5 * CHUNK, 3 * CHUNK as usize)] {
            let new = pattern(at, length);
            writer.flush(at, &new);
            follower.comes_to(at, &new);
        }
        writer.flush(20 * CHUNK, &vec![0; CHUNK as usize]);
        follower.comes_to(20 * CHUNK, &vec![0; CHUNK as usize]);
        // The rest is as it was.
        let rest = 30 * CHUNK;
        assert_eq!(
            follower.read(rest, MIB as usize),
            whole[rest as usize..][..MIB as usize]
        );
        follower.close();
        assert!(writer.store.close());
    }
}

#[test]
fn an_object_that_is_gone_is_no_error_for_those_who_follow() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = volume(&folder);
    let pages = PageFormat::Checksum;
    let writer = Written::new(&bucket, pages);
    writer.flush(0, &pattern(1, LENGTH as usize));
    let follower = Follower::open(&bucket, pages, NEVER);
    let new = pattern(2, LENGTH as usize);
    writer.flush(0, &new);
    // Two maps, so that nothing stays for those who opened it before.
    assert!(writer.store.close());
    assert!(collect(bucket.clone()).unwrap().objects > 0);
    assert_eq!(
        follower.read(3 * CHUNK, MIB as usize),
        new[3 * CHUNK as usize..][..MIB as usize]
    );
    assert_eq!(follower.read(0, new.len()), new);
    let store = Arc::downgrade(&follower.store);
    follower.close();
    // Tasks of the cache may be about to end.
    let is_gone = |_: &u32| {
        pause_current(Span::from_millis(50));
        store.upgrade().is_none()
    };
    assert!((0..600).find(is_gone).is_some(), "something keeps it");
}

#[test]
fn a_volume_of_another_length_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = volume(&folder);
    let pages = PageFormat::Encrypted;
    let writer = Written::new(&bucket, pages);
    let old = pattern(1, LENGTH as usize);
    writer.flush(0, &old);
    assert!(writer.store.close());
    let follower = Follower::open(&bucket, pages, Span::from_millis(100));
    resize(
        bucket.clone(),
        2 * LENGTH,
        false,
        key_of(pages).as_ref(),
        false,
    )
    .unwrap();
    let requests = || follower.store.statistics().requests.iter().sum::<u64>();
    // It has looked by then.
    let before = requests();
    while requests() < before + 30 {
        pause_current(Span::from_millis(50));
    }
    assert_eq!(follower.read(0, old.len()), old);
    // It goes on once the length is the old one again.
    let key = key_of(pages);
    resize(bucket.clone(), LENGTH, true, key.as_ref(), false).unwrap();
    let writer = Written::new(&bucket, pages);
    let new = pattern(2, CHUNK as usize);
    writer.flush(7 * CHUNK, &new);
    follower.comes_to(7 * CHUNK, &new);
    follower.close();
    assert!(writer.store.close());
}
