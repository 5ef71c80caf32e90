//! What reclaim takes from the active lists.

use super::*;
use crate::cache::{AttachedStore, Cache};
use crate::settings::{NodeSettings, Parts, Settings, Watermarks, ZoneSettings};
use forebay_base::sync::atomic::Ordering;
use forebay_base::{PAGE_BYTES, Span};
use forebay_law::throttle::MAX_RECLAIM_RETRIES;
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

/// A cache of 4 MiB over a store in memory.
fn small_cache(rt: &Rt) -> (Cache, AttachedStore) {
    let cache = Cache::small(rt, 4);
    let store = cache
        .attach(Arc::new(MemoryStore::new()))
        .expect("the store is well");
    (cache, store)
}

/// Spec/reclaim.md 4.5: whoever frees a page of a hopeless node, its kswapd may be woken again.
#[test]
fn a_pass_that_frees_pages_gives_its_node_hope_again() {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    world.run(async move {
        let (cache, store) = small_cache(&rt);
        let file = cache
            .open(&store, ObjectId(1), 1 << 20)
            .expect("a new object opens");
        let mut bytes = vec![0; 200 * PAGE_BYTES];
        file.read_at(&mut bytes, 0)
            .await
            .expect("the store is well");
        let engine = &file.handle.engine;
        let node = &engine.memory.nodes[0];
        node.failures.store(MAX_RECLAIM_RETRIES, Ordering::Relaxed);
        let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
        while control.reclaimed == 0 {
            let failures = node.failures.load(Ordering::Relaxed);
            assert_eq!(failures, MAX_RECLAIM_RETRIES, "nothing is free yet");
            assert!(control.priority > 0, "there are clean pages");
            control.priority -= 1;
            engine
                .reclaim
                .shrink_node(
                    &Today(&engine.reclaim),
                    node,
                    node.top_class(),
                    &mut control,
                )
                .await;
        }
        assert_eq!(node.failures.load(Ordering::Relaxed), 0);
    });
}

/// Spec/reclaim.md 4.8: a kswapd that gave up goes on when a caller's reclaim has freed pages, also
/// if no other caller comes.
#[test]
fn a_caller_that_frees_pages_wakes_a_kswapd_that_gave_up() {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    world.run(async move {
        let zone = ZoneSettings {
            managed_pages: Some(1_024),
            marks: Some(Watermarks {
                min: 8,
                low: 100,
                high: 200,
            }),
            ..ZoneSettings::default()
        };
        let settings = Settings {
            nodes: vec![NodeSettings { zones: vec![zone] }],
            ..Settings::small(4)
        };
        let parts = Parts {
            rt: rt.clone(),
            sink: None,
        };
        let cache = Cache::with_parts(settings, parts).expect("the settings are good");
        let store = cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("the store is well");
        let file = cache
            .open(&store, ObjectId(1), 4 << 20)
            .expect("a new object opens");
        let engine = &file.handle.engine;
        let (node, zone) = (&engine.memory.nodes[0], &engine.memory.zones[0]);
        node.failures.store(MAX_RECLAIM_RETRIES, Ordering::Relaxed);
        let mut page = [0; PAGE_BYTES];
        for number in 0.. {
            if zone.free_pages() < zone.marks().low {
                break;
            }
            let read = file.read_at(&mut page, number * PAGE_BYTES as u64);
            read.await.expect("the store is well");
        }
        rt.sleep(Span::from_secs(1)).await;
        assert!(zone.free_pages() < zone.marks().low, "kswapd has given up");
        let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
        engine
            .reclaim
            .reclaim_near(NodePolicy::near(0), &mut control)
            .await;
        assert!(control.reclaimed > 0, "there are clean pages");
        assert!(zone.free_pages() < zone.marks().high, "kswapd is needed");
        rt.sleep(Span::from_secs(1)).await;
        assert!(zone.free_pages() > zone.marks().high);
    });
}

