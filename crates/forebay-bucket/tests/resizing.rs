//! Volumes that become longer and shorter, between snapshots, records of small commits, and `gc`.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::{PAGE_BYTES, Prng};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, FolderBucket, OwnerKey, PageFormat,
    VolumeFault, check, collect, copy, resize, roll_back, take_snapshot,
};
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Manifest, Writing};
use std::sync::Arc;
use support::Driver;
use tempfile::TempDir;
use volumes::{CHUNK, drawn_write, full_after, key_of, quiet, removing};

const PAGE: usize = PAGE_BYTES;

/// A volume without a server, and what it has to hold.
struct Volume {
    bucket: Arc<dyn Bucket>,
    pages: PageFormat,
    bytes: Vec<u8>,
    prng: Prng,
}

impl Volume {
    /// One of `count` pages, made in `folder`.
    fn new(folder: &TempDir, pages: PageFormat, count: usize) -> Volume {
        let bucket = FolderBucket::open(&folder.path().join("v"), true).unwrap();
        let volume = Volume {
            bucket: Arc::new(bucket),
            pages,
            bytes: vec![0; count * PAGE],
            prng: Prng::from_seed(5),
        };
        let manifest = Manifest::new(7, (count * PAGE) as u64, CHUNK as u32).unwrap();
        assert!(volume.open(Some(manifest.with_pages(pages))).close());
        volume
    }

    fn open(&self, create: Option<Manifest>) -> Arc<BucketStore> {
        let access = Access::Write(Writing {
            writer: forebay_rt::fresh_number().unwrap(),
            who: "host test".into(),
            create,
            take_over: false,
        });
        BucketStore::open(self.bucket.clone(), "v", access, removing(self.pages)).unwrap()
    }

    /// Writes of all sizes, up to the end, with a commit after each.
    fn write(&mut self, rounds: u64) {
        let store = self.open(None);
        let driver = Driver::new(store.clone(), 4_096);
        for _ in 0..rounds {
            let (at, bytes) = drawn_write(&mut self.prng, self.bytes.len());
            self.bytes[at..][..bytes.len()].copy_from_slice(&bytes);
            driver
                .write(BucketStore::OBJECT, at as u64, &bytes)
                .unwrap();
            let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
            assert_eq!(committed, Ok::<(), Failure>(()));
        }
        drop(driver);
        assert!(store.close());
    }

    fn resize(&mut self, count: usize) {
        let (bucket, key) = (self.bucket.clone(), key_of(self.pages));
        let length = count * PAGE;
        resize(bucket, length as u64, true, key.as_ref(), false).unwrap();
        self.bytes.resize(length, 0);
    }

    fn assert_is(&self, bytes: &[u8], what: &str) {
        let settings = removing(self.pages);
        let store = BucketStore::open(self.bucket.clone(), "v", Access::Read, settings).unwrap();
        assert_eq!(store.manifest().length_bytes, bytes.len() as u64, "{what}");
        let driver = Driver::new(store, 4_096);
        for at in (0..bytes.len()).step_by(CHUNK as usize) {
            let length = (bytes.len() - at).min(CHUNK as usize);
            let found = driver.read(BucketStore::OBJECT, at as u64, length as u64);
            assert!(found == bytes[at..][..length], "{what}, byte {at}");
        }
        assert_eq!(
            check(self.bucket.clone()).unwrap().faults,
            [""; 0],
            "{what}"
        );
    }
}

#[test]
fn what_stays_is_the_same_and_what_is_added_is_zeros() {
    for pages in PageFormat::ALL {
        let folder = tempfile::tempdir().unwrap();
        let mut volume = Volume::new(&folder, pages, 40);
        let counts = [41, 100, 96, 90, 16, 15, 17, 64, 120, 119, 1, 50];
        let mut snapshots = Vec::new();
        for (round, count) in counts.into_iter().enumerate() {
            let rounds = volume.prng.below(15);
            volume.write(rounds);
            if round % 4 == 1 {
                let name = format!("s{round}").parse().unwrap();
                take_snapshot(volume.bucket.clone(), name).unwrap();
                snapshots.push((name, volume.bytes.clone()));
            }
            volume.resize(count);
            volume.assert_is(&volume.bytes, "after a resize");
            if round % 3 == 0 {
                collect(volume.bucket.clone()).unwrap();
                volume.assert_is(&volume.bytes, "after gc");
            }
        }
        volume.write(20);
        volume.assert_is(&volume.bytes, "at the end");
        let copied = Arc::new(FolderBucket::open(&folder.path().join("copy"), true).unwrap());
        copy(volume.bucket.clone(), copied.clone(), &quiet()).unwrap();
        let copied = Volume {
            bucket: copied,
            pages,
            bytes: Vec::new(),
            prng: Prng::from_seed(6),
        };
        copied.assert_is(&volume.bytes, "the copy");
        // Back to another length.
        for (name, bytes) in snapshots {
            let (bucket, key) = (volume.bucket.clone(), key_of(pages));
            roll_back(bucket, name, key.as_ref(), false, &quiet()).unwrap();
            volume.bytes.clone_from(&bytes);
            volume.assert_is(&bytes, "after a rollback");
            volume.write(10);
            volume.assert_is(&volume.bytes, "written after a rollback");
        }
    }
}

