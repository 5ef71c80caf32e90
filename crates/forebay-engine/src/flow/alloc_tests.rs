//! The gate before callers that reclaim for themselves (spec/reclaim.md 6.2).

use super::*;
use crate::engine::Engine;
use forebay_rt::{Virtual, VirtualSettings};
use std::sync::Arc;

/// How long a caller waits at the gate, in ms, and how many waits are counted. `prepare` acts on
/// the node before, and its gate is woken after 300 ms if `is_woken`.
fn wait_at_gate(prepare: impl Fn(&Engine, &Node) + 'static, is_woken: bool) -> (u64, u64) {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    // Without daemons: nobody refills the reserve.
    let engine = Engine::alone(rt.clone());
    let waited = Arc::new(std::sync::Mutex::new((0, 0)));
    let reported = waited.clone();
    world.run(async move {
        let node = &engine.memory.nodes[0];
        prepare(&engine, node);
        let other = engine.clone();
        let clock = rt.clone();
        let waking = rt.spawn("wake", async move {
            clock.sleep(Span::from_millis(300)).await;
            if is_woken {
                other.memory.nodes[0].gate.wake_all();
            }
        });
        let began = rt.now();
        engine.reclaim.pass_gate(node).await;
        let waited = rt.now().since(began).as_millis();
        waking.join().await;
        let count = engine
            .accounts
            .records
            .counters
            .get(Counter::PgscanDirectThrottle);
        *reported.lock().expect("nobody panicked") = (waited, count);
    });
    let seen = waited.lock().expect("nobody panicked");
    *seen
}

/// Takes frames until `node` has one less than half of its min marks, or `more` than that.
fn leave_free(engine: &Engine, more: u64) {
    let zone = &engine.memory.zones[0];
    while zone.free_pages() > zone.marks().min / 2 + more {
        zone.take_free().expect("it counts as free");
    }
}

#[test]
fn a_caller_waits_a_second_at_most_while_half_of_the_reserve_is_gone() {
    assert_eq!(
        wait_at_gate(|engine, _| leave_free(engine, 0), false),
        (1_000, 1)
    );
    assert_eq!(
        wait_at_gate(|engine, _| leave_free(engine, 0), true),
        (300, 1)
    );
    assert_eq!(
        wait_at_gate(|engine, _| leave_free(engine, 1), false),
        (0, 0)
    );
}

#[test]
fn nobody_waits_for_a_kswapd_that_has_given_up() {
    let given_up = |engine: &Engine, node: &Node| {
        leave_free(engine, 0);
        node.failures.store(MAX_RECLAIM_RETRIES, Ordering::Relaxed);
    };
    assert_eq!(wait_at_gate(given_up, false), (0, 0));
    let nearly = |engine: &Engine, node: &Node| {
        leave_free(engine, 0);
        node.failures
            .store(MAX_RECLAIM_RETRIES - 1, Ordering::Relaxed);
    };
    assert_eq!(wait_at_gate(nearly, false), (1_000, 1));
}
