//! The sleep test of each version, on the machine of spec/reclaim.md 11.

use crate::fixtures::Bare;
use crate::past::PastKswapd;
use crate::policy::{KswapdSleep, Policy};
use forebay_base::sync::atomic::Ordering;
use forebay_engine::settings::{NodeSettings, PageMemory, Settings, ZoneSettings};

/// Machine M: DMA, DMA32 and Normal. `free` frames of each are free, and the others reclaimable.
fn machine(sleep: KswapdSleep, free: [u64; 3]) -> Bare {
    machine_of(sleep, [3_840, 786_432, 128_000], free)
}

fn machine_of(sleep: KswapdSleep, managed: [u64; 3], free: [u64; 3]) -> Bare {
    let zone = |(name, managed_pages, ratio): (&str, u64, u64)| ZoneSettings {
        name: name.into(),
        managed_pages: Some(managed_pages),
        lowmem_reserve_ratio: ratio,
        ..ZoneSettings::default()
    };
    let zones = [
        ("DMA", managed[0], 256),
        ("DMA32", managed[1], 256),
        ("Normal", managed[2], 32),
    ];
    let settings = Settings {
        page_memory: PageMemory::Phantom,
        nodes: vec![NodeSettings {
            zones: zones.map(zone).into(),
        }],
        ..Settings::default()
    };
    let policy = Policy {
        kswapd_sleep: sleep,
        ..Policy::default()
    };
    let bare = Bare::under(policy, settings);
    for (zone, free) in bare.engine.memory.zones.iter().zip(free) {
        while zone.free_pages() > free {
            let frame = zone.take_free();
            let lists = bare.engine.memory.lists.of(zone.number);
            let run = [frame.expect("it counts as free")];
            lists.list_run(&bare.engine.memory.frames, &run);
        }
    }
    bare
}

/// The rules of a cache's policy, including today's policy.
fn rules(bare: &Bare) -> PastKswapd {
    bare.flows.past.kswapd.unwrap_or(PastKswapd::TODAY)
}

fn may_sleep(sleep: KswapdSleep, free: [u64; 3]) -> bool {
    let bare = machine(sleep, free);
    let node = &bare.engine.memory.nodes[0];
    let class = rules(&bare).class_before_sleep(node, node.top_class());
    bare.older()
        .was_balanced_to_sleep(rules(&bare), node, class)
}

#[test]
fn vector_v2_marks_and_reserves_of_the_machine() {
    let bare = machine(KswapdSleep::ForRequestedClass, [0; 3]);
    let marks = |zone: usize| {
        let marks = bare.engine.memory.zones[zone].marks();
        (marks.min, marks.low, marks.high)
    };
    assert_eq!(
        [marks(0), marks(1), marks(2)],
        [(8, 11, 14), (1_640, 2_426, 3_212), (267, 395, 523)]
    );
    assert_eq!(
        bare.engine.memory.zones[0].lowmem_reserves(),
        [0, 3_072, 3_572]
    );
    assert_eq!(bare.engine.memory.zones[1].lowmem_reserves(), [0, 0, 500]);
}

#[test]
fn vector_v3_kswapd_falls_asleep_on_a_zone_that_nobody_may_use() {
    let short = [100, 2_000, 300];
    for (sleep, sleeps) in [
        (KswapdSleep::EveryZone, false),
        (KswapdSleep::ForClassZero, true),
        (KswapdSleep::AnyZone, true),
        (KswapdSleep::Clear, true),
        (KswapdSleep::KeepAwake, false),
        (KswapdSleep::ForRequestedClass, false),
    ] {
        assert_eq!(may_sleep(sleep, short), sleeps, "{sleep:?}");
    }
}

#[test]
fn vector_v3_the_zone_that_is_enough_differs() {
    // Normal alone is balanced.
    let normal = [0, 0, 524];
    assert!(!may_sleep(KswapdSleep::EveryZone, normal));
    assert!(!may_sleep(KswapdSleep::ForClassZero, normal));
    assert!(may_sleep(KswapdSleep::ForRequestedClass, normal));
    assert!(!may_sleep(
        KswapdSleep::ForRequestedClass,
        [3_586, 3_712, 523]
    ));
    assert!(may_sleep(KswapdSleep::ForRequestedClass, [3_587, 0, 0]));
    assert!(may_sleep(KswapdSleep::EveryZone, [15, 3_213, 524]));
    for at_the_mark in [[14, 3_213, 524], [15, 3_212, 524], [15, 3_213, 523]] {
        assert!(!may_sleep(KswapdSleep::EveryZone, at_the_mark));
    }
}

