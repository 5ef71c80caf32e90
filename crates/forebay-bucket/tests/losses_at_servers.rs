//! Volumes of many kinds at servers of other projects. An object of each is lost, is there again
//! after it was removed, or is in no listing: what is read is what was flushed, or an error.
//!
//! `FOREBAY_LOSSES` is another number of volumes at each service, `FOREBAY_LOSSES_FIRST` the first.

#![allow(clippy::unwrap_used)]

#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;
mod volumes;

#[path = "servers/far.rs"]
mod far;
#[path = "servers/proxy.rs"]
mod proxy;

use far::Far;
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_bucket::{Bucket, BucketError, BucketSettings, BucketStore, PageFormat, collect};
use forebay_store::{Failure, IoKind};
use forebay_volume::Access;
use std::sync::Arc;
use support::Driver;
use volumes::objects::{Hiding, Objects, get, make, objects, remove};
use volumes::{CHUNK, key_of, pattern, writing_of};

const USUAL: u64 = 4;
/// The part of the volume that is written.
const CHUNKS: u64 = 6;

/// A volume at a server, and what was flushed.
struct Volume {
    bucket: Arc<dyn Bucket>,
    pages: PageFormat,
    bytes: Vec<u8>,
    prng: Prng,
    /// What was there at any time.
    ever: Objects,
}

impl Volume {
    fn settings(&self) -> BucketSettings {
        BucketSettings {
            memory_bytes: 8 << 20,
            // A bad object is waited for, for as long as any answer.
            answer_timeout: Span::from_millis(100),
            dead_percent: self.prng.child("removes").chance(1, 2).then_some(0),
            key: key_of(self.pages),
            ..BucketSettings::USUAL
        }
    }

    fn open(&self, bucket: &Arc<dyn Bucket>, access: Access) -> Result<Driver, BucketError> {
        let store = BucketStore::open(bucket.clone(), "v", access, self.settings())?;
        Ok(Driver::new(store, 64))
    }

    /// Another writer takes it over and commits a few writes, if it gets it and is not refused.
    fn write_through(&mut self, bucket: &Arc<dyn Bucket>) -> Result<(), BucketError> {
        let driver = self.open(bucket, writing_of(self.pages, true))?;
        for _ in 0..=self.prng.below(5) {
            let pages = [1, 3, 8, 16][self.prng.below(4) as usize];
            let last = CHUNKS * CHUNK / PAGE_BYTES as u64 - pages;
            let at = self.prng.below(last + 1) as usize * PAGE_BYTES;
            let bytes = match self.prng.below(6) {
                0 => vec![0; pages as usize * PAGE_BYTES],
                _ => pattern(self.prng.next_u64(), pages as usize * PAGE_BYTES),
            };
            let written = driver.write(BucketStore::OBJECT, at as u64, &bytes);
            written.expect("it is staged");
            let before = self.bytes[at..][..bytes.len()].to_vec();
            self.bytes[at..][..bytes.len()].copy_from_slice(&bytes);
            let committed = driver.order(IoKind::Commit, BucketStore::OBJECT, 0, 0);
            if let Err(failure) = committed {
                // It needed what is lost.
                assert_eq!(failure, Failure::Device(5));
                self.bytes[at..][..before.len()].copy_from_slice(&before);
                return Ok(());
            }
        }
        self.ever.extend(objects(&self.bucket));
        Ok(())
    }

    /// Whether all of it is read through `bucket`. What is read is what was flushed.
    fn is_read(&self, bucket: &Arc<dyn Bucket>, context: &str) -> bool {
        let Ok(driver) = self.open(bucket, Access::Read) else {
            return false;
        };
        let mut is_whole = true;
        for chunk in 0..CHUNKS {
            let expected = &self.bytes[(chunk * CHUNK) as usize..][..CHUNK as usize];
            match driver.try_read(BucketStore::OBJECT, chunk * CHUNK, CHUNK) {
                Ok(bytes) => assert!(bytes == expected, "chunk {chunk}: {context}"),
                Err(_) => is_whole = false,
            }
        }
        is_whole
    }

