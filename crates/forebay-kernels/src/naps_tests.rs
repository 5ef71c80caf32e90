//! Who naps, and for how long (spec/reclaim.md 5.1 to 5.3).

use super::*;
use crate::fixtures::{Bare, preset, small};
use forebay_law::scan::TOP_PRIORITY;

/// While far more is under writeback than may be dirty, reclaimers up to 3.10 nap after each zone:
/// here until they have waited for as long as a store may be silent.
#[test]
fn up_to_3_10_reclaimers_nap_while_too_much_is_under_writeback() {
    for (name, naps) in [
        ("linux-3.0", true),
        ("linux-3.2", true),
        ("linux-4.11", false),
        ("linux-5.15", false),
    ] {
        let bare = Bare::under(preset(name), small());
        let (engine, rt) = (bare.engine.clone(), bare.world.rt());
        let flows = bare.flows;
        bare.world.run(async move {
            engine
                .dirty
                .global
                .writeback
                .store(10_000, Ordering::Relaxed);
            let began = rt.now();
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            flows
                .older(&engine.reclaim)
                .nap_after_zone(&mut control)
                .await;
            let napped = rt.now().since(began);
            let longest = engine.settings.answer_timeout;
            let expected = if naps { longest } else { Span::ZERO };
            assert!(napped >= expected && napped <= expected + NAP, "{name}");
            let count = engine
                .accounts
                .records
                .counters
                .get(Counter::CongestionWaits);
            assert_eq!(count, napped.as_millis() / 100, "{name}");
            engine.dirty.global.writeback.store(0, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_nap_is_reported_with_its_length_and_who_took_it() {
    for who in [Who::Kswapd, Who::Direct] {
        let bare = Bare::under(preset("linux-3.2"), small());
        let (engine, flows, ring) = (bare.engine, bare.flows, bare.ring);
        bare.world.run(async move {
            let older = flows.older(&engine.reclaim);
            older.congestion_wait(who, NAP).await;
            let flags = &engine.memory.nodes[0].flags;
            older.wait_iff_congested(flags, who, SHORT_NAP).await;
        });
        let events: Vec<Event> = ring.latest().into_iter().map(|(_, event)| event).collect();
        let is_kswapd = who == Who::Kswapd;
        let naps = [
            Event::WritebackCongestionWait {
                usec_timeout: 100_000,
                usec_delayed: 100_000,
                is_kswapd,
            },
            Event::WritebackWaitIffCongested {
                usec_timeout: 20_000,
                usec_delayed: 0,
                is_kswapd,
            },
        ];
        assert_eq!(events, naps);
    }
}
