//! The volume of the tests, and what is written to it.

#![allow(dead_code, reason = "each test file uses a part")]

use forebay_base::Prng;
use forebay_rt::fresh_number;
use forebay_volume::{Access, Manifest, PageFormat, Writing};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const CHUNK: u64 = 64 << 10;

pub(crate) fn pattern(salt: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::from_seed(salt);
    (0..length).map(|_| prng.next_u64() as u8).collect()
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
