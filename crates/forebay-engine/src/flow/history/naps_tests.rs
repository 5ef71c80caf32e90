//! Who naps, and for how long (spec/reclaim.md 5.1 to 5.3).

use super::*;
use crate::engine::Engine;
use crate::event::EventRing;
use crate::policy::Policy;
use crate::settings::{Parts, Settings};
use forebay_law::scan::TOP_PRIORITY;
use forebay_rt::{Virtual, VirtualSettings};
use std::sync::Arc;

/// An engine of 4 MiB without daemons, and what it reports.
fn engine_under(preset: &str) -> (Virtual, Arc<Engine>, Arc<EventRing>) {
    let world = Virtual::new(VirtualSettings::default());
    let ring = Arc::new(EventRing::new(100));
    let policy = Policy::preset(preset).expect("a preset of this name");
    let parts = Parts {
        rt: world.rt(),
        sink: Some(ring.clone()),
    };
    let engine = Engine::new(Settings::small(4, policy), parts).expect("the settings are good");
    (world, engine, ring)
}

/// While far more is under writeback than may be dirty, reclaimers up to 3.10 nap after each zone:
/// here until they have waited for as long as a store may be silent.
#[test]
fn up_to_3_10_reclaimers_nap_while_too_much_is_under_writeback() {
    for (preset, naps) in [
        ("linux-3.0", true),
        ("linux-3.2", true),
        ("linux-4.11", false),
        ("linux-5.15", false),
    ] {
        let (world, engine, _ring) = engine_under(preset);
        let rt = world.rt();
        world.run(async move {
            engine
                .dirty
                .global
                .writeback
                .store(10_000, Ordering::Relaxed);
            let began = rt.now();
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            Older::of(&engine.reclaim)
                .nap_after_zone(&mut control)
                .await;
            let napped = rt.now().since(began);
            let longest = engine.settings.answer_timeout;
            let expected = if naps { longest } else { Span::ZERO };
            assert!(napped >= expected && napped <= expected + NAP, "{preset}");
            let count = engine
                .accounts
                .records
                .counters
                .get(Counter::CongestionWaits);
            assert_eq!(count, napped.as_millis() / 100, "{preset}");
            engine.dirty.global.writeback.store(0, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_nap_is_reported_with_its_length_and_who_took_it() {
    for who in [Who::Kswapd, Who::Direct] {
        let (world, engine, ring) = engine_under("linux-3.2");
        world.run(async move {
            Older::of(&engine.reclaim).congestion_wait(who, NAP).await;
            let flags = &engine.memory.nodes[0].flags;
            Older::of(&engine.reclaim)
                .wait_iff_congested(flags, who, SHORT_NAP)
                .await;
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
