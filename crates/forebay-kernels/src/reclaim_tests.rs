//! What a batch of reclaim meets under older kernels, and what becomes of its pages.

use crate::doors::FlowsOfPolicy;
use crate::fixtures::{Bare, flows, preset, small};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::engine::Engine;
use forebay_engine::lab::LabCache;
use forebay_engine::lists::List;
use forebay_engine::settings::Parts;
use forebay_engine::state::batch::Batch;
use forebay_engine::state::frame::flag;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::tally::Tally;
use forebay_engine::{Cache, Counter, File};
use forebay_law::scan::TOP_PRIORITY;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

const PAGES: u64 = 20;

/// Runs `test` on a cache of 4 MiB under the preset `name`, with a file of 20 pages.
fn with_file<F: Future<Output = ()>>(
    name: &str,
    test: impl FnOnce(Cache, File, FlowsOfPolicy) -> F,
) {
    let world = Virtual::new(VirtualSettings::default());
    let parts = Parts {
        rt: world.rt(),
        sink: None,
    };
    let policy = preset(name);
    let cache = Cache::of_kernel(small(), parts, policy.kernel()).expect("the settings are good");
    let store = cache.attach(Arc::new(MemoryStore::new()));
    let store = store.expect("the store is well");
    cache
        .set_swap(&store, ObjectId(9), 4 << 20)
        .expect("there is room for swap");
    let file = cache.open(&store, ObjectId(1), PAGES * PAGE_BYTES as u64);
    let file = file.expect("a new object opens");
    world.run(test(cache, file, flows(policy)));
}