    fn assert_whole(&self, context: &str) {
        assert!(self.is_read(&self.bucket, context), "{context}");
    }

    fn key_among(&mut self, objects: &Objects) -> Option<String> {
        let at = self.prng.below(objects.len().max(1) as u64);
        objects.keys().nth(at as usize).cloned()
    }
}

fn volume(far: &Far, seed: u64) -> Volume {
    let mut prng = Prng::from_seed(seed);
    let mut volume = Volume {
        bucket: far.bucket(&format!("losses-{seed}")),
        pages: PageFormat::ALL[prng.below(3) as usize],
        bytes: vec![0; (CHUNKS * CHUNK) as usize],
        prng,
        ever: Objects::new(),
    };
    let bucket = volume.bucket.clone();
    for _ in 0..=volume.prng.below(3) {
        volume.write_through(&bucket).expect("nothing is wrong yet");
        if volume.prng.chance(1, 2) {
            collect(bucket.clone()).expect("nothing is wrong yet");
        }
    }
    volume.assert_whole("nothing is wrong yet");
    volume
}

/// Returns whether something of it was not read.
fn lose(volume: &mut Volume, context: &str) -> bool {
    let was = objects(&volume.bucket);
    let key = volume.key_among(&was).expect("it has objects");
    let context = format!("{context} without {key}");
    let bucket = volume.bucket.clone();
    remove(&bucket, &key);
    let is_noticed = !volume.is_read(&bucket, &context);
    match volume.prng.below(3) {
        // A volume without a part of it may be refused.
        0 => drop(collect(bucket.clone())),
        1 => {
            let _ = volume.write_through(&bucket);
            volume.is_read(&bucket, &context);
            // What is there once more is of another state by now.
            return is_noticed;
        }
        _ => {}
    }
    volume.is_read(&bucket, &context);
    if get(&bucket, &key).is_none() {
        make(&bucket, &key, &was[&key]);
    }
    volume.assert_whole(&format!("{context}, put back"));
    is_noticed
}

fn restore(volume: &mut Volume, context: &str) {
    let is = objects(&volume.bucket);
    let mut gone = volume.ever.clone();
    gone.retain(|key, _| !is.contains_key(key));
    let Some(key) = volume.key_among(&gone) else {
        return;
    };
    let context = format!("{context}, {key} is there again");
    let bucket = volume.bucket.clone();
    make(&bucket, &key, &gone[&key]);
    volume.assert_whole(&context);
    collect(bucket.clone()).expect(&context);
    volume.write_through(&bucket).expect(&context);
    volume.assert_whole(&context);
}

fn hide(volume: &mut Volume, context: &str) {
    let key = volume.key_among(&objects(&volume.bucket));
    let key = key.expect("it has objects");
    let context = format!("{context}, {key} is not listed");
    let inner = volume.bucket.clone();
    let hiding: Arc<dyn Bucket> = Arc::new(Hiding { inner, key });
    assert!(volume.is_read(&hiding, &context), "{context}");
    let _ = collect(hiding.clone());
    volume.assert_whole(&context);
    let _ = volume.write_through(&hiding);
    volume.assert_whole(&context);
}

#[test]
fn whatever_is_lost_at_a_server_no_older_state_is_served() {
    let typed = |name: &str, usual| {
        std::env::var(name).map_or(usual, |typed| typed.parse().expect("it is a number"))
    };
    let first = typed("FOREBAY_LOSSES_FIRST", 0);
    let seeds = first..first + typed("FOREBAY_LOSSES", USUAL);
    for far in Far::one_of_each() {
        let mut noticed = 0;
        for seed in seeds.clone() {
            let context = format!("{}, volume {seed}", far.name);
            let mut volume = volume(&far, seed);
            match seed % 4 {
                0 | 1 => noticed += u64::from(lose(&mut volume, &context)),
                2 => restore(&mut volume, &context),
                _ => hide(&mut volume, &context),
            }
        }
        println!(
            "{}: {seeds:?}, {noticed} losses that were noticed",
            far.name
        );
    }
}
