//! Snapshots: taken while a writer and collectors go on, read, gone back to, copied, removed.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::Prng;
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, FolderBucket, PageFormat, SnapshotName,
    VolumeFault, check, collect, copy_snapshot, info, remove, remove_snapshot, roll_back,
    take_snapshot,
};
use forebay_rt::thread::spawn;
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Call, Reply, Writing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::Driver;
use volumes::{CHUNK, MIB, drawn_write, full_after, key_of, quiet, removing, writing_of};

const LENGTH: u64 = 8 * MIB;

fn name(text: &str) -> SnapshotName {
    text.parse().unwrap()
}

fn folder_bucket(folder: &tempfile::TempDir, name: &str) -> Arc<dyn Bucket> {
    Arc::new(FolderBucket::open(&folder.path().join(name), true).unwrap())
}

/// A volume with its writer, and what is in it.
struct Written {
    driver: Driver,
    store: Arc<BucketStore>,
    bytes: Vec<u8>,
    prng: Prng,
}

impl Written {
    fn open(bucket: &Arc<dyn Bucket>, pages: PageFormat, bytes: Vec<u8>) -> Written {
        let access = writing_of(pages, false);
        let store = BucketStore::open(bucket.clone(), "v", access, removing(pages)).unwrap();
        Written {
            driver: Driver::new(store.clone(), 4_096),
            store,
            bytes,
            prng: Prng::from_seed(3),
        }
    }

    /// Writes, with a commit after each.
    fn write(&mut self, rounds: u64) {
        for _ in 0..rounds {
            let (at, bytes) = drawn_write(&mut self.prng, self.bytes.len());
            self.bytes[at..][..bytes.len()].copy_from_slice(&bytes);
            let written = self.driver.write(BucketStore::OBJECT, at as u64, &bytes);
            written.expect("it is staged");
            let committed = self.driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
            assert_eq!(committed, Ok::<(), Failure>(()));
        }
    }

    fn close(self) -> Vec<u8> {
        assert!(self.store.close());
        self.bytes
    }
}

/// What is read of a volume, or of its snapshot.
fn read(bucket: &Arc<dyn Bucket>, pages: PageFormat, snapshot: Option<&str>) -> Vec<u8> {
    let settings = BucketSettings {
        snapshot: snapshot.map(name),
        ..removing(pages)
    };
    let store = BucketStore::open(bucket.clone(), "v", Access::Read, settings).unwrap();
    let driver = Driver::new(store, 4_096);
    let chunks = (0..LENGTH).step_by(CHUNK as usize);
    let bytes = chunks.flat_map(|at| driver.read(BucketStore::OBJECT, at, CHUNK));
    bytes.collect()
}

/// Two snapshots of a volume that its writer and `gc` went on with, and what it was at each.
struct Taken {
    folder: tempfile::TempDir,
    bucket: Arc<dyn Bucket>,
    monday: Vec<u8>,
    tuesday: Vec<u8>,
    now: Vec<u8>,
}

impl Taken {
    fn of(pages: PageFormat) -> Taken {
        let folder = tempfile::tempdir().unwrap();
        let bucket = folder_bucket(&folder, "v");
        let mut written = Written::open(&bucket, pages, vec![0; LENGTH as usize]);
        written.write(60);
        take_snapshot(bucket.clone(), name("monday")).unwrap();
        let monday = written.bytes.clone();
        written.write(150);
        take_snapshot(bucket.clone(), name("tuesday")).unwrap();
        let tuesday = written.bytes.clone();
        written.write(150);
        collect(bucket.clone()).unwrap();
        written.write(50);
        let now = written.close();
        collect(bucket.clone()).unwrap();
        Taken {
            folder,
            bucket,
            monday,
            tuesday,
            now,
        }
    }
}