#[test]
fn up_to_4_11_every_zone_up_to_the_class_must_be_balanced() {
    for (sleep, sleeps) in [
        (KswapdSleep::ForClassZero, false),
        (KswapdSleep::AnyZone, true),
    ] {
        let bare = machine(sleep, [3_587, 0, 0]);
        let node = &bare.engine.memory.nodes[0];
        node.request_class(2);
        let class = rules(&bare).class_before_sleep(node, 0);
        assert_eq!(class, 2);
        assert_eq!(
            bare.older()
                .was_balanced_to_sleep(rules(&bare), node, class),
            sleeps,
            "{sleep:?}"
        );
    }
}

#[test]
fn what_clears_the_flags_of_a_node() {
    for (sleep, clears) in [
        (KswapdSleep::ForClassZero, true),
        (KswapdSleep::AnyZone, true),
        (KswapdSleep::Clear, false),
        (KswapdSleep::ForRequestedClass, false),
    ] {
        let bare = machine(sleep, [3_587, 0, 0]);
        let node = &bare.engine.memory.nodes[0];
        node.flags.dirty.store(true, Ordering::Relaxed);
        assert!(
            bare.engine.reclaim.need_not_wake(node, 2),
            "DMA is above its reserve"
        );
        let is_cleared = !node.flags.dirty.load(Ordering::Relaxed);
        assert_eq!(is_cleared, clears, "{sleep:?}");
    }
}

#[test]
fn classes_before_and_after_sleep() {
    use KswapdSleep::{Clear, ForClassZero, ForRequestedClass, KeepAwake};
    // Spec/reclaim.md 4.6: first nobody has asked and class 1 was the last; then class 1 was asked
    // for while class 2 was the last.
    for (sleep, idle, asked) in [
        (ForClassZero, (0, 0), (1, 1)),
        (Clear, (0, 0), (1, 1)),
        (KeepAwake, (1, 0), (2, 1)),
        (ForRequestedClass, (1, 1), (1, 1)),
    ] {
        let bare = machine(sleep, [0; 3]);
        let node = &bare.engine.memory.nodes[0];
        let classes = |previous| {
            let before = rules(&bare).class_before_sleep(node, previous);
            (before, rules(&bare).class_after_sleep(node, previous))
        };
        assert_eq!(classes(1), idle, "{sleep:?}");
        node.request_class(1);
        assert_eq!(classes(2), asked, "{sleep:?}");
    }
}

#[test]
fn the_first_kswapd_was_woken_below_a_low_mark() {
    let bare = machine(KswapdSleep::EveryZone, [12, 2_427, 396]);
    let node = &bare.engine.memory.nodes[0];
    assert!(bare.engine.reclaim.need_not_wake(node, 2));
    assert!(bare.engine.memory.zones[2].take_free().is_some());
    assert!(!bare.engine.reclaim.need_not_wake(node, 2));
}

#[test]
fn between_the_patches_a_node_without_small_zones_never_slept() {
    for (sleep, sleeps) in [
        (KswapdSleep::ForClassZero, true),
        (KswapdSleep::AnyZone, false),
        (KswapdSleep::Clear, false),
        (KswapdSleep::KeepAwake, true),
    ] {
        let bare = machine_of(sleep, [0, 0, 128_000], [0, 0, 100_000]);
        let node = &bare.engine.memory.nodes[0];
        let class = rules(&bare).class_before_sleep(node, node.top_class());
        let is_balanced = bare
            .older()
            .was_balanced_to_sleep(rules(&bare), node, class);
        assert_eq!(is_balanced, sleeps, "{sleep:?}");
    }
}

/// A node without memory for a class has nothing to reclaim for it.
#[test]
fn zones_without_memory_count_as_balanced() {
    let bare = machine_of(KswapdSleep::ForClassZero, [0, 0, 128_000], [0, 0, 0]);
    let node = &bare.engine.memory.nodes[0];
    let is_balanced = [0, 1, 2].map(|class| bare.engine.memory.is_balanced(node, class));
    assert_eq!(is_balanced, [true, true, false]);
}
