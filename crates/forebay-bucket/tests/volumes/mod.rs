//! The volume of the tests, and what is written to it.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod objects;

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::{Prng, Span};
use forebay_bucket::{Bucket, BucketSettings, CallError, OwnerKey, ParentVolume, Progress};
use forebay_rt::fresh_number;
use forebay_store::Failure;
use forebay_volume::{Access, Call, Manifest, PageFormat, Reply, Writing};
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const CHUNK: u64 = 64 << 10;

/// The key of a volume with such pages.
pub(crate) fn key_of(pages: PageFormat) -> Option<OwnerKey> {
    let key = OwnerKey::parse(&[1; 32]).expect("32 bytes are a key");
    (pages == PageFormat::Encrypted).then_some(key)
}

/// A store of such a volume, which removes whatever it can.
pub(crate) fn removing(pages: PageFormat) -> BucketSettings {
    BucketSettings {
        memory_bytes: 8 << 20,
        answer_timeout: Span::from_secs(1),
        dead_percent: Some(0),
        key: key_of(pages),
        ..BucketSettings::USUAL
    }
}

/// Progress that nobody watches.
pub(crate) fn quiet() -> Arc<Progress> {
    Arc::new(|_, _| {})
}

/// A bucket in which objects can be made until it is full.
struct Short {
    inner: Arc<dyn Bucket>,
    left: AtomicU64,
}

/// `inner`, full once `left` further objects were made.
pub(crate) fn full_after(inner: Arc<dyn Bucket>, left: u64) -> Arc<dyn Bucket> {
    let left = AtomicU64::new(left);
    Arc::new(Short { inner, left })
}

impl Bucket for Short {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        if matches!(call, Call::Make { .. }) {
            let left = self.left.load(Ordering::Relaxed);
            if left == 0 {
                return Err(CallError::lasting("the bucket is full", Failure::NoSpace));
            }
            self.left.store(left - 1, Ordering::Relaxed);
        }
        self.inner.ask(call)
    }

    fn parent(&self) -> Result<Option<ParentVolume>, CallError> {
        self.inner.parent()
    }
}

pub(crate) fn pattern(salt: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::from_seed(salt);
    (0..length).map(|_| prng.next_u64() as u8).collect()
}

/// Where a write begins in a volume of `length_bytes`, and its bytes: of all sizes, and zeros among
/// them.
pub(crate) fn drawn_write(prng: &mut Prng, length_bytes: usize) -> (usize, Vec<u8>) {
    let length = [4_096, 12_288, CHUNK as usize][prng.below(3) as usize].min(length_bytes);
    let at = prng.below((length_bytes - length) as u64 / 4_096 + 1) as usize * 4_096;
    let bytes = match prng.below(5) {
        0 => vec![0; length],
        _ => pattern(prng.next_u64(), length),
    };
    (at, bytes)
}

/// Writes of a volume of 8 MiB in chunks of 64 KiB.
pub(crate) fn writing(take_over: bool) -> Access {
    writing_of(PageFormat::Plain, take_over)
}

/// The same of a volume with pages in another format.
pub(crate) fn writing_of(pages: PageFormat, take_over: bool) -> Access {
    let manifest = Manifest::new(7, 8 * MIB, CHUNK as u32).unwrap();
    Access::Write(Writing {
        writer: fresh_number().unwrap(),
        who: "host test".into(),
        create: Some(manifest.with_pages(pages)),
        take_over,
    })
}
