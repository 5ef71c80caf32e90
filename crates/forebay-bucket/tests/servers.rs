//! Volumes at servers of other projects: S3, Azure, Google. One that is not installed is named
//! and left out.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

#[path = "servers/far.rs"]
mod far;
#[path = "servers/proxy.rs"]
mod proxy;

use far::{Far, Service};
use forebay_base::{PAGE_BYTES, Span};
use forebay_bucket::{
    Bucket, BucketError, BucketSettings, BucketStore, RemoteBucket, VolumeInfo, check,
    clone_volume, collect, info, remove_snapshot, resize, roll_back, take_snapshot,
};

use forebay_store::{Failure, IoKind};
use forebay_volume::{Access, Call, Reply, VolumeFault};
use std::sync::Arc;
use support::Driver;
use volumes::{CHUNK, pattern, writing};

const SETTINGS: BucketSettings = BucketSettings {
    memory_bytes: 8 << 20,
    answer_timeout: Span::from_secs(30),
    ..BucketSettings::USUAL
};

fn open(far: &Far, prefix: &str, take_over: bool) -> Result<Arc<BucketStore>, BucketError> {
    BucketStore::open(far.bucket(prefix), prefix, writing(take_over), SETTINGS)
}

fn commit(driver: &Driver) -> Result<(), Failure> {
    driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
}

/// Writes chunk `chunk` as a whole, or its first page.
fn write(driver: &Driver, salt: u64, chunk: u64, pages: usize) {
    let bytes = pattern(salt, pages * PAGE_BYTES);
    let written = driver.write(BucketStore::OBJECT, chunk * CHUNK, &bytes);
    written.expect("it is staged");
}

/// Every character that can be printed, and some others, in names of volumes.
#[test]
fn the_name_of_a_volume_may_have_any_character() {
    let printable: String = (' '..='~').filter(|&c| c != '/').collect();
    for far in Far::all() {
        for name in [
            "~me",
            "m\u{fc}nchen",
            "a#b",
            "%20",
            "100%",
            "a*[b]?",
            "\u{1f4be}",
            &printable,
        ] {
            let context = format!("{}: {name}", far.name);
            let prefix = format!("any/{name}/volume");
            let driver = Driver::new(open(&far, &prefix, false).expect(&context), 64);
            for chunk in 0..4 {
                write(&driver, chunk, chunk, 16);
            }
            assert_eq!(commit(&driver), Ok(()), "{context}");
            let bucket = far.bucket(&prefix);
            let listed = bucket.ask(&Call::List { prefix: "data/" }).expect(&context);
            let Reply::Keys(keys) = listed else {
                panic!("{context}: {listed:?}");
            };
            assert_eq!(keys.len(), 4, "{context}: {keys:?}");
            for (key, _) in keys {
                let found = bucket.ask(&Call::Get { key, range: None });
                assert!(matches!(found, Ok(Reply::Bytes(_))), "{context}: {found:?}");
            }
            let checked = check(bucket).expect(&context);
            assert_eq!((checked.chunks, checked.faults), (4, vec![]), "{context}");
            drop(driver);
            let again = Driver::new(open(&far, &prefix, true).expect(&context), 64);
            for chunk in 0..4 {
                let read = again.read(BucketStore::OBJECT, chunk * CHUNK, CHUNK);
                assert!(read == pattern(chunk, CHUNK as usize), "{context}");
            }
        }
    }
}

