//! Zones and nodes: reserves, dirty pages in proportion, and when kswapd sleeps.

use forebay_engine::lab::LabFile;
use forebay_engine::{Counter, Settings};
use forebay_kernels::Policy;

use forebay_kernels::policy::{KswapdSleep, ZoneDirtyLimits};

use forebay_engine::settings::{NodeSettings, ZoneSettings};

use crate::support::scan::{endless, slow_reads, touch, void};
use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, page_of, simulate};
use forebay_base::Span;
use forebay_engine::statistics::ZoneStatistics;
use forebay_store::{Rate, RateStore};
use std::sync::Arc;

fn zone(name: &str, weight: u64, lowmem_reserve_ratio: u64) -> ZoneSettings {
    ZoneSettings {
        name: name.into(),
        weight,
        lowmem_reserve_ratio,
        ..ZoneSettings::default()
    }
}

fn with_zones(mib: u64, zones: Vec<ZoneSettings>) -> Settings {
    Settings {
        nodes: vec![NodeSettings { zones }],
        ..Settings::of_mib(mib)
    }
}

fn find<'a>(zones: &'a [ZoneStatistics], name: &str) -> &'a ZoneStatistics {
    let found = zones.iter().find(|zone| zone.name == name);
    found.expect("the zone was declared")
}

#[test]
fn requests_for_higher_zones_leave_the_reserves_of_the_lower_ones() {
    simulate(8, |rt| async move {
        let zones = vec![
            zone("DMA", 1, 16),
            zone("DMA32", 4, 16),
            zone("Normal", 11, 16),
        ];
        let bench = void(rt, with_zones(32, zones));
        let file = endless(&bench).await;
        let is_kept = |zones: &[ZoneStatistics]| {
            let [dma, dma32, normal] = ["DMA", "DMA32", "Normal"].map(|name| find(zones, name));
            let reserves = [
                (dma, (dma32.managed + normal.managed) / 16),
                (dma32, normal.managed / 16),
                (normal, 0),
            ];
            reserves
                .iter()
                .all(|(zone, reserve)| zone.free + 1 >= zone.min + reserve)
        };
        for round in 0..200 {
            touch(&file, round * 200..(round + 1) * 200).await;
            let zones = bench.cache.statistics().zones;
            assert!(is_kept(&zones), "{zones:?}");
        }
        let zones = bench.cache.statistics().zones;
        let used = |name| find(&zones, name).inactive_file + find(&zones, name).active_file;
        assert!(used("Normal") > 0 && used("DMA32") > 0);
        bench.assert_consistent();
    });
}