/// Pages that one pass over a zone of clean pages frees, in a cache of `mib` MiB without memory.
fn freed_in_a_pass(mib: u64, who: Who, priority: u32) -> u64 {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    let freed = Arc::new(std::sync::Mutex::new(0));
    let reported = freed.clone();
    world.run(async move {
        let settings = Settings {
            memory_bytes: mib << 20,
            page_memory: crate::settings::PageMemory::Phantom,
            ..Settings::default()
        };
        let parts = Parts {
            rt: rt.clone(),
            sink: None,
        };
        let cache = Cache::with_parts(settings, parts).expect("the settings are good");
        let store = cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("the store is well");
        let bytes = (mib << 20) / 10 * 9;
        let file = cache
            .open(&store, ObjectId(1), bytes)
            .expect("a new object opens");
        let mut piece = vec![0; 1 << 20];
        for at in (0..bytes).step_by(piece.len()) {
            file.read_at(&mut piece, at).await.expect("it is there");
        }
        let engine = &file.handle.engine;
        let mut control = ScanControl::new(who, priority);
        let zone = engine
            .memory
            .zones
            .iter()
            .max_by_key(|zone| zone.managed_pages());
        engine
            .reclaim
            .shrink_zone(
                &Today(&engine.reclaim),
                zone.expect("there is one"),
                &mut control,
            )
            .await;
        *reported.lock().expect("nobody panicked") = control.reclaimed;
    });
    let freed = freed.lock().expect("nobody panicked");
    *freed
}

/// Spec/reclaim.md 2.10: a pass ends when its goal is reached, except the first of a caller, which
/// does all that is due.
#[test]
fn only_the_first_pass_of_a_caller_goes_on_past_its_goal() {
    assert_eq!(freed_in_a_pass(4, Who::Direct, 2), 32);
    assert_eq!(freed_in_a_pass(4, Who::Kswapd, 2), 32);
    // At this priority the 4,096th part of the pages is due, which is more than a batch.
    assert!(freed_in_a_pass(600, Who::Direct, TOP_PRIORITY) > 32);
}

/// Spec/reclaim.md 4.4: kswapd becomes more urgent only if a pass looked at less than its goal.
#[test]
fn a_pass_that_looks_at_its_whole_goal_makes_kswapd_no_more_urgent() {
    let world = Virtual::new(VirtualSettings::default());
    let ring = Arc::new(crate::event::EventRing::new(1_000));
    let parts = Parts {
        rt: world.rt(),
        sink: Some(ring.clone()),
    };
    world.run(async move {
        let cache = Cache::with_parts(Settings::small(4), parts).expect("the settings are good");
        let store = cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("the store is well");
        let file = cache
            .open(&store, ObjectId(1), 4 << 20)
            .expect("a new object opens");
        let engine = &file.handle.engine;
        let node = &engine.memory.nodes[0];
        let goal = engine.memory.zones[0].marks().high;
        // At priority p the 2^p-th part is due: as many pages that the goal is due at priority 3.
        let left_at_3 = |pages| {
            (4..=TOP_PRIORITY)
                .rev()
                .fold(pages, |left, p| left - (left >> p))
        };
        let pages = (0..1_024).find(|&pages| left_at_3(pages) >> 3 == goal);
        let pages = pages.expect("there is such a number") as usize;
        let mut bytes = vec![0; pages * PAGE_BYTES];
        file.advise(crate::file::Advice::Random, 0..4 << 20)
            .await
            .expect("it is heard");
        file.read_at(&mut bytes, 0).await.expect("it is there");
        let _ = engine
            .reclaim
            .reclaim_until(&Today(&engine.reclaim), node, 0, || false)
            .await;
        let looked_at: u64 = ring
            .latest()
            .into_iter()
            .filter_map(|(_, event)| match event {
                Event::MmVmscanLruShrinkInactive {
                    nr_scanned,
                    priority: 3,
                    ..
                } => Some(nr_scanned),
                _ => None,
            })
            .sum();
        // One pass looks at the goal, the next at an eighth of what is left, which is less.
        let left = (left_at_3(pages as u64) - goal) >> 3;
        assert_eq!(looked_at, goal + left);
    });
}