#[test]
fn a_volume_outlives_its_writers() {
    for far in Far::all() {
        let store = open(&far, "a/volume", false).expect("it is made");
        let first = Driver::new(store, 64);
        for chunk in 0..8 {
            write(&first, chunk, chunk, 16);
        }
        assert_eq!(commit(&first), Ok(()), "{}", far.name);
        write(&first, 100, 0, 1);
        assert_eq!(commit(&first), Ok(()), "{}", far.name);
        let refused = open(&far, "a/volume", false).map(drop).unwrap_err();
        let who = "host test".to_owned();
        let in_use = VolumeFault::InUse { who };
        assert!(
            matches!(&refused, BucketError::Volume(fault) if *fault == in_use),
            "{}: {refused}",
            far.name
        );

        // A bad object is waited for, for as long as any answer.
        let hasty = BucketSettings {
            answer_timeout: Span::from_secs(2),
            ..SETTINGS
        };
        let second = BucketStore::open(far.bucket("a/volume"), "v", writing(true), hasty);
        let second = Driver::new(second.expect("it is taken over"), 64);
        write(&first, 101, 1, 1);
        assert_eq!(commit(&first), Err(Failure::Fenced), "{}", far.name);
        for chunk in 0..8 {
            let mut expected = pattern(chunk, CHUNK as usize);
            if chunk == 0 {
                expected[..PAGE_BYTES].copy_from_slice(&pattern(100, PAGE_BYTES));
            }
            let read = second.read(BucketStore::OBJECT, chunk * CHUNK, CHUNK);
            assert!(read == expected, "{}: chunk {chunk}", far.name);
        }
        write(&second, 102, 3, 16);
        assert_eq!(commit(&second), Ok(()));

        let known = info(far.bucket("a/volume")).unwrap();
        assert_eq!((known.map.epoch(), known.map.chunks().count()), (2, 8));
        let collected = collect(far.bucket("a/volume")).unwrap();
        assert!(collected.objects > 0, "{}", far.name);
        let checked = check(far.bucket("a/volume")).unwrap();
        assert_eq!((checked.chunks, checked.pages), (8, 1), "{}", far.name);
        assert_eq!(checked.faults, [""; 0], "{}", far.name);

        a_cut_object_fails_its_reads_alone(&far, &known, &second);
    }
}

/// Cuts the object of chunk 5.
fn a_cut_object_fails_its_reads_alone(far: &Far, known: &VolumeInfo, second: &Driver) {
    let cut = known.map.chunk(5).expect("it was written").name.to_string();
    let bucket = far.bucket("a/volume");
    assert_eq!(
        bucket.ask(&Call::Remove { key: cut.clone() }),
        Ok(Reply::Done)
    );
    let bytes = pattern(5, PAGE_BYTES);
    let made = bucket.ask(&Call::Make {
        key: cut.clone(),
        bytes: Arc::new(bytes),
    });
    assert_eq!(made, Ok(Reply::Done));
    for (offset, length) in [(0, CHUNK), (2 * PAGE_BYTES as u64, PAGE_BYTES as u64)] {
        let read = second.try_read(BucketStore::OBJECT, 5 * CHUNK + offset, length);
        assert_eq!(read, Err(Failure::Device(5)), "{}", far.name);
    }
    let read = second.read(BucketStore::OBJECT, 6 * CHUNK, CHUNK);
    assert!(read == pattern(6, CHUNK as usize), "{}", far.name);
    let checked = check(far.bucket("a/volume")).unwrap();
    assert!(checked.faults[0].contains(&cut), "{:?}", checked.faults);
    assert_eq!((checked.chunks, checked.faults.len()), (7, 1));
}

/// A snapshot stays, and the volume goes back to it, whatever `gc` removes.
#[test]
fn snapshots_are_held_and_gone_back_to_at_every_service() {
    let quiet: Arc<forebay_bucket::Progress> = Arc::new(|_, _| {});
    for far in Far::all() {
        let prefix = "snapshots/volume";
        let store = open(&far, prefix, false).expect(far.name);
        let driver = Driver::new(store.clone(), 64);
        let monday = "monday".parse().unwrap();
        for salt in 0..6 {
            for chunk in 0..8 {
                write(&driver, salt, chunk, [16, 1][chunk as usize % 2]);
            }
            assert_eq!(commit(&driver), Ok(()), "{}", far.name);
            if salt == 0 {
                take_snapshot(far.bucket(prefix), monday).expect(far.name);
            }
        }
        drop(driver);
        assert!(store.close());
        assert!(
            collect(far.bucket(prefix)).unwrap().objects > 0,
            "{}",
            far.name
        );
        let (clone, path) = (far.bucket("snapshots/clone"), b"../volume".to_vec());
        clone_volume(far.bucket(prefix), clone.clone(), path, Some(monday)).expect(far.name);
        assert_eq!(info(clone).unwrap().log_records, 0, "{}", far.name);
        roll_back(far.bucket(prefix), monday, None, false, &quiet).expect(far.name);
        resize(far.bucket(prefix), 7 * CHUNK + 4096, true, None, false).expect(far.name);
        remove_snapshot(far.bucket(prefix), monday, false).expect(far.name);
        collect(far.bucket(prefix)).expect(far.name);
        let checked = check(far.bucket(prefix)).unwrap();
        assert_eq!(checked.faults, [""; 0], "{}", far.name);
        let store = BucketStore::open(far.bucket(prefix), prefix, Access::Read, SETTINGS);
        let store = store.expect(far.name);
        assert_eq!(store.manifest().length_bytes, 7 * CHUNK + 4096);
        let driver = Driver::new(store, 64);
        for chunk in 0..8 {
            let found = driver.read(BucketStore::OBJECT, chunk * CHUNK, PAGE_BYTES as u64);
            assert!(
                found == pattern(0, PAGE_BYTES),
                "{}, chunk {chunk}",
                far.name
            );
        }
    }
}

