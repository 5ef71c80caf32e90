//! What threads do with a file, and what they find.

use crate::PAGE;
use crate::store::BesideStore;
use crate::versions::{Versions, stamped, version_of};
use forebay_base::Prng;
use forebay_engine::blocking::File;
use forebay_store::ObjectId;

/// Writes `count` of this writer's pages, which are those whose number modulo `writers` is
/// `writer`.
pub(crate) fn write(
    file: &File,
    versions: &Versions,
    (writer, writers): (u64, u64),
    count: u64,
    chance: &mut Prng,
) {
    let pages = file.len() / PAGE as u64;
    for _ in 0..count {
        let page = chance.below(pages / writers) * writers + writer;
        let version = versions.begin(page);
        file.write_at(&stamped(page, version), page * PAGE as u64)
            .expect("the store is well");
        versions.note_returned(page, version);
    }
}

/// Reads `count` pages, or holds them, and checks that none is torn, misplaced or stale.
pub(crate) fn read(file: &File, versions: &Versions, count: u64, chance: &mut Prng) {
    let pages = file.len() / PAGE as u64;
    let mut bytes = vec![0; PAGE];
    for _ in 0..count {
        let page = chance.below(pages);
        let least = versions.returned(page);
        let version = if chance.chance(1, 3) {
            let guard = file.page(page).expect("the store is well");
            version_of(page, &guard)
        } else {
            let read = file.read_at(&mut bytes, page * PAGE as u64);
            assert_eq!(read, Ok(PAGE));
            version_of(page, &bytes)
        };
        let most = versions.begun(page);
        assert!((least..=most).contains(&version), "page {page} is stale");
    }
}

/// Syncs, and checks that every write that had returned before is durable.
pub(crate) fn sync(file: &File, versions: &Versions, store: &BesideStore, object: ObjectId) {
    let pages = file.len() / PAGE as u64;
    let least: Vec<u64> = (0..pages).map(|page| versions.returned(page)).collect();
    file.sync().expect("the store is well");
    let durable = store.durable(object);
    for (page, (bytes, least)) in (0..).zip(durable.chunks(PAGE).zip(least)) {
        let version = version_of(page, bytes);
        assert!(
            version >= least,
            "page {page} is not durable: {version} of {least}"
        );
    }
}
