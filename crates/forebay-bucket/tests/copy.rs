//! Copies and checks of volumes while their writers and collectors go on, and removals.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, CallError, FolderBucket, Progress, check,
    collect, copy, info, remove,
};
use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Call, DATA_PREFIX, MAP_PREFIX, Reply, VolumeFault, Writing, map_key};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::Driver;
use volumes::{CHUNK, MIB, pattern, writing};

const SETTINGS: BucketSettings = BucketSettings {
    memory_bytes: 8 << 20,
    answer_timeout: Span::from_secs(1),
    ..BucketSettings::USUAL
};

/// What is done before a call, which is not made if it fails.
type Before = dyn Fn(&Call) -> Result<(), CallError> + Send + Sync;

/// A bucket that does something before some calls.
struct Watched {
    inner: Arc<dyn Bucket>,
    before: Box<Before>,
}

impl Bucket for Watched {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        (self.before)(call)?;
        self.inner.ask(call)
    }
}

/// A volume with its writer, and what is in it.
struct Written {
    driver: Driver,
    bytes: Vec<u8>,
    prng: Prng,
}

impl Written {
    fn new(bucket: Arc<dyn Bucket>) -> Written {
        let store = BucketStore::open(bucket, "v", writing(false), SETTINGS).unwrap();
        let mut written = Written {
            driver: Driver::new(store, 4_096),
            bytes: vec![0; 8 << 20],
            prng: Prng::from_seed(1),
        };
        for round in 0..40 {
            written.write_and_commit(round);
        }
        written
    }

    /// Every chunk as a whole.
    fn overwrite(&mut self) {
        for at in (0..self.bytes.len()).step_by(CHUNK as usize) {
            self.write_at(at, &pattern(at as u64, CHUNK as usize));
        }
    }

    /// The last page of all.
    fn write_page_and_commit(&mut self, salt: u64) {
        self.write_at(self.bytes.len() - PAGE_BYTES, &pattern(salt, PAGE_BYTES));
        self.commit();
    }

    fn commit(&self) {
        let committed = self.driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
        assert_eq!(committed, Ok::<(), Failure>(()));
    }

    fn write_at(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
        let written = self.driver.write(BucketStore::OBJECT, at as u64, bytes);
        written.expect("it is staged");
    }

    /// A few pages somewhere, and a whole chunk now and then.
    fn write_and_commit(&mut self, round: u64) {
        let pages = if round.is_multiple_of(4) { 16 } else { 3 };
        let last_page = 8 * MIB / PAGE_BYTES as u64 - pages;
        let at = self.prng.below(last_page) as usize * PAGE_BYTES;
        self.write_at(at, &pattern(round, pages as usize * PAGE_BYTES));
        self.commit();
    }
}

fn bucket(folder: &tempfile::TempDir, name: &str) -> Arc<dyn Bucket> {
    Arc::new(FolderBucket::open(&folder.path().join(name), true).unwrap())
}

fn silent() -> Arc<Progress> {
    Arc::new(|_, _| {})
}

/// Asserts that the volume is whole, belongs to nobody, and has these bytes.
fn assert_is(bucket: &Arc<dyn Bucket>, expected: &[u8]) {
    let checked = check(bucket.clone()).unwrap();
    assert_eq!(
        (&checked.faults[..], &checked.notes[..]),
        (&[][..], &[][..])
    );
    let store = BucketStore::open(bucket.clone(), "copy", writing(false), SETTINGS);
    let driver = Driver::new(store.expect("nobody has it"), 4_096);
    for at in (0..expected.len()).step_by(CHUNK as usize) {
        let found = driver.read(BucketStore::OBJECT, at as u64, CHUNK);
        assert!(found == expected[at..][..CHUNK as usize], "byte {at}");
    }
}

#[test]
fn a_copy_is_the_volume_as_of_its_last_record() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bucket(&folder, "from"), bucket(&folder, "to"));
    let mut written = Written::new(from.clone());
    for is_collected in [false, true] {
        let to = if is_collected {
            bucket(&folder, "second")
        } else {
            to.clone()
        };
        if is_collected {
            // What the map before the newest one needs stays.
            for round in 100..103 {
                collect(from.clone()).unwrap();
                written.write_and_commit(round);
            }
            assert!(collect(from.clone()).unwrap().objects > 0);
        }
        let (done, all) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, known) = (done.clone(), all.clone());
        let progress: Arc<Progress> = Arc::new(move |_, all| {
            counted.fetch_add(1, Ordering::Relaxed);
            known.store(all, Ordering::Relaxed);
        });
        let copied = copy(from.clone(), to.clone(), &progress).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
        let expected = written.bytes.clone();
        written.write_and_commit(200);
        assert_is(&to, &expected);
        assert!(copied.bytes > 0 && copied.objects > 0);
    }
}