#[test]
fn what_is_wrong_with_a_bucket_is_said_by_name() {
    for far in Far::all() {
        // This server says of a bucket what it says of an object.
        if far.service == Service::Google {
            continue;
        }
        let other = Arc::new(far.bucket_called("nobody-made-this", "volume"));
        let refused = BucketStore::open(other, "volume", writing(false), SETTINGS);
        let text = refused.map(drop).unwrap_err().to_string();
        assert!(text.contains("no such bucket"), "{}: {text}", far.name);
        let read = Access::Read;
        let refused = BucketStore::open(far.bucket("empty"), "empty", read, SETTINGS);
        let text = refused.map(drop).unwrap_err().to_string();
        assert!(text.contains("there is no volume"), "{}: {text}", far.name);
    }
    // Nobody listens there.
    let options = [
        ("aws_endpoint", "http://127.0.0.1:1"),
        ("aws_allow_http", "true"),
        ("aws_access_key_id", "k"),
        ("aws_secret_access_key", "s"),
    ];
    let bucket = Arc::new(RemoteBucket::s3("b", "v", &options).unwrap());
    let hasty = BucketSettings {
        answer_timeout: Span::from_millis(100),
        ..SETTINGS
    };
    let refused = BucketStore::open(bucket, "v", Access::Read, hasty);
    let text = refused.map(drop).unwrap_err().to_string();
    assert!(text.contains("127.0.0.1:1"), "{text}");
    assert!(RemoteBucket::s3("b", "v", &[("no_such_option", "1")]).is_err());
}

#[test]
fn objects_are_made_once_whoever_asks_first() {
    for far in Far::all() {
        // It answers two of many makers that they were first, now and then: it looks before it
        // makes.
        if far.name == "moto_server" {
            continue;
        }
        let buckets: Vec<_> = (0..8).map(|_| far.bucket("races")).collect();
        for round in 0..5 {
            let asked: Vec<_> = (0..8_u8)
                .map(|maker| {
                    let bucket = buckets[usize::from(maker)].clone();
                    let slot = Arc::new(forebay_rt::wait::Slot::new());
                    let answer = slot.clone();
                    let call = Call::Make {
                        key: format!("log/{round}"),
                        bytes: Arc::new(vec![maker; 1000]),
                    };
                    let ask = move || answer.set(bucket.ask(&call));
                    let joiner = forebay_rt::thread::spawn("maker", ask).unwrap();
                    (joiner, slot)
                })
                .collect();
            let replies: Vec<_> = asked
                .into_iter()
                .map(|(joiner, slot)| {
                    joiner.join();
                    slot.try_take().unwrap()
                })
                .collect();
            let key = format!("log/{round}");
            let found = buckets[0].ask(&Call::Get { key, range: None });
            let Ok(Reply::Bytes(bytes)) = found else {
                panic!("{}: {found:?}", far.name);
            };
            for (maker, reply) in replies.iter().enumerate() {
                let won = *reply == Ok(Reply::Done);
                assert_eq!(
                    won,
                    bytes == vec![maker as u8; 1000],
                    "{}: {replies:?}",
                    far.name
                );
            }
        }
    }
}
