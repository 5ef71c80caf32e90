//! Guards that are had at once, of pages that are being given up; reads that are had in part.

use crate::cache::Cache;
use crate::file::{Advice, File};
use crate::lab::LabFile;
use crate::settings::Settings;
use crate::state::frame::flag;
use crate::state::index::key;
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{Fault, FaultAction, FaultStore, IoKind, MemoryStore, ObjectId};
use std::io::IoSliceMut;
use std::sync::Arc;

/// A file of ten dirty pages in front of a store that answers no request of the kind `silent`.
async fn file_before(rt: &Rt, silent: IoKind) -> (Cache, File, Arc<FaultStore>) {
    let cache = Cache::small(rt, 8);
    let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(MemoryStore::new())));
    faults.inject(Fault::each(silent, FaultAction::NeverAnswer));
    let store = cache.attach(faults.clone()).expect("a store is attached");
    let file = cache.open(&store, ObjectId(1), 0).expect("it opens");
    let bytes = vec![7; 10 * PAGE_BYTES];
    file.write_at(&bytes, 0).await.expect("memory takes it");
    (cache, file, faults)
}

fn simulate<F: Future<Output = ()>>(test: impl FnOnce(Rt) -> F) {
    let world = Virtual::new(VirtualSettings::default());
    world.run(test(world.rt()));
}

fn at(page: u64) -> u64 {
    page * PAGE_BYTES as u64
}

/// The pages that can be held at once.
fn at_hand(file: &File) -> Vec<u64> {
    let is_at_hand = |page: &u64| file.try_page(*page).is_some();
    (0..12).filter(is_at_hand).collect()
}

#[test]
fn no_page_is_at_hand_that_is_being_discarded() {
    simulate(|rt| async move {
        let (_cache, file, faults) = file_before(&rt, IoKind::Discard).await;
        let giver = file.clone();
        let giving = rt.spawn("giver", async move {
            assert_eq!(giver.discard(at(3)..at(8)).await, Ok(()));
        });
        rt.sleep(Span::from_millis(10)).await;
        assert_eq!(at_hand(&file), [0, 1, 2, 8, 9]);
        faults.release();
        giving.join().await;
        assert_eq!(at_hand(&file), [0, 1, 2, 8, 9], "the others are given up");
    });
}

#[test]
fn no_page_is_at_hand_that_is_being_cut() {
    simulate(|rt| async move {
        let (_cache, file, faults) = file_before(&rt, IoKind::SetLength).await;
        let cutter = file.clone();
        let cutting = rt.spawn("cutter", async move {
            assert_eq!(cutter.truncate(at(3) + 100).await, Ok(()));
        });
        rt.sleep(Span::from_millis(10)).await;
        assert_eq!(at_hand(&file), [0, 1, 2]);
        faults.release();
        cutting.join().await;
        assert_eq!(at_hand(&file), [0, 1, 2, 3]);
        let last = file.try_page(3).expect("it is at hand");
        assert!(last[100..].iter().all(|&byte| byte == 0));
    });
}

/// The cost of a walk over a range depends on the resident pages and not on its length:
/// invariants X3 and O3 are there for this.
#[test]
fn a_long_object_with_few_pages_is_walked_in_few_steps() {
    simulate(|rt| async move {
        let (_cache, file, faults) = file_before(&rt, IoKind::Discard).await;
        faults.clear();
        let engine = &file.handle.engine;
        let steps = |length| {
            let walk = engine.memory.pages_to_visit(&file.handle.object, 0..length);
            walk.inspect(|&page| assert!(page < length)).count()
        };
        for length in [1_000, 2_000, 100_000, 1 << 40] {
            assert_eq!(steps(length), 10, "{length} pages");
        }
        assert_eq!(steps(5), 5);
        // As if a page far away had come and gone.
        file.handle.object.note_page((1 << 40) - 1);
        for length in [1_000, 2_000, 100_000] {
            assert!((10..=512).contains(&steps(length)), "{length} pages");
        }
        assert_eq!(steps(1 << 40), 10, "a walk over the frames");
        file.truncate(0).await.expect("the store is well");
        assert_eq!([5, 1_000, 100_000, 1 << 40].map(steps), [0; 4]);
    });
}

