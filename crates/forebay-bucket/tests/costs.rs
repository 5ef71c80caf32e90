//! What a volume costs: requests and bytes for small random writes, and what lies in the bucket.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;

use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng};
use forebay_bucket::{Bucket, BucketSettings, BucketStore, CallError, check, collect};
use forebay_store::IoKind;
use forebay_volume::{Access, Call, Manifest, Reply, Writing};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::Driver;

const MIB: u64 = 1 << 20;
const VOLUME_MIB: u64 = 64;
/// Pages between two flushes.
const FLUSH: u64 = 64;

/// A bucket in memory that knows how much it ever held.
#[derive(Default)]
struct Memory(Mutex<Held>);

#[derive(Default)]
struct Held {
    objects: BTreeMap<String, Vec<u8>>,
    bytes: u64,
    /// Since it was looked at last.
    most_bytes: u64,
    /// Requests that removed objects.
    removals: u64,
}

impl Bucket for Memory {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let mut held = lock(&self.0);
        Ok(match call {
            Call::Make { key, .. } if held.objects.contains_key(key) => Reply::Exists,
            Call::Make { key, bytes } => {
                held.objects.insert(key.clone(), bytes.to_vec());
                held.bytes += bytes.len() as u64;
                held.most_bytes = held.most_bytes.max(held.bytes);
                Reply::Done
            }
            Call::Get { key, range } => match held.objects.get(key) {
                None => Reply::Missing,
                Some(bytes) => {
                    let length = bytes.len() as u64;
                    let range = range.clone().unwrap_or(0..length);
                    let range = range.start.min(length) as usize..range.end.min(length) as usize;
                    Reply::Bytes(bytes[range].to_vec())
                }
            },
            Call::List { prefix } => {
                let under = held
                    .objects
                    .iter()
                    .filter(|(key, _)| key.starts_with(prefix));
                Reply::Keys(
                    under
                        .map(|(key, bytes)| (key.clone(), bytes.len() as u64))
                        .collect(),
                )
            }
            Call::Remove { key } => match held.objects.remove(key) {
                None => Reply::Missing,
                Some(bytes) => {
                    held.bytes -= bytes.len() as u64;
                    Reply::Done
                }
            },
        })
    }

    fn remove_all(&self, keys: &[String]) -> Result<(), CallError> {
        lock(&self.0).removals += 1;
        keys.iter().try_for_each(|key| {
            let key = key.clone();
            self.ask(&Call::Remove { key }).map(drop)
        })
    }
}

fn open(bucket: &Arc<Memory>, dead_percent: Option<u32>) -> (Arc<BucketStore>, Driver) {
    let access = Access::Write(Writing {
        writer: 1,
        who: "host test".into(),
        create: Some(Manifest::new(7, VOLUME_MIB * MIB, 1 << 20).unwrap()),
        take_over: false,
    });
    let settings = BucketSettings {
        memory_bytes: 32 << 20,
        dead_percent,
        ..BucketSettings::USUAL
    };
    let store = BucketStore::open(bucket.clone(), "v", access, settings).unwrap();
    let driver = Driver::new(store.clone(), 256);
    (store, driver)
}

/// Writes so many pages anywhere, with a flush now and then.
fn write(driver: &Driver, pages: u64, seed: u64) {
    let mut prng = Prng::from_seed(seed);
    let mut bytes = [0; PAGE_BYTES];
    for number in 1..=pages {
        bytes[..8].copy_from_slice(&(prng.next_u64() | 1).to_le_bytes());
        let page = prng.below(VOLUME_MIB * MIB / PAGE_BYTES as u64);
        let offset = page * PAGE_BYTES as u64;
        driver.write(BucketStore::OBJECT, offset, &bytes).unwrap();
        if number % FLUSH == 0 {
            let flushed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
            assert_eq!(flushed, Ok(()));
        }
    }
}

