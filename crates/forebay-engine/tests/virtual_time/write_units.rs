//! Stores that do better with large and whole writes say so, and are written to accordingly.

use crate::support::{Bench, OfSize, PAGE, simulate, write_pages};
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_engine::Settings;
use forebay_engine::settings::DirtyKnobs;
use forebay_store::{Geometry, Io, IoKind, MemoryStore, ObjectId, Rate, RateStore, Store};
use std::ops::Range;
use std::sync::Arc;

/// Memory that notes which pages of which object are written together.
struct Notes {
    memory: Arc<MemoryStore>,
    writes: Mutex<Vec<(u64, Range<u64>)>>,
}

impl Store for Notes {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        if request.kind == IoKind::Write {
            let first = request.offset_bytes / PAGE as u64;
            let pages = first..first + io.page_count() as u64;
            lock(&self.writes).push((request.object.0, pages));
        }
        self.memory.submit(io);
    }
}

/// The runs of pages that the flusher writes, in order, when the pages of `runs` in each of
/// `objects` are dirty. The store has these units, and requests of at most this many pages.
fn flushed(
    write_unit_pages: u32,
    max_io_pages: u32,
    objects: u64,
    runs: &[Range<u64>],
) -> Vec<(u64, Range<u64>)> {
    let geometry = Geometry {
        write_unit_pages,
        max_io_pages,
        ..MemoryStore::new().geometry()
    };
    let memory = Arc::new(MemoryStore::with(geometry));
    let notes = Arc::new(Notes {
        memory: memory.clone(),
        writes: Mutex::default(),
    });
    let (seen, attached) = (notes.clone(), notes.clone());
    simulate(1, |rt| async move {
        let bench = Bench::around(rt, Settings::of_mib(128), memory, attached);
        for object in 1..=objects {
            let file = bench.open_object(ObjectId(object), 0);
            for page in runs.iter().cloned().flatten() {
                let bytes = [object as u8; PAGE];
                assert_eq!(file.write_at(&bytes, page * PAGE as u64).await, Ok(()));
            }
        }
        assert_eq!(lock(&seen.writes).len(), 0, "they are not old enough");
        bench.rt.sleep(Span::from_secs(60)).await;
        assert_eq!(bench.cache.statistics().dirty(), 0);
        bench.assert_consistent();
    });
    let writes = lock(&notes.writes).clone();
    let sum: u64 = writes.iter().map(|(_, run)| run.end - run.start).sum();
    let asked: u64 = runs.iter().map(|run| run.end - run.start).sum();
    assert_eq!(sum, objects * asked, "each page is written once");
    writes
}

/// A list of one run.
fn one(run: Range<u64>) -> [Range<u64>; 1] {
    [run]
}

fn of_first_object(writes: Vec<(u64, Range<u64>)>) -> Vec<Range<u64>> {
    let first = writes.into_iter().filter(|(object, _)| *object == 1);
    first.map(|(_, run)| run).collect()
}

/// Pages of each turn: consecutive writes of one object.
fn turns(writes: &[(u64, Range<u64>)]) -> Vec<(u64, u64)> {
    let chunks = writes.chunk_by(|(before, _), (object, _)| before == object);
    let turn = |chunk: &[(u64, Range<u64>)]| {
        let pages = chunk.iter().map(|(_, run)| run.end - run.start);
        (chunk[0].0, pages.sum())
    };
    chunks.map(turn).collect()
}

#[test]
fn long_runs_are_cut_where_units_end() {
    let runs = of_first_object(flushed(64, 100, 1, &one(10..300)));
    assert_eq!(runs, [10..64, 64..128, 128..192, 192..256, 256..300]);
    let runs = of_first_object(flushed(64, 256, 1, &one(10..500)));
    assert_eq!(runs, [10..256, 256..500]);
    let runs = of_first_object(flushed(1, 100, 1, &one(10..300)));
    assert_eq!(runs, [10..110, 110..210, 210..300]);
}

#[test]
fn a_unit_that_is_longer_than_a_request_is_cut_inside_and_at_its_end() {
    let runs = of_first_object(flushed(600, 256, 1, &one(0..1000)));
    assert_eq!(runs, [0..256, 256..512, 512..600, 600..856, 856..1000]);
}

#[test]
fn a_turn_of_the_flusher_ends_with_a_unit() {
    let plain = turns(&flushed(1, 256, 2, &one(0..1500)));
    assert_eq!(plain, [(1, 1024), (2, 1024), (1, 476), (2, 476)]);
    let in_units = turns(&flushed(600, 256, 2, &one(0..1500)));
    assert_eq!(in_units, [(1, 1200), (2, 1200), (1, 300), (2, 300)]);
    // Also if the rest of it is not adjacent.
    let with_gap = turns(&flushed(600, 256, 2, &[0..1024, 1100..1500]));
    assert_eq!(with_gap, [(1, 1124), (2, 1124), (1, 300), (2, 300)]);
}

#[test]
fn a_store_of_whole_objects_gets_each_in_one_turn() {
    let whole = turns(&flushed(Geometry::WHOLE_OBJECTS, 256, 2, &one(0..1500)));
    assert_eq!(whole, [(1, 1500), (2, 1500)]);
}

/// A turn goes on where the object's last one ended. So a head that is rewritten again and again,
/// and that takes more than a turn, does not keep the tail from being written.
#[test]
fn the_tail_of_a_file_is_written_while_its_head_is_rewritten() {
    const HEAD: Range<u64> = 0..2_000;
    const TAIL: Range<u64> = 3_000..3_010;
    const PAGES_PER_S: u64 = 1_024;
    simulate(1, |rt| async move {
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_bytes: 48 << 20,
                background_bytes: 1 << 20,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(64)
        };
        let memory = Arc::new(MemoryStore::new());
        let rate = Rate::bytes(PAGES_PER_S * PAGE as u64);
        let slow = Arc::new(RateStore::new(rt.clone(), memory.clone(), rate));
        let bench = Bench::around(rt, settings, memory, slow);
        let file = bench.open(0);
        let rewrite = async || {
            write_pages(&file, HEAD).await.expect("memory takes it");
            bench.rt.sleep(Span::from_millis(100)).await;
        };
        // Until the store's rate is known, a turn submits more than the store writes in its time.
        while bench.rt.now().as_millis() < 5_000 {
            rewrite().await;
        }
        write_pages(&file, TAIL).await.expect("memory takes it");
        let began = bench.rt.now();
        while !bench.has_stored(TAIL) {
            // The store writes head and tail once in 2 s, and a turn is a second.
            assert!(bench.rt.now().since(began) < Span::from_secs(6));
            rewrite().await;
        }
        bench.assert_consistent();
    });
}
