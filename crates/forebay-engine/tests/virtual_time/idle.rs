//! When nothing is requested and nothing is dirty, nothing runs.

use crate::support::{Bench, OfSize, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::Settings;
use forebay_engine::event::{Event, WritebackReason};
use forebay_store::{MemoryStore, Rate, RateStore};
use std::sync::Arc;

/// How often the flusher looked for old pages.
fn looks(bench: &Bench) -> usize {
    let is_look = |event: &Event| {
        let reason = WritebackReason::Periodic;
        matches!(event, Event::WritebackStart { reason: why, .. } if *why == reason)
    };
    let events = bench.events();
    events.iter().filter(|(_, event)| is_look(event)).count()
}

#[test]
fn the_flusher_sleeps_once_others_have_written_everything() {
    simulate(1, async |rt| {
        let bench = Bench::plain(rt.clone(), 8);
        let file = bench.open(0);
        for _ in 0..3 {
            write_pages(&file, 0..4000).await.expect("memory takes it");
            file.sync().await.expect("the store is well");
            rt.sleep(Span::from_secs(6)).await;
            let before = looks(&bench);
            rt.sleep(Span::from_secs(120)).await;
            assert_eq!(looks(&bench), before, "nothing is dirty");
        }
        // Pages that become dirty now are found and written when they are old.
        write_pages(&file, 40..4000).await.expect("memory takes it");
        rt.sleep(Span::from_secs(40)).await;
        assert!(bench.has_stored(40..50));
        bench.assert_consistent();
    });
}

/// The flusher has left a file half written, with another turn to come, and a sync has written the
/// rest.
#[test]
fn the_flusher_sleeps_where_a_sync_took_what_its_round_left() {
    simulate(2, async |rt| {
        let memory = Arc::new(MemoryStore::new());
        let store = RateStore::new(rt.clone(), memory.clone(), Rate::bytes(50_000_000));
        let store = Arc::new(store);
        let bench = Bench::around(rt.clone(), Settings::of_mib(64), memory, store);
        let file = bench.open(0);
        write_pages(&file, 0..4000).await.expect("memory takes it");
        // Below the background threshold the flusher stops, before it has written everything.
        rt.sleep(Span::from_secs(1)).await;
        assert!(!file.is_written());
        file.sync().await.expect("the store is well");
        rt.sleep(Span::from_secs(11)).await;
        let before = looks(&bench);
        rt.sleep(Span::from_secs(120)).await;
        assert_eq!(looks(&bench), before, "nothing is dirty");
        bench.assert_consistent();
    });
}