#[test]
fn a_snapshot_is_what_the_volume_was_until_it_is_removed() {
    for pages in PageFormat::ALL {
        let taken = Taken::of(pages);
        let bucket = &taken.bucket;
        assert!(read(bucket, pages, Some("monday")) == taken.monday);
        assert!(read(bucket, pages, Some("tuesday")) == taken.tuesday);
        assert!(read(bucket, pages, None) == taken.now);
        assert_eq!(check(bucket.clone()).unwrap().faults, [""; 0]);
        let known = info(bucket.clone()).unwrap();
        let names = known.snapshots.iter().map(|(it, _)| it.to_string());
        assert_eq!(names.collect::<Vec<String>>(), ["monday", "tuesday"]);
        assert!(known.held.objects > 0);
        assert_eq!(known.unneeded.objects, 0, "gc has been here");

        let mut written = Written::open(bucket, pages, taken.now);
        written.write(20);
        let now = written.close();
        for name in ["monday", "tuesday"] {
            remove_snapshot(bucket.clone(), name.parse().unwrap(), false).unwrap();
        }
        assert!(collect(bucket.clone()).unwrap().objects >= known.held.objects);
        assert!(read(bucket, pages, None) == now);
        assert_eq!(info(bucket.clone()).unwrap().held.objects, 0);
        remove(bucket.clone(), false, &quiet()).unwrap();
        assert_eq!(walk(&taken.folder.path().join("v")), [""; 0]);
    }
}

/// What differs is written again, so the snapshot is needed no longer.
#[test]
fn a_volume_goes_back_to_a_snapshot_and_a_copy_begins_with_one() {
    for pages in PageFormat::ALL {
        let taken = Taken::of(pages);
        let (bucket, key) = (&taken.bucket, key_of(pages));
        let copy = folder_bucket(&taken.folder, "copy");
        let tuesday = name("tuesday");
        copy_snapshot(
            bucket.clone(),
            tuesday,
            copy.clone(),
            key.as_ref(),
            &quiet(),
        )
        .unwrap();
        assert!(read(&copy, pages, None) == taken.tuesday);
        assert_eq!(check(copy.clone()).unwrap().faults, [""; 0]);
        let again = copy_snapshot(bucket.clone(), tuesday, copy, key.as_ref(), &quiet());
        assert!(matches!(again, Err(BucketError::Occupied)));

        let monday = name("monday");
        roll_back(bucket.clone(), monday, key.as_ref(), false, &quiet()).unwrap();
        assert!(read(bucket, pages, None) == taken.monday);
        assert_eq!(check(bucket.clone()).unwrap().faults, [""; 0]);
        // Readers begin behind the record that names everything, with that of the end.
        assert_eq!(info(bucket.clone()).unwrap().log_records, 1);
        let nothing = roll_back(bucket.clone(), monday, key.as_ref(), false, &quiet());
        assert!(
            nothing.unwrap().objects > 0,
            "its objects are not those of the snapshot"
        );
        remove_snapshot(bucket.clone(), monday, false).unwrap();
        collect(bucket.clone()).unwrap();
        assert!(
            read(bucket, pages, None) == taken.monday,
            "it has objects of its own"
        );
        assert!(read(bucket, pages, Some("tuesday")) == taken.tuesday);
        // A writer goes on from there.
        let mut written = Written::open(bucket, pages, taken.monday);
        written.write(20);
        let now = written.close();
        assert!(read(bucket, pages, None) == now);
    }
}

/// The files below `folder`.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let found = entries.flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path)
        } else {
            vec![path.display().to_string()]
        }
    });
    found.collect()
}

