//! Guards that are taken without waiting, on pages that are being given up.

use crate::cache::Cache;
use crate::file::File;
use crate::settings::{Parts, Settings};
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{Fault, FaultAction, FaultStore, IoKind, MemoryStore, ObjectId};
use std::sync::Arc;

/// A file of ten dirty pages in front of a store that answers no request of the kind `silent`.
async fn file_before(rt: &Rt, silent: IoKind) -> (Cache, File, Arc<FaultStore>) {
    let settings = Settings {
        memory_bytes: 8 << 20,
        prefault: false,
        ..Settings::default()
    };
    let parts = Parts {
        rt: rt.clone(),
        sink: None,
    };
    let cache = Cache::with_parts(settings, parts).expect("the settings are good");
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