/// Touched twice a page goes to the active list, where the pages of a reader in order have no
/// place.
#[test]
fn a_blocking_read_that_misses_halfway_touches_each_page_once() {
    for is_vectored in [false, true] {
        let settings = Settings {
            memory_bytes: 8 << 20,
            prefault: false,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        let memory = MemoryStore::new();
        let bytes: Vec<u8> = (0..20).flat_map(|page| [page; PAGE_BYTES]).collect();
        memory.fill(ObjectId(1), &bytes);
        let store = cache.attach(Arc::new(memory)).expect("a store is attached");
        let opened = cache.open(&store, ObjectId(1), at(20));
        let file = opened.expect("it opens").blocking();
        file.advise(Advice::Random, 0..at(20)).expect("it is heard");
        let mut read = vec![0; 20 * PAGE_BYTES];
        let (first, rest) = read.split_at_mut(10 * PAGE_BYTES);
        assert_eq!(file.read_at(first, 0), Ok(10 * PAGE_BYTES));
        let read_bytes = if is_vectored {
            let (middle, last) = rest.split_at_mut(3 * PAGE_BYTES);
            let buffers = [first, middle, last].map(IoSliceMut::new);
            file.read_vectored_at(&mut { buffers }, 0)
        } else {
            file.read_at(&mut read, 0)
        };
        assert_eq!(read_bytes, Ok(20 * PAGE_BYTES));
        assert!(read == bytes);
        let inner = file.as_async();
        let memory = &inner.handle.engine.memory;
        let again = |page| {
            let key = key(inner.handle.object.number, page);
            let frame = memory.find_surely(key).expect("it was read just now");
            memory.frames.word(frame) & flag::TOUCHED_AGAIN
        };
        let touched: Vec<u64> = (0..20).map(again).collect();
        let expected = [[flag::PROMOTE; 10], [0; 10]].concat();
        assert_eq!(touched, expected, "vectored: {is_vectored}");
    }
}

#[test]
fn a_vectored_reader_in_order_misses_only_its_first_page() {
    simulate(|rt| async move {
        let cache = Cache::small(&rt, 8);
        let memory = MemoryStore::new();
        memory.fill(ObjectId(1), &vec![7; 200 * PAGE_BYTES]);
        let store = cache.attach(Arc::new(memory)).expect("a store is attached");
        let file = cache.open(&store, ObjectId(1), at(200)).expect("it opens");
        let mut missed = Vec::new();
        for page in 0..200 {
            let mut bytes = vec![0; PAGE_BYTES];
            let buffers = &mut [IoSliceMut::new(&mut bytes)];
            // As the blocking face does it.
            if let Err(begun) = file.try_read_vectored(buffers, at(page)) {
                if begun == 0 {
                    missed.push(page);
                }
                let read = file.read_vectored_rest(buffers, at(page), begun).await;
                assert_eq!(read, Ok(PAGE_BYTES));
            }
            // What was read ahead comes in.
            rt.sleep(Span::from_millis(1)).await;
        }
        assert_eq!(missed, [0]);
    });
}

#[test]
fn starts_are_written_as_long_as_pages_are_dirty_and_free() {
    simulate(|rt| async move {
        let (_cache, file, _faults) = file_before(&rt, IoKind::Discard).await;
        assert_eq!(file.write_starts(b"word", 2..10), 8);
        let mut bytes = [0; 5];
        for (page, expected) in [
            (1, b"\x07\x07\x07\x07\x07"),
            (2, b"word\x07"),
            (9, b"word\x07"),
        ] {
            assert_eq!(file.read_at(&mut bytes, at(page)).await, Ok(5));
            assert_eq!(&bytes, expected, "page {page}");
        }
        // The tenth is not there.
        assert_eq!(file.write_starts(b"word", 8..12), 2);
        let held = file.page(4).await.expect("it is in memory");
        assert_eq!(file.write_starts(b"next", 2..10), 2);
        drop(held);
        assert_eq!(file.write_starts(b"none", 5..5), 0);
        let most = forebay_base::units::page_of(crate::state::index::LONGEST_BYTES);
        assert_eq!(file.write_starts(b"none", 2..most + 1), 0);
        assert_eq!(file.write_starts(&[1; PAGE_BYTES + 1], 2..10), 0);
        file.sync().await.expect("the store takes writes");
        assert_eq!(file.write_starts(b"none", 2..10), 0, "clean pages");
    });
}

#[test]
fn starts_wait_for_a_discard_by_not_being_written() {
    simulate(|rt| async move {
        let (_cache, file, faults) = file_before(&rt, IoKind::Discard).await;
        let giver = file.clone();
        let giving = rt.spawn("giver", async move {
            assert_eq!(giver.discard(at(3)..at(8)).await, Ok(()));
        });
        rt.sleep(Span::from_millis(10)).await;
        assert_eq!(file.write_starts(b"word", 0..3), 0);
        faults.release();
        giving.join().await;
        assert_eq!(file.write_starts(b"word", 0..10), 3);
    });
}