fn fault_of<T>(result: Result<T, BucketError>) -> VolumeFault {
    match result {
        Err(BucketError::Volume(fault)) => fault,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is done"),
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder_bucket(&folder, "v");
    let pages = PageFormat::Encrypted;
    let monday = name("monday");
    assert_eq!(
        fault_of(take_snapshot(bucket.clone(), monday)),
        VolumeFault::NotThere
    );
    let mut written = Written::open(&bucket, pages, vec![0; LENGTH as usize]);
    written.write(20);
    take_snapshot(bucket.clone(), monday).unwrap();
    let again = fault_of(take_snapshot(bucket.clone(), monday));
    assert_eq!(again, VolumeFault::SnapshotExists { name: monday });
    written.write(20);

    // The volume is being served.
    let key = key_of(pages);
    let served = roll_back(bucket.clone(), monday, key.as_ref(), false, &quiet());
    assert!(matches!(fault_of(served), VolumeFault::InUse { .. }));
    let unlocked = fault_of(roll_back(bucket.clone(), monday, None, true, &quiet()));
    assert_eq!(unlocked, VolumeFault::KeyNeeded);
    let other = name("other");
    let missing = fault_of(roll_back(
        bucket.clone(),
        other,
        key.as_ref(),
        true,
        &quiet(),
    ));
    assert_eq!(missing, VolumeFault::NoSnapshot { name: other });
    let missing = fault_of(remove_snapshot(bucket.clone(), other, false));
    assert_eq!(missing, VolumeFault::NoSnapshot { name: other });
    written.write(20);
    assert!(!written.store.is_fenced(), "it goes on");

    let of_snapshot = BucketSettings {
        snapshot: Some(monday),
        ..removing(pages)
    };
    let access = writing_of(pages, true);
    let refused = fault_of(BucketStore::open(bucket.clone(), "v", access, of_snapshot));
    assert_eq!(refused, VolumeFault::ReadOnlySnapshot { name: monday });
    let now = written.close();
    assert!(read(&bucket, pages, None) == now);
}

/// Whatever is the last object that it can make.
#[test]
fn a_rollback_or_a_snapshot_that_is_interrupted_leaves_the_volume_as_it_was() {
    let pages = PageFormat::Checksum;
    for left in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder_bucket(&folder, "v");
        let mut written = Written::open(&whole, pages, vec![0; LENGTH as usize]);
        written.write(12);
        take_snapshot(whole.clone(), name("monday")).unwrap();
        let monday = written.bytes.clone();
        written.write(12);
        let now = written.close();
        let short = full_after(whole.clone(), left);
        let rolled = roll_back(short.clone(), name("monday"), None, true, &quiet());
        let found = read(&whole, pages, None);
        match rolled {
            Ok(_) => assert!(found == monday, "{left}"),
            // The last record may be there although it was not answered.
            Err(_) => assert!(found == now || found == monday, "{left}"),
        }
        // The snapshot is judged by the same rule.
        let taken = take_snapshot(short, name("tuesday"));
        collect_although_pinned(&whole);
        if taken.is_ok() {
            assert!(read(&whole, pages, Some("tuesday")) == found, "{left}");
        }
        assert!(read(&whole, pages, Some("monday")) == monday, "{left}");
        assert!(read(&whole, pages, None) == found, "{left}");
    }
}

/// Removes the pins of snapshots that were interrupted, as if they had had their time.
fn collect_although_pinned(bucket: &Arc<dyn Bucket>) {
    let keys = bucket.ask(&Call::List { prefix: "pin/" }).unwrap();
    let Reply::Keys(keys) = keys else {
        panic!("it is a listing")
    };
    for (key, _) in keys {
        bucket.ask(&Call::Remove { key }).unwrap();
    }
    collect(bucket.clone()).unwrap();
}

/// Whatever is the last object that it can make: it is the whole snapshot, or is not opened.
#[test]
fn a_copy_of_a_snapshot_that_is_interrupted_is_not_taken_for_whole() {
    let pages = PageFormat::Checksum;
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder_bucket(&folder, "v");
    let mut written = Written::open(&bucket, pages, vec![0; LENGTH as usize]);
    written.write(12);
    take_snapshot(bucket.clone(), name("monday")).unwrap();
    let monday = written.close();
    let copied = |to| copy_snapshot(bucket.clone(), name("monday"), to, None, &quiet());
    for left in 0.. {
        let whole = folder_bucket(&folder, &format!("copy{left}"));
        let is_copied = copied(full_after(whole.clone(), left)).is_ok();
        let access = Access::Write(Writing {
            writer: 1,
            who: "host test".into(),
            create: None,
            take_over: false,
        });
        let opened = BucketStore::open(whole.clone(), "v", access, removing(pages));
        assert!(opened.is_ok() || !is_copied, "{left}");
        if let Ok(store) = opened {
            // The last record may be there although it was not answered, or none at all.
            let is_new = store.statistics().epoch == 1;
            assert!(store.close());
            assert!(is_new || read(&whole, pages, None) == monday, "{left}");
        }
        if is_copied {
            assert!(left > 5, "it has objects of its own");
            return;
        }
        if info(whole.clone()).is_ok() {
            assert!(matches!(copied(whole.clone()), Err(BucketError::Occupied)));
            remove(whole.clone(), true, &quiet()).unwrap();
        }
        copied(whole.clone()).expect("nothing is in its way");
        assert!(read(&whole, pages, None) == monday, "{left}");
    }
}