#[test]
fn a_resize_that_is_interrupted_is_done_or_is_not() {
    for (count, left) in [30, 21, 17]
        .into_iter()
        .flat_map(|it| (0..8).map(move |left| (it, left)))
    {
        let folder = tempfile::tempdir().unwrap();
        let mut volume = Volume::new(&folder, PageFormat::Checksum, 25);
        volume.write(12);
        let short = full_after(volume.bucket.clone(), left);
        let length = count * PAGE;
        let resized = resize(short, length as u64, true, None, false);
        let settings = removing(volume.pages);
        let store = BucketStore::open(volume.bucket.clone(), "v", Access::Read, settings).unwrap();
        let found = store.manifest().length_bytes as usize;
        if resized.is_ok() {
            assert_eq!(found, length, "{left}");
        } else {
            assert!([length, volume.bytes.len()].contains(&found), "{left}");
        }
        volume.bytes.resize(found, 0);
        volume.assert_is(&volume.bytes, "whichever it is");
    }
}

#[test]
fn what_a_person_did_not_mean_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut volume = Volume::new(&folder, PageFormat::Encrypted, 40);
    volume.write(20);
    let key = key_of(volume.pages);
    let call = |length_bytes, shrinks, key: Option<&OwnerKey>| {
        resize(volume.bucket.clone(), length_bytes, shrinks, key, false)
    };
    let refused = call(4_096, false, key.as_ref()).unwrap_err();
    assert!(matches!(refused, BucketError::Shrinks { .. }), "{refused}");
    assert!(refused.to_string().contains("--shrink"), "{refused}");
    for length_bytes in [0, 4_095, 1 << 60] {
        let refused = call(length_bytes, true, key.as_ref()).unwrap_err();
        let fault = matches!(refused, BucketError::Volume(VolumeFault::OutOfRange { .. }));
        assert!(fault, "{refused}");
    }
    let refused = call(1 << 20, true, None).unwrap_err();
    assert!(matches!(
        refused,
        BucketError::Volume(VolumeFault::KeyNeeded)
    ));
    volume.assert_is(&volume.bytes, "it has not changed");

    let store = volume.open(None);
    let refused = call(1 << 20, true, key.as_ref()).unwrap_err();
    assert!(matches!(
        refused,
        BucketError::Volume(VolumeFault::InUse { .. })
    ));
    assert!(!store.is_fenced());
    assert!(store.close());

    // `--create` with the old length is refused.
    call(1 << 20, true, key.as_ref()).unwrap();
    let asked = Manifest::new(7, 40 * PAGE_BYTES as u64, CHUNK as u32).unwrap();
    let access = Access::Write(Writing {
        writer: 1,
        who: "host test".into(),
        create: Some(asked.with_pages(volume.pages)),
        take_over: true,
    });
    let refused = BucketStore::open(volume.bucket.clone(), "v", access, removing(volume.pages));
    let fault = VolumeFault::WrongLength {
        found_bytes: 1 << 20,
        asked_bytes: 40 * PAGE_BYTES as u64,
    };
    assert!(matches!(refused, Err(BucketError::Volume(found)) if found == fault));
}

/// A map of a large volume has no room in the memory that was enough before.
#[test]
fn a_writer_that_has_no_room_for_a_grown_volume_does_not_end_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let volume = Volume::new(&folder, PageFormat::Checksum, 40);
    resize(volume.bucket.clone(), 128 << 30, false, None, false).unwrap();
    let open = |writer, take_over, memory_bytes| {
        let access = Access::Write(Writing {
            writer,
            who: "host test".into(),
            create: None,
            take_over,
        });
        let settings = BucketSettings {
            memory_bytes,
            ..removing(volume.pages)
        };
        BucketStore::open(volume.bucket.clone(), "v", access, settings)
    };
    let small = removing(volume.pages).memory_bytes;
    let refused = open(1, false, small);
    assert!(matches!(refused, Err(BucketError::Memory { .. })));
    let store = open(2, false, 256 << 20).unwrap();
    let refused = open(3, true, small);
    assert!(matches!(refused, Err(BucketError::Memory { .. })));
    let driver = Driver::new(store.clone(), 4_096);
    driver.write(BucketStore::OBJECT, 0, &[7; PAGE]).unwrap();
    let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
    assert_eq!(committed, Ok::<(), Failure>(()));
    drop(driver);
    assert!(store.close());
}

/// The last chunk was a hole, and has a page past its old end since.
#[test]
fn a_rollback_drops_what_was_written_past_the_old_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut volume = Volume::new(&folder, PageFormat::Checksum, 20);
    let name = "s".parse().unwrap();
    take_snapshot(volume.bucket.clone(), name).unwrap();
    volume.resize(24);
    let store = volume.open(None);
    let driver = Driver::new(store.clone(), 4_096);
    let at = 22 * PAGE as u64;
    driver.write(BucketStore::OBJECT, at, &[7; PAGE]).unwrap();
    let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
    assert_eq!(committed, Ok::<(), Failure>(()));
    drop(driver);
    assert!(store.close());
    roll_back(volume.bucket.clone(), name, None, false, &quiet()).unwrap();
    volume.assert_is(&vec![0; 20 * PAGE], "after the rollback");
}
