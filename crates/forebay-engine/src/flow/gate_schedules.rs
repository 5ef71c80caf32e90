//! Orders of the steps of callers at the gate and of the kswapd that opens it. Time passes only
//! when nobody can go on: a caller that is not let through waits until kswapd has napped. Run by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p forebay-engine --lib schedules`.

use crate::CallerKey;
use crate::cache::Cache;
use crate::event::CallKind;
use crate::memory::FrameRequest;
use crate::memory::NodePolicy;
use crate::settings::{NodeSettings, Parts, Settings, Watermarks, ZoneSettings};
use crate::state::waits::CallOf;
use forebay_base::{Instant, PAGE_BYTES, Span};
use forebay_rt::explored::{Clock, explore};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

const FRAMES: u64 = 128;
const CALLERS: usize = 3;
/// After a nap kswapd opens the gate once more. A caller that it missed goes on then.
const KSWAPD_NAP: Span = Span::from_millis(100);

fn settings() -> Settings {
    let zone = ZoneSettings {
        managed_pages: Some(FRAMES),
        marks: Some(Watermarks {
            min: 8,
            low: 10,
            high: 12,
        }),
        ..ZoneSettings::default()
    };
    Settings {
        nodes: vec![NodeSettings { zones: vec![zone] }],
        objects_limit: 8,
        writeback_interval: Span::ZERO,
        prefault: false,
        ..Settings::default()
    }
}

#[test]
fn a_caller_that_waits_at_the_gate_is_let_through() {
    explore(600, Clock::Waits, |_| {
        let (rt, sink) = (Rt::real(), None);
        let parts = Parts {
            rt: rt.clone(),
            sink,
        };
        let cache = Cache::with_parts(settings(), parts).expect("the settings are good");
        let store = Arc::new(MemoryStore::new());
        let mut bytes = vec![0; (FRAMES - 14) as usize * PAGE_BYTES];
        store.fill(ObjectId(1), &bytes);
        let attached = cache.attach(store).expect("the store is well");
        let file = cache.open(&attached, ObjectId(1), bytes.len() as u64);
        let file = file.expect("the object opens");
        assert_eq!(block_on(file.read_at(&mut bytes, 0)), Ok(bytes.len()));
        let engine = file.handle.engine.clone();
        let zone = &engine.memory.zones[0];
        // As urgent requests may: more than half of the reserve is gone.
        let mut urgent = Vec::new();
        while engine.memory.is_gate_open(&engine.memory.nodes[0]) {
            urgent.push(engine.memory.take_frame(zone).expect("some are free"));
        }
        let call = |_| {
            let engine = engine.clone();
            let take = move || {
                let of = CallOf {
                    caller: CallerKey::CACHE,
                    bdi: None,
                    kind: CallKind::Read,
                    offset_bytes: 0,
                    bytes: 0,
                };
                let call = engine.dirty.call_of(of);
                let fresh = block_on(
                    engine
                        .reclaim
                        .frame(&call, FrameRequest::to_read(NodePolicy::near(0))),
                );
                drop(fresh.expect("clean pages can be reclaimed"));
            };
            thread::spawn("caller", take).expect("a thread starts")
        };
        let callers: Vec<_> = (0..CALLERS).map(call).collect();
        callers.into_iter().for_each(thread::Joiner::join);
        let waited = rt.now().since(Instant::ZERO);
        assert!(waited < KSWAPD_NAP, "{waited:?} at an open gate");
        drop(urgent);
        drop(engine);
        drop(file);
        assert_eq!(block_on(cache.close()), Ok(()));
    });
}