#[test]
fn what_a_collector_removes_meanwhile_is_copied_as_it_is_then() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bucket(&folder, "from"), bucket(&folder, "to"));
    let written = Arc::new(forebay_base::sync::Mutex::new(Written::new(from.clone())));
    let (writer, inner, data_reads) = (written.clone(), from.clone(), AtomicU64::new(0));
    let watched = Watched {
        inner: from.clone(),
        before: Box::new(move |call| {
            let is_data = matches!(call, Call::Get { key, .. } if key.starts_with(DATA_PREFIX));
            if is_data && data_reads.fetch_add(1, Ordering::Relaxed) == 3 {
                let mut written = forebay_base::sync::lock(&writer);
                // Nothing of the state before is needed by the two newest maps.
                written.overwrite();
                for round in 300..303 {
                    written.write_and_commit(round);
                    collect(inner.clone()).unwrap();
                }
            }
            Ok(())
        }),
    };
    copy(Arc::new(watched), to.clone(), &silent()).unwrap();
    let expected = forebay_base::sync::lock(&written).bytes.clone();
    assert_is(&to, &expected);
}

/// A map that is made while a copy looks for maps belongs to a later state.
#[test]
fn a_map_of_a_later_state_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bucket(&folder, "from"), bucket(&folder, "to"));
    let written = Written::new(from.clone());
    let expected = written.bytes.clone();
    let written = Arc::new(forebay_base::sync::Mutex::new(written));
    let (writer, inner, lists) = (written, from.clone(), AtomicU64::new(0));
    let watched = Watched {
        inner: from,
        before: Box::new(move |call| {
            let is_list = matches!(call, Call::List { prefix } if *prefix == MAP_PREFIX);
            // The first and the second are of the opening.
            if is_list && lists.fetch_add(1, Ordering::Relaxed) == 2 {
                forebay_base::sync::lock(&writer).write_and_commit(500);
                collect(inner.clone()).unwrap();
            }
            Ok(())
        }),
    };
    copy(Arc::new(watched), to.clone(), &silent()).unwrap();
    assert_is(&to, &expected);
}

#[test]
fn a_check_ends_although_a_writer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let volume = bucket(&folder, "v");
    let written = Written::new(volume.clone());
    let Reply::Keys(keys) = volume
        .ask(&Call::List {
            prefix: DATA_PREFIX,
        })
        .unwrap()
    else {
        panic!("it is a listing");
    };
    let lost = info(volume.clone())
        .unwrap()
        .map
        .chunks()
        .next()
        .unwrap()
        .1
        .name
        .to_string();
    assert!(keys.iter().any(|(key, _)| *key == lost));
    volume.ask(&Call::Remove { key: lost.clone() }).unwrap();
    let (written, rounds) = (forebay_base::sync::Mutex::new(written), AtomicU64::new(600));
    let watched = Watched {
        inner: volume,
        before: Box::new(move |call| {
            if matches!(call, Call::List { prefix } if *prefix == MAP_PREFIX) {
                let mut written = forebay_base::sync::lock(&written);
                written.write_page_and_commit(rounds.fetch_add(1, Ordering::Relaxed));
            }
            Ok(())
        }),
    };
    let checked = check(Arc::new(watched)).unwrap();
    assert!(
        checked.faults.iter().any(|fault| fault.contains(&lost)),
        "{:?}",
        checked.faults
    );
}

#[test]
fn a_copy_that_was_interrupted_is_no_volume_and_can_be_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bucket(&folder, "from"), bucket(&folder, "to"));
    let written = Written::new(from.clone());
    for most in [0, 1, 5, 20] {
        let makes = AtomicU64::new(0);
        let full = Watched {
            inner: to.clone(),
            before: Box::new(move |call| {
                let is_make = matches!(call, Call::Make { .. });
                if is_make && makes.fetch_add(1, Ordering::Relaxed) >= most {
                    return Err(CallError::lasting("full", Failure::NoSpace));
                }
                Ok(())
            }),
        };
        let failed = copy(from.clone(), Arc::new(full), &silent()).unwrap_err();
        assert!(matches!(failed, BucketError::Bucket(_)), "{failed}");
        let refused = info(to.clone()).map(drop).unwrap_err();
        let is_none = matches!(
            refused,
            BucketError::Volume(VolumeFault::NotThere | VolumeFault::Missing { .. })
        );
        assert!(is_none, "{refused}");
    }
    copy(from, to.clone(), &silent()).unwrap();
    assert_is(&to, &written.bytes);
}