#[test]
fn small_random_writes_cost_a_few_times_their_bytes() {
    let bucket = Arc::new(Memory::default());
    let (store, driver) = open(&bucket, None);
    let opened = store.statistics();
    let mib = VOLUME_MIB / 2;
    write(&driver, mib * MIB / PAGE_BYTES as u64, 1);
    let costs = store.statistics();
    let requests: u64 = costs.requests.iter().sum::<u64>() - opened.requests.iter().sum::<u64>();
    let (sent, received) = (costs.sent_bytes / MIB, costs.received_bytes / MIB);
    println!("{mib} MiB written: {sent} up, {received} down, {requests} requests");
    assert!(
        sent <= 20 * mib && received <= 2 * mib,
        "{sent} up and {received} down for {mib}"
    );
    assert!(requests <= 100 * mib, "{requests} requests for {mib} MiB");
}

#[test]
fn garbage_keeps_its_bound_under_random_overwrites() {
    let bucket = Arc::new(Memory::default());
    let (store, driver) = open(&bucket, Some(50));
    let all = VOLUME_MIB * MIB / PAGE_BYTES as u64;
    write(&driver, all, 2);
    for round in 0..8 {
        lock(&bucket.0).most_bytes = 0;
        let mut needed = 0;
        for flush in 0..all / 4 / FLUSH {
            write(&driver, FLUSH, 1_000 * (3 + round) + flush);
            needed = store.statistics().live_bytes.max(needed);
        }
        let most_bytes = lock(&bucket.0).most_bytes;
        // 64 chunks stay in any case, and a quarter of that until they are removed. Of what comes
        // and goes in between, no number is kept here.
        let allowed = needed + 80 * MIB + 32 * MIB;
        println!("{} MiB at most, {} needed", most_bytes / MIB, needed / MIB);
        assert!(
            most_bytes <= allowed,
            "{most_bytes} bytes, and {needed} are needed"
        );
    }
}

#[test]
fn gc_removes_many_objects_with_one_request() {
    let bucket = Arc::new(Memory::default());
    for round in 0..3 {
        let (store, driver) = open(&bucket, None);
        for number in 0..300_u32 {
            let bytes = number.to_le_bytes().repeat(PAGE_BYTES / 4);
            driver.write(BucketStore::OBJECT, 0, &bytes).unwrap();
            driver
                .order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
                .unwrap();
        }
        assert!(store.close());
        let before = lock(&bucket.0).removals;
        let collected = collect(bucket.clone()).unwrap();
        let removals = lock(&bucket.0).removals - before;
        if round > 0 {
            assert!(collected.objects >= 500, "{collected:?}");
            assert!(
                removals * 50 < collected.objects,
                "{removals} for {collected:?}"
            );
        }
        let checked = check(bucket.clone()).unwrap();
        assert_eq!((checked.faults, checked.notes), (vec![], vec![]));
    }
}

#[test]
fn zeros_are_holes() {
    let bucket = Arc::new(Memory::default());
    let (store, driver) = open(&bucket, None);
    let sent = |store: &BucketStore| store.statistics().sent_bytes;
    let bytes = vec![7; MIB as usize];
    for chunk in 0..2 {
        for (at, part) in bytes.chunks(64 << 10).enumerate() {
            let offset = chunk * MIB + at as u64 * (64 << 10);
            driver.write(BucketStore::OBJECT, offset, part).unwrap();
        }
    }
    driver
        .order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
        .unwrap();
    let before = sent(&store);
    assert!(before >= 2 * MIB);
    for at in 0..16 {
        driver
            .write(BucketStore::OBJECT, at * (64 << 10), &vec![0; 64 << 10])
            .unwrap();
    }
    driver
        .order(IoKind::Commit, BucketStore::OBJECT, 0, 0)
        .unwrap();
    assert!(sent(&store) < before + 4096, "no object is made of zeros");
    assert!(driver.read(BucketStore::OBJECT, 0, MIB) == vec![0; MIB as usize]);
    assert!(driver.read(BucketStore::OBJECT, MIB, MIB) == bytes);
}