/// Judges the pages of a list twice, and returns what was met and how many were submitted.
fn judged(
    engine: &Engine,
    flows: &FlowsOfPolicy,
    list: List,
    control: &mut ScanControl<'_>,
) -> (Tally, u64) {
    let (mut met, mut paged_out) = (Tally::default(), 0);
    for _ in 0..2 {
        let batch = engine.memory.isolate(&engine.memory.zones[0], list, PAGES);
        let steps = flows.older(&engine.reclaim);
        let judged = engine.reclaim.judge_batch(&steps, &batch, control);
        met.add(judged.tally);
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
    for name in ["linux-6.16", "forebay"] {
        with_file(name, |cache, _file, flows| async move {
            let memory = cache.anonymous(1 << 20).expect("swap is set");
            let bytes = vec![1; PAGES as usize * PAGE_BYTES];
            memory.write_at(&bytes, 0).await.expect("memory takes it");
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            let (met, paged_out) = judged(cache.engine(), &flows, List::InactiveAnon, &mut control);
            assert_eq!((met.paged_out, paged_out), (PAGES, PAGES), "{name}");
            let written = cache.statistics().get(Counter::NrVmscanWrite);
            assert_eq!(written, PAGES, "{name}");
        });
    }
}

/// Spec/reclaim.md 3.3: before 3.11 a caller does not write to a congested store, unless it is the
/// one to which it is writing anyway. Kswapd always writes.
#[test]
fn a_caller_writes_to_no_congested_store_except_its_own() {
    let cases = [
        (Who::Direct, None, false),
        (Who::Direct, Some(1), false),
        (Who::Direct, Some(0), true),
        (Who::Kswapd, None, true),
    ];
    for (who, own_store, writes) in cases {
        with_file("linux-3.0", |cache, file, flows| async move {
            let bytes = vec![1; PAGES as usize * PAGE_BYTES];
            file.write_at(&bytes, 0).await.expect("memory takes it");
            let engine = cache.engine();
            let backing = engine.dirty.stores.get(0);
            engine
                .reclaim
                .congestion
                .note(&backing.older.congested, true);
            let mut control = ScanControl::new(who, TOP_PRIORITY);
            control.own_store = own_store;
            let (met, paged_out) = judged(engine, &flows, List::InactiveFile, &mut control);
            let asked = cache.statistics().get(Counter::NrVmscanWriteFile);
            assert_eq!(paged_out, asked, "{who:?} {own_store:?}");
            let (wanted, closed) = if writes { (PAGES, 0) } else { (0, PAGES) };
            assert_eq!(asked, wanted, "{who:?} {own_store:?}");
            assert!(met.gate_closed >= closed && (closed > 0 || met.gate_closed == 0));
            engine
                .reclaim
                .congestion
                .note(&backing.older.congested, false);
        });
    }
}

/// Spec/reclaim.md 3.1: kswapd waits for pages that it meets under writeback again, if all that
/// reclaim meets is like them. It has done so since 3.11.
#[test]
fn kswapd_alone_waits_for_pages_that_it_met_before_and_only_if_all_are_like_them() {
    let cases = [
        (Who::Kswapd, true, true, PAGES),
        (Who::Kswapd, true, false, 0),
        (Who::Kswapd, false, true, 0),
        (Who::Direct, true, true, 0),
    ];
    for (name, case) in ["linux-4.11", "linux-6.16", "forebay"]
        .into_iter()
        .flat_map(|name| cases.map(|case| (name, case)))
    {
        with_file(name, |cache, file, flows| async move {
            let (who, is_met_before, all_are_like_it, expected) = case;
            let mut bytes = vec![0; PAGES as usize * PAGE_BYTES];
            let read = file.read_at(&mut bytes, 0).await;
            assert_eq!(read, Ok(bytes.len()));
            let engine = cache.engine();
            let memory = &engine.memory;
            let flags = &memory.nodes[0].flags.writeback;
            flags.store(all_are_like_it, Ordering::Relaxed);
            let met = if is_met_before { flag::RECLAIM } else { 0 };
            let batch = memory.isolate(&memory.zones[0], List::InactiveFile, PAGES);
            assert_eq!(batch.frames.as_slice().len() as u64, PAGES, "{name}");
            for &frame in batch.frames.as_slice() {
                memory.frames.set(frame, flag::WRITEBACK | met);
            }
            let mut control = ScanControl::new(who, TOP_PRIORITY);
            let steps = flows.older(&engine.reclaim);
            let judged = engine.reclaim.judge_batch(&steps, &batch, &mut control);
            assert_eq!(judged.tally.immediate, expected, "{name} {case:?}");
            for &frame in batch.frames.as_slice() {
                memory.frames.clear(frame, flag::WRITEBACK | flag::RECLAIM);
            }
            batch.put_back(&judged.kept);
        });
    }
}

/// A kswapd that has given up ages nothing, so a caller that reclaims for itself has to. Up to 5.8
/// new anonymous pages were active.
#[test]
fn a_pass_of_a_caller_ages_active_memory_though_none_is_inactive() {
    with_file("linux-4.11", |cache, _file, flows| async move {
        let memory = cache.anonymous(1 << 20).expect("swap is set");
        let bytes = vec![1; 100 * PAGE_BYTES];
        memory.write_at(&bytes, 0).await.expect("memory takes it");
        let engine = cache.engine();
        let zone = &engine.memory.zones[0];
        let lists = engine.memory.lists.of(zone.number);
        let before = lists.sizes();
        assert_eq!((before.inactive_anon, before.active_anon), (0, 100));
        let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
        let steps = flows.older(&engine.reclaim);
        engine.reclaim.shrink_zone(&steps, zone, &mut control).await;
        assert_eq!(lists.sizes().inactive_anon, Batch::LIMIT as u64);
    });
}

/// Spec/reclaim.md 2.5: the lists are in balance, and pages came back that were evicted too early.
#[test]
fn from_4_12_on_refaults_open_the_active_file_list() {
    for (name, opens) in [
        ("linux-3.3", false),
        ("linux-4.11", false),
        ("linux-4.11+keepawake", false),
        ("linux-5.15", true),
        ("linux-6.16", true),
        ("forebay", false),
    ] {
        let engine = Bare::under(preset(name), small()).engine;
        let control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
        let may_deactivate = || {
            engine
                .pages
                .scan_inputs(&engine.memory.zones[0], &control)
                .may_deactivate_file
        };
        assert!(!may_deactivate(), "{name}: no page has come back");
        engine.memory.nodes[0].note_refault(true);
        assert_eq!(may_deactivate(), opens, "{name}");
        engine.memory.nodes[0].note_refaults();
        assert!(!may_deactivate(), "{name}: none since the last run");
    }
}