/// Writes as fast as a slow store allows. Returns the largest part of the preferred zone that was
/// dirty or under writeback, in percent, and how often an allocation found no zone to dirty.
fn dirty_percent_of_preferred(zone_dirty_limits: ZoneDirtyLimits) -> u64 {
    let largest = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let seen = largest.clone();
    simulate(9, |rt| async move {
        let policy = Policy {
            zone_dirty_limits,
            ..Policy::default()
        };
        let settings = Settings {
            ..with_zones(64, vec![zone("Large", 3, 0), zone("Preferred", 1, 0)])
        }
        .under(policy);
        let bench = Bench::with(rt.clone(), settings, |rt, _| {
            Arc::new(RateStore::new(rt, Arc::new(Void), Rate::bytes(10 << 20)))
        });
        let file = bench.open(0);
        for number in 0..12_000 {
            let written = file.write_at(&page_of(number), number * PAGE as u64).await;
            assert_eq!(written, Ok(()));
            if number % 50 == 0 {
                let zones = bench.cache.statistics().zones;
                let preferred = find(&zones, "Preferred");
                let percent = (preferred.dirty + preferred.writeback) * 100 / preferred.managed;
                seen.fetch_max(percent, std::sync::atomic::Ordering::Relaxed);
            }
        }
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
    largest.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn dirty_pages_are_spread_over_the_zones_in_proportion() {
    let spread = dirty_percent_of_preferred(ZoneDirtyLimits::Proportional);
    let piled = dirty_percent_of_preferred(ZoneDirtyLimits::Off);
    assert!(spread <= 25, "{spread} % of the zone, where 20 % may be");
    assert!(piled >= 50, "{piled} % without limits of zones");
    let of_node = dirty_percent_of_preferred(ZoneDirtyLimits::ForNodes);
    assert!(
        of_node >= 50,
        "{of_node} % where all zones share the limit of their node"
    );
}

#[test]
fn a_node_that_has_its_part_of_the_dirty_limit_is_passed_over() {
    simulate(13, |rt| async move {
        let node = |name: &str| NodeSettings {
            zones: vec![zone(name, 1, 0)],
        };
        let policy = Policy {
            zone_dirty_limits: ZoneDirtyLimits::ForNodes,
            ..Policy::default()
        };
        let settings = Settings {
            nodes: vec![node("near"), node("far")],
            ..Settings::of_mib(32)
        }
        .under(policy);
        let bench = Bench::with(rt.clone(), settings, |rt, _| {
            Arc::new(RateStore::new(rt, Arc::new(Void), Rate::bytes(4 << 20)))
        });
        let file = bench.open(0);
        for number in 0..5_000 {
            let written = file.write_at(&page_of(number), number * PAGE as u64).await;
            assert_eq!(written, Ok(()));
            let zones = bench.cache.statistics().zones;
            let near = find(&zones, "near");
            assert!(
                near.dirty + near.writeback <= near.dirty_limit + 1,
                "{near:?}"
            );
        }
        let zones = bench.cache.statistics().zones;
        assert!(
            find(&zones, "far").dirty > 0,
            "the rest went to the other node"
        );
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn an_allocation_that_finds_no_zone_to_dirty_gets_a_frame_all_the_same() {
    simulate(10, |rt| async move {
        let zones = vec![zone("Low", 1, 0), zone("High", 1, 0)];
        let bench = Bench::with(rt, with_zones(8, zones), |rt, _| {
            Arc::new(RateStore::new(rt, Arc::new(Void), Rate::bytes(2 << 20)))
        });
        let file = bench.open(0);
        // Many writers, each within its quota, together exceed the limits of both zones.
        let writer = |number: u64| {
            let file = bench.open(0);
            bench.rt.spawn("writer", async move {
                let at = number * 16 * PAGE as u64;
                let written = file.write_at(&vec![1; 16 * PAGE], at).await;
                assert_eq!(written, Ok(()));
            })
        };
        let writers: Vec<_> = (0..64).map(writer).collect();
        for writer in writers {
            writer.join().await;
        }
        let counted = bench.count(Counter::AllocDirtyFallback);
        assert!(counted > 0, "1,024 pages are more than both zones may have");
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn a_handle_takes_its_frames_from_its_own_node_first() {
    simulate(11, |rt| async move {
        let node = |name: &str| NodeSettings {
            zones: vec![zone(name, 1, 0)],
        };
        let settings = Settings {
            nodes: vec![node("near"), node("far")],
            ..Settings::of_mib(16)
        };
        let bench = void(rt, settings);
        let near = endless(&bench).await;
        let far = near.on_node(1);
        let used = |name: &str| {
            let zones = bench.cache.statistics().zones;
            let zone = find(&zones, name);
            zone.managed - zone.free
        };
        touch(&far, 0..500).await;
        assert!(used("far") >= 500 && used("near") == 0);
        touch(&near, 1_000..1_300).await;
        assert!(used("near") >= 300 && used("far") < 600);
        touch(&far, 10_000..30_000).await;
        assert!(used("near") > 1_000, "a full node overflows into the other");
        bench.assert_consistent();
    });
}

/// How often kswapd was kept awake, and the fewest free pages of the upper zone, while a reader
/// takes a page every 4 ms on a machine whose lowest zone no usual request may use.
fn lowest_level_under(kswapd_sleep: KswapdSleep) -> (u64, ZoneStatistics) {
    let result = Arc::new(std::sync::Mutex::new(None));
    let reported = result.clone();
    simulate(12, |rt| async move {
        let policy = Policy {
            kswapd_sleep,
            ..Policy::default()
        };
        let settings = Settings {
            ..with_zones(32, vec![zone("DMA", 1, 1), zone("Normal", 15, 0)])
        }
        .under(policy);
        let bench = Bench::with(rt.clone(), settings, slow_reads);
        let file = endless(&bench).await;
        touch(&file, 0..10_000).await;
        let normal = || find(&bench.cache.statistics().zones, "Normal").clone();
        let mut lowest = normal();
        for number in 10_000..12_000 {
            touch(&file, number..number + 1).await;
            rt.sleep(Span::from_millis(4)).await;
            let now = normal();
            let has_settled = number > 10_500;
            if !has_settled || now.free < lowest.free {
                lowest = now;
            }
        }
        let kept_awake = bench.count(Counter::KswapdHighWmarkHitQuickly);
        *reported.lock().expect("nobody panicked") = Some((kept_awake, lowest));
        bench.assert_consistent();
    });
    let reported = result.lock().expect("nobody panicked").take();
    reported.expect("the simulation has ended")
}

#[test]
fn kswapd_sleeps_by_the_zones_that_are_asked_for() {
    let (kept_awake, lowest) = lowest_level_under(KswapdSleep::ForRequestedClass);
    assert!(kept_awake > 10, "{kept_awake}");
    assert!(lowest.free + 40 > lowest.high, "{lowest:?}");
    let (kept_awake, lowest) = lowest_level_under(KswapdSleep::ForClassZero);
    assert_eq!(kept_awake, 0, "the smallest zone is always balanced");
    assert!(lowest.free <= lowest.low, "{lowest:?}");
}

/// A caller may take the frames of every node, so frames that another node gets back wake it.
#[test]
fn a_caller_that_waits_for_a_frame_hears_of_one_in_another_node() {
    simulate(11, |rt| async move {
        let nodes = vec![NodeSettings::default(), NodeSettings::default()];
        let settings = Settings {
            nodes,
            ..Settings::of_mib(4)
        };
        let bench = Bench::with(rt.clone(), settings, |_, _| Arc::new(Void));
        let file = bench.open(64 << 20);
        let far = file.on_node(1);
        let mut guards = Vec::new();
        let mut pages = 0..;
        // The last one finds no frame.
        while let Ok(guard) = far.page(pages.next().expect("without end")).await {
            guards.push(guard);
        }
        let near = file.on_node(0);
        let waits = rt.spawn("reader", async move {
            let mut byte = [0];
            near.read_at(&mut byte, 8_000 * PAGE as u64)
                .await
                .expect("there is room by then");
        });
        // By then it has looked through all of memory and waits for an event.
        rt.sleep(Span::from_millis(90)).await;
        assert!(!waits.is_finished());
        let on_far = guards.drain(..400).count() as u64;
        let freed = far.advise(forebay_engine::Advice::DontNeed, 0..on_far * PAGE as u64);
        freed.await.expect("they are clean");
        for _ in 0..10 {
            rt.yield_now().await;
        }
        assert!(waits.is_finished(), "it sleeps on beside free frames");
        drop(guards);
    });
}
