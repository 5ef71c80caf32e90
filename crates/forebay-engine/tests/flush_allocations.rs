//! Writing back allocates nothing: if memory is short because it is dirty, the way out must not
//! need more of it.
//!
//! A program of its own, because its allocator counts the requests of every thread.

#[path = "../../forebay-store/tests/support/allocator.rs"]
mod allocator;

use allocator::ALLOCATIONS;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::blocking::File;
use forebay_engine::{Cache, Counter, Settings};
use forebay_store::{FileStore, FileStoreSettings, Method, OpenMode};
use std::path::Path;

/// Three quarters of the cache. All of these pages stay resident, and they are far more than may be
/// dirty, so in every round the flusher writes and the writer pauses.
const PAGES: u64 = 1_500;

/// Overwrites every page, in runs of one to sixty-four, and syncs first a range and then all.
fn round(file: &File, bytes: &[u8; 4096]) {
    let mut at = 0;
    let mut run = 1;
    for half in 0..2 {
        // Every other run first, so that the dirty runs are not neighbours.
        let mut number = 0;
        while at < PAGES {
            let end = PAGES.min(at + run);
            while at < end {
                if number % 2 == half {
                    file.write_at(bytes, at * 4096).expect("the disk is well");
                }
                at += 1;
            }
            (number, run) = (number + 1, run % 64 + 1);
        }
        (at, run) = (0, 1);
    }
    file.sync_range(0..64 * 4096).expect("the disk is well");
    file.sync().expect("the disk is well");
}

/// The allocations of eight rounds on the store of `method`, after enough rounds to have started
/// every thread and grown every queue to its full length.
fn allocations_of_rounds(folder: &Path, method: Method) -> Vec<u64> {
    let settings = Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("the settings are good");
    let files = FileStore::new(FileStoreSettings {
        method,
        ..FileStoreSettings::default()
    });
    let files = files.expect("the settings are good");
    let length_bytes = Some(PAGES * 4096);
    let image = folder.join(format!("{method:?}"));
    let opened = files
        .open(&image, OpenMode::Create { length_bytes })
        .expect("there is room");
    let store = cache.attach(files).expect("a store is attached");
    let file = cache
        .open(&store, opened.object, opened.length_bytes)
        .expect("the image opens")
        .blocking();
    let bytes = [7; 4096];
    for _ in 0..4 {
        round(&file, &bytes);
    }
    let counted = |_| {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        round(&file, &bytes);
        ALLOCATIONS.load(Ordering::SeqCst) - before
    };
    let rounds = (0..8).map(counted).collect();
    let statistics = cache.statistics();
    assert!(statistics.get(Counter::BalancePauses) > 0, "nobody paused");
    assert!(statistics.get(Counter::NrWritten) >= 12 * PAGES);
    rounds
}

#[test]
fn writing_back_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for method in [Method::Auto, Method::Positioned] {
        let rounds = allocations_of_rounds(folder.path(), method);
        assert_eq!(rounds, [0; 8], "{method:?}");
    }
}
