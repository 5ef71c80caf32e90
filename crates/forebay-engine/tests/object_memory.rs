//! The memory that an object takes beside its pages.
//!
//! A program of its own, because its allocator counts the requests of every thread.

#[path = "../../forebay-store/tests/support/allocator.rs"]
mod allocator;

use allocator::BYTES;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::settings::PageMemory;
use forebay_engine::{AttachedStore, Cache, File, Settings};
use forebay_store::{MemoryStore, ObjectId};
use std::ops::Range;
use std::sync::Arc;

/// Opens `objects`, each with one handle, writes to them if `is_dirty`, and compares the memory
/// that this took with what the cache reports.
fn compare(cache: &Cache, store: &AttachedStore, objects: Range<u64>, is_dirty: bool) {
    let count = objects.end - objects.start;
    let mut files: Vec<File> = Vec::with_capacity(count as usize);
    let (bytes, reported) = (&BYTES, || cache.statistics().object_bytes);
    let (bytes_before, reported_before) = (bytes.load(Ordering::Relaxed), reported());
    for object in objects {
        let file = cache
            .open(store, ObjectId(object), 0)
            .expect("there is room");
        if is_dirty {
            let written = forebay_rt::block_on(file.write_at(&[1; 100], 0));
            written.expect("there is a frame");
        }
        files.push(file);
    }
    let taken = (bytes.load(Ordering::Relaxed) - bytes_before) / count;
    let counted = (reported() - reported_before) / count;
    assert!(
        taken <= counted,
        "{taken} bytes each, of which {counted} count"
    );
    assert!(
        counted * 8 <= taken * 9,
        "{taken} bytes each, and {counted} count"
    );
    drop(files);
    assert_eq!(
        reported() - reported_before,
        count * counted,
        "they are remembered"
    );
}

#[test]
fn what_counts_for_an_object_is_what_it_takes() {
    let settings = Settings {
        memory_bytes: 1 << 30,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("the settings are good");
    let store = cache.attach(Arc::new(MemoryStore::new()));
    let store = store.expect("a store is attached");
    compare(&cache, &store, 0..1_000, false);
    compare(&cache, &store, 10_000..20_000, false);
    compare(&cache, &store, 20_000..25_000, true);
}
