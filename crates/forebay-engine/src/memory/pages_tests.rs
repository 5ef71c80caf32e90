//! Which pages of an object are visited, and which go to the old end of their list.

use super::*;
use crate::cache::Cache;
use crate::file::{Advice, File};
use crate::lists::List;
use forebay_base::PAGE_BYTES;
use forebay_base::units::byte_of;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

/// Runs `test` on a cache of 4 MiB, which has 1,024 frames, and two files of a million pages.
fn with_files<F: Future<Output = ()>>(test: impl FnOnce([File; 2]) -> F) {
    let world = Virtual::new(VirtualSettings::default());
    let cache = Cache::small(&world.rt(), 4);
    let store = cache.attach(Arc::new(MemoryStore::new()));
    let store = store.expect("the store is well");
    let files = [1, 2].map(|number| {
        let file = cache.open(&store, ObjectId(number), byte_of(1_000_000));
        file.expect("a new object opens")
    });
    world.run(test(files));
}

/// Reads `pages` of `file`, and no others.
async fn read(file: &File, pages: &[u64]) {
    let all = 0..byte_of(1_000_000);
    let advised = file.advise(Advice::Random, all).await;
    advised.expect("it is heard");
    for &page in pages {
        let read = file.read_at(&mut [0; PAGE_BYTES], byte_of(page)).await;
        assert_eq!(read, Ok(PAGE_BYTES));
    }
}

fn visited(file: &File, pages: Range<u64>) -> Vec<u64> {
    let memory = &file.handle.engine.memory;
    let visited = memory.pages_to_visit(&file.handle.object, pages);
    let mut visited: Vec<u64> = visited.collect();
    visited.sort_unstable();
    visited
}

/// A walk over the frames meets the pages of all objects, and visits those of one.
#[test]
fn of_an_object_whose_pages_are_far_apart_its_own_are_visited() {
    with_files(|[file, other]| async move {
        read(&other, &[2, 500_000]).await;
        read(&file, &[1, 400_000, 900_000]).await;
        assert_eq!(visited(&file, 0..u64::MAX), [1, 400_000, 900_000]);
        assert_eq!(visited(&file, 2..900_000), [400_000]);
    });
}

/// Spec/reclaim.md 3.6: a page that reclaim marked is the next to go once it is written.
#[test]
fn a_marked_page_goes_to_the_old_end_unless_it_is_dirty_again() {
    with_files(|[file, _other]| async move {
        read(&file, &[0, 1, 2, 3]).await;
        let memory = &file.handle.engine.memory;
        let key_of = |page| key(file.handle.object.number, page);
        let [clean, dirty] = [2, 3].map(|page| memory.find_surely(key_of(page)).expect("there"));
        assert!(!memory.rotate_reclaimable(clean), "nobody marked it");
        memory.frames.set(clean, flag::RECLAIM);
        assert!(memory.rotate_reclaimable(clean));
        memory.frames.set(dirty, flag::RECLAIM | flag::DIRTY);
        assert!(!memory.rotate_reclaimable(dirty));
        memory.frames.clear(dirty, flag::DIRTY);
        for frame in [clean, dirty] {
            assert_eq!(memory.frames.word(frame) & flag::RECLAIM, 0);
        }
        let oldest = memory.isolate(memory.zone_of(clean), List::InactiveFile, 1);
        assert_eq!(oldest.frames.as_slice(), [clean]);
    });
}
