//! When nothing is asked and nothing is dirty, nothing runs.

mod support;

use forebay::event::{Event, WritebackReason};
use forebay_base::Span;
use support::{Bench, simulate, write_pages};

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
            write_pages(&file, 0..10).await.expect("memory takes it");
            file.sync().await.expect("the store is well");
            rt.sleep(Span::from_secs(6)).await;
            let before = looks(&bench);
            rt.sleep(Span::from_secs(120)).await;
            assert_eq!(looks(&bench), before, "nothing is dirty");
        }
        // What becomes dirty now is found and written when it is old.
        write_pages(&file, 40..50).await.expect("memory takes it");
        rt.sleep(Span::from_secs(40)).await;
        assert!(bench.has_stored(40..50));
        bench.assert_consistent();
    });
}
