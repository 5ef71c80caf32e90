//! What a batch of reclaim is said to have met, and what becomes of its pages.

use super::*;
use crate::cache::Cache;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::file::File;
use crate::flow::reclaim::Today;
use crate::lists::List;
use forebay_base::PAGE_BYTES;
use forebay_law::scan::TOP_PRIORITY;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

const PAGES: u64 = 20;

/// Runs `test` on a cache of 4 MiB with a file of 20 pages.
fn with_file<F: Future<Output = ()>>(test: impl FnOnce(Cache, File) -> F) {
    let world = Virtual::new(VirtualSettings::default());
    let cache = Cache::small(&world.rt(), 4);
    let store = cache.attach(Arc::new(MemoryStore::new()));
    let store = store.expect("the store is well");
    cache
        .set_swap(&store, ObjectId(9), 4 << 20)
        .expect("there is room for swap");
    let file = cache.open(&store, ObjectId(1), PAGES * PAGE_BYTES as u64);
    world.run(test(cache, file.expect("a new object opens")));
}

fn control<'a>(who: Who) -> ScanControl<'a> {
    ScanControl::new(who, TOP_PRIORITY)
}

/// Judges the pages of a list `rounds` times, and returns what was met and how many were submitted.
fn judged(engine: &Engine, list: List, rounds: u32, control: &mut ScanControl<'_>) -> (Tally, u64) {
    let zone = &engine.memory.zones[0];
    let (mut met, mut paged_out) = (Tally::default(), 0);
    for _ in 0..rounds {
        let batch = engine.memory.isolate(zone, list, PAGES);
        let judged = engine
            .reclaim
            .judge_batch(&Today(&engine.reclaim), &batch, control);
        met.immediate += judged.tally.immediate;
        met.gate_closed += judged.tally.gate_closed;
        met.paged_out += judged.tally.paged_out;
        paged_out += judged.paged_out;
        assert!(judged.freed.is_empty(), "nothing is clean");
        batch.put_back(&judged.kept);
    }
    (met, paged_out)
}

/// A reclaimer waits for room in the queue of swap after a batch that wrote to it, and the pages
/// that it wrote count towards the price of their list.
#[test]
fn each_page_that_goes_to_swap_is_counted() {
    with_file(|cache, _file| async move {
        let memory = cache.anonymous(1 << 20).expect("swap is set");
        let bytes = vec![1; PAGES as usize * PAGE_BYTES];
        memory.write_at(&bytes, 0).await.expect("memory takes it");
        let engine = &memory.handle.engine;
        let (met, paged_out) = judged(engine, List::InactiveAnon, 2, &mut control(Who::Direct));
        assert_eq!((met.paged_out, paged_out), (PAGES, PAGES));
        let written = cache.statistics().get(Counter::NrVmscanWrite);
        assert_eq!(written, PAGES);
    });
}

/// Spec/reclaim.md 3.1: kswapd waits for pages that it meets under writeback again, if all that
/// reclaim meets is like them.
#[test]
fn kswapd_alone_waits_for_pages_that_it_met_before_and_only_if_all_are_like_them() {
    let cases = [
        (Who::Kswapd, true, true, PAGES),
        (Who::Kswapd, true, false, 0),
        (Who::Kswapd, false, true, 0),
        (Who::Direct, true, true, 0),
    ];
    for case in cases {
        with_file(|_cache, file| async move {
            let (who, is_met_before, all_are_like_it, expected) = case;
            let mut bytes = vec![0; PAGES as usize * PAGE_BYTES];
            let read = file.read_at(&mut bytes, 0).await;
            assert_eq!(read, Ok(bytes.len()));
            let engine = &file.handle.engine;
            let memory = &engine.memory;
            let flags = &memory.nodes[0].flags.writeback;
            flags.store(all_are_like_it, Ordering::Relaxed);
            let met = if is_met_before { flag::RECLAIM } else { 0 };
            let (zone, list) = (&memory.zones[0], List::InactiveFile);
            let batch = memory.isolate(zone, list, PAGES);
            assert_eq!(batch.frames.len() as u64, PAGES);
            for &frame in batch.frames.as_slice() {
                memory.frames.set(frame, flag::WRITEBACK | met);
            }
            let judged =
                engine
                    .reclaim
                    .judge_batch(&Today(&engine.reclaim), &batch, &mut control(who));
            assert_eq!(judged.tally.immediate, expected, "{case:?}");
            for &frame in batch.frames.as_slice() {
                memory.frames.clear(frame, flag::WRITEBACK | flag::RECLAIM);
            }
            batch.put_back(&judged.kept);
        });
    }
}