/// Both copies of a snapshot are damaged: `info` says so, and nothing is removed.
#[test]
fn a_snapshot_that_cannot_be_read_is_listed() {
    let taken = Taken::of(PageFormat::Checksum);
    let copies = taken.folder.path().join("v/snap/monday");
    for copy in ["map", "twin"] {
        std::fs::write(copies.join(copy), b"something else").unwrap();
    }
    let known = info(taken.bucket.clone()).unwrap();
    let are_read = known.snapshots.iter().map(|(_, it)| it.is_ok());
    assert_eq!(are_read.collect::<Vec<bool>>(), [false, true]);
    assert_eq!(known.unneeded.objects, 0);
    let refused = fault_of(collect(taken.bucket.clone()));
    assert!(matches!(refused, VolumeFault::Damaged { .. }), "{refused}");
}

/// A copy of a snapshot is lost or damaged: the other one is read, and `check` tells.
#[test]
fn one_copy_of_a_snapshot_is_enough() {
    for at in 0..2 {
        for is_damaged in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let bucket = folder_bucket(&folder, "v");
            let pages = PageFormat::Checksum;
            let mut written = Written::open(&bucket, pages, vec![0; LENGTH as usize]);
            written.write(30);
            take_snapshot(bucket.clone(), name("monday")).unwrap();
            let monday = written.bytes.clone();
            written.write(60);
            written.close();
            let path = folder
                .path()
                .join("v/snap/monday")
                .join(["map", "twin"][at]);
            if is_damaged {
                std::fs::write(&path, b"something else").unwrap();
            } else {
                std::fs::remove_file(&path).unwrap();
            }
            collect(bucket.clone()).unwrap();
            assert!(read(&bucket, pages, Some("monday")) == monday);
            let faults = check(bucket.clone()).unwrap().faults;
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].contains("snap/monday/"), "{faults:?}");
            // Another try under that name leaves the whole copy alone.
            let again = fault_of(take_snapshot(bucket.clone(), name("monday")));
            assert!(
                matches!(again, VolumeFault::SnapshotExists { .. }),
                "{again}"
            );
            assert!(read(&bucket, pages, Some("monday")) == monday);
        }
    }
}

/// `gc` and a server's own removals go on the whole time.
#[test]
fn snapshots_are_taken_while_objects_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder_bucket(&folder, "v");
    let pages = PageFormat::Checksum;
    let mut written = Written::open(&bucket, pages, vec![0; LENGTH as usize]);
    let is_over = Arc::new(AtomicBool::new(false));
    let freed = Arc::new(AtomicU64::new(0));
    let collector = {
        let (bucket, is_over, freed) = (bucket.clone(), is_over.clone(), freed.clone());
        let collects = move || {
            while !is_over.load(Ordering::Relaxed) {
                let collected = collect(bucket.clone()).unwrap();
                freed.fetch_add(collected.objects, Ordering::Relaxed);
            }
        };
        spawn("collector", collects).unwrap()
    };
    let mut taken = Vec::new();
    for round in 0..12 {
        written.write(40);
        let name = format!("round-{round}");
        take_snapshot(bucket.clone(), name.parse().unwrap()).unwrap();
        taken.push((name, written.bytes.clone()));
    }
    is_over.store(true, Ordering::Relaxed);
    collector.join();
    assert!(freed.load(Ordering::Relaxed) > 0, "it had something to do");
    written.close();
    collect(bucket.clone()).unwrap();
    for (name, bytes) in &taken {
        assert!(read(&bucket, pages, Some(name)) == *bytes, "{name}");
    }
    assert_eq!(check(bucket).unwrap().faults, [""; 0]);
}