/// `gc` of a program of that format left one map and the records that its state needed: nothing
/// else is missing. The chunk of these objects is not among them.
#[test]
fn a_volume_of_format_1_that_was_collected_lacks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let volume = bucket(&folder, "v");
    let objects: [(&str, &[u8]); 4] = [
        (
            "volume",
            include_bytes!("../../forebay-volume/tests/golden/volume"),
        ),
        (
            "log/00000000000000000001",
            include_bytes!("../../forebay-volume/tests/golden/1/log-1"),
        ),
        (
            "log/00000000000000000002",
            include_bytes!("../../forebay-volume/tests/golden/1/log-2"),
        ),
        (
            "map/00000000000000000003",
            include_bytes!("../../forebay-volume/tests/golden/1/map-3"),
        ),
    ];
    for (key, bytes) in objects {
        let key = key.to_owned();
        let bytes = Arc::new(bytes.to_vec());
        assert_eq!(volume.ask(&Call::Make { key, bytes }).unwrap(), Reply::Done);
    }
    let checked = check(volume.clone()).unwrap();
    let [fault] = &checked.faults[..] else {
        panic!("{checked:?}")
    };
    assert!(fault.starts_with(DATA_PREFIX), "{fault}");
    // A writer of today's format makes its first map, and dies before the record after it.
    let access = writing_to_what_is_there();
    let store = BucketStore::open(volume.clone(), "v", access, BucketSettings::USUAL);
    assert!(store.unwrap().close());
    let map = info(volume.clone()).unwrap().map;
    let (key, bytes) = (map_key(map.number()), Arc::new(map.encode()));
    assert_eq!(volume.ask(&Call::Make { key, bytes }).unwrap(), Reply::Done);
    assert_eq!(check(volume.clone()).unwrap().faults, checked.faults);
    // A record that its state needs is missed.
    let key = "log/00000000000000000002".to_owned();
    volume.ask(&Call::Remove { key: key.clone() }).unwrap();
    let faults = check(volume).unwrap().faults;
    assert!(
        faults.iter().any(|fault| fault.starts_with(&key)),
        "{faults:?}"
    );
}

fn writing_to_what_is_there() -> Access {
    let Access::Write(writing) = writing(true) else {
        unreachable!("it is for writing")
    };
    Access::Write(Writing {
        create: None,
        ..writing
    })
}

#[test]
fn a_copy_lies_upon_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (bucket(&folder, "from"), bucket(&folder, "to"));
    let _written = Written::new(from.clone());
    let other = BucketStore::open(to.clone(), "other", writing(false), SETTINGS).unwrap();
    assert!(other.close());
    let refused = copy(from, to.clone(), &silent()).unwrap_err();
    assert!(matches!(refused, BucketError::Occupied), "{refused}");
    assert_is(&to, &vec![0; 8 << 20]);
}

#[test]
fn a_volume_is_removed_as_a_whole_if_nobody_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let volume = bucket(&folder, "v");
    let written = Written::new(volume.clone());
    let refused = remove(volume.clone(), false, &silent()).unwrap_err();
    let is_in_use = matches!(refused, BucketError::Volume(VolumeFault::InUse { .. }));
    assert!(is_in_use, "{refused}");
    drop(written);
    // It was not closed: only somebody who knows may remove it.
    assert!(remove(volume.clone(), false, &silent()).is_err());
    let stubborn = Watched {
        inner: volume.clone(),
        before: Box::new(|call| match call {
            Call::Remove { key } if key.starts_with("log/") => {
                Err(CallError::lasting("no right", Failure::Device(13)))
            }
            _ => Ok(()),
        }),
    };
    assert!(remove(Arc::new(stubborn), true, &silent()).is_err());
    assert!(check(volume.clone()).map_or(true, |checked| !checked.faults.is_empty()));
    let removed = remove(volume.clone(), true, &silent()).unwrap();
    assert!(removed.objects > 0);
    let refused = info(volume.clone()).map(drop).unwrap_err();
    let is_gone = matches!(refused, BucketError::Volume(VolumeFault::NotThere));
    assert!(is_gone, "{refused}");
    let left = walk(&folder.path().join("v"));
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

/// All files below `folder`.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| {
        if path.is_dir() {
            walk(&path)
        } else {
            vec![path]
        }
    });
    found.collect()
}
