//! A budget that changes while the cache runs.

use forebay_engine::{Counter, File, MemoryError, Settings, Statistics};

use crate::support::{Bench, OfSize, PAGE, has_page, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::settings::NodeSettings;
use forebay_engine::settings::{Watermarks, ZoneSettings};
use forebay_store::{Failure, Fault, FaultAction, IoKind, ObjectId, Rate};

const MIB: u64 = 1 << 20;

impl Bench {
    async fn set_mib(&self, mib: u64) -> u64 {
        let over = self.cache.set_memory(mib * MIB).await;
        over.expect("the cache can be so large")
    }

    fn reported(&self) -> Statistics {
        self.cache.statistics()
    }
}

/// The memory of a cache without the few objects of a test, which take less than one of the steps
/// in which they are taken off (`many_objects.rs`).
fn beside_objects(reported: &Statistics) -> u64 {
    reported.memory_bytes - reported.object_bytes
}

async fn all_are_there(file: &File, pages: std::ops::Range<u64>) {
    for number in pages {
        assert_eq!(has_page(file, number).await, Ok(true), "page {number}");
    }
}

#[test]
fn a_smaller_budget_is_met_under_load_and_a_larger_one_is_there_at_once() {
    simulate(1, |rt| async move {
        // 16 MiB/s, so that most of what was written is dirty for a while.
        let slow = Rate::bytes(16 * MIB);
        let bench = Bench::rated(rt.clone(), 32, slow);
        let file = bench.open(0);
        write_pages(&file, 0..4_000)
            .await
            .expect("the store is well");
        let before = bench.reported();
        assert!(before.dirty() > 1_000, "{} are dirty", before.dirty());
        let writer = file.clone();
        let load = rt.spawn("writer", async move {
            let written = write_pages(&writer, 4_000..12_000).await;
            written.expect("the store is well");
        });
        let full = bench.cache.clone();
        let change = rt.spawn("budget", async move {
            assert_eq!(full.set_memory(4 * MIB).await, Ok(0));
        });
        rt.sleep(Span::from_millis(1)).await;
        let soon = bench.reported();
        assert!(soon.pages_over > 0, "dirty pages are not given up at once");
        assert!(soon.nr_dirty_threshold * 3 < before.nr_dirty_threshold);
        change.join().await;
        let small = bench.reported();
        let small_bytes = beside_objects(&small);
        assert!(small_bytes <= 4 * MIB, "{small_bytes} bytes");
        assert_eq!(small.frames + small.nr_balloon_pages, before.frames);
        assert!(small.nr_dirty_threshold * 4 < before.nr_dirty_threshold);
        assert!(small.zones[0].high < before.zones[0].high);
        load.join().await;
        assert!(
            beside_objects(&bench.reported()) <= 4 * MIB,
            "it grew again"
        );
        assert_eq!(bench.set_mib(32).await, 0);
        let again = bench.reported();
        assert_eq!((again.frames, again.nr_balloon_pages), (before.frames, 0));
        assert_eq!(again.zones[0].high, before.zones[0].high);
        let balloon = [Counter::BalloonInflate, Counter::BalloonDeflate];
        assert_eq!(
            balloon.map(|counter| bench.count(counter)),
            [small.nr_balloon_pages; 2]
        );
        all_are_there(&file, 0..12_000).await;
        file.sync().await.expect("the store is well");
        assert!(bench.has_stored(0..12_000));
        bench.assert_consistent();
    });
}

#[test]
fn pinned_pages_are_reported_in_bounded_time_and_follow_later() {
    simulate(2, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let count = 1_800;
        bench.memory.fill(crate::support::FILE, &pages(0..count));
        let file = bench.open(count * PAGE as u64);
        let mut guards = Vec::new();
        for number in 0..count {
            guards.push(file.page(number).await.expect("there is a frame"));
        }
        let began = rt.now();
        let over = bench.set_mib(4).await;
        assert!(over > MIB, "{over} bytes over");
        assert_eq!(over, bench.reported().pages_over * PAGE as u64);
        let waited = rt.now().since(began);
        assert!(waited <= Span::from_secs(6), "{waited}");
        // Other callers get by with the few frames that are left.
        let other = bench.open_object(ObjectId(2), 0);
        write_pages(&other, 0..200)
            .await
            .expect("some are not held");
        drop(guards);
        bench.settles(Span::from_secs(10)).await;
        assert!(beside_objects(&bench.reported()) <= 4 * MIB);
        all_are_there(&file, 0..count).await;
        bench.assert_consistent();
    });
}

#[test]
fn what_cannot_be_written_follows_when_it_can_though_nobody_waits_for_it() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 32);
        let file = bench.open(0);
        faults.inject(Fault::each(
            IoKind::Write,
            FaultAction::Fail(Failure::Device(5)),
        ));
        write_pages(&file, 0..500).await.expect("memory takes them");
        // At least 128 frames have to stay, and few of them may be dirty.
        let bytes = bench.reported().memory_bytes - 7_700 * PAGE as u64;
        let patience = Span::from_millis(50);
        let change = rt.timeout(patience, bench.cache.set_memory(bytes));
        assert!(change.await.is_err(), "the call was dropped");
        rt.sleep(Span::from_secs(60)).await;
        let stuck = bench.reported().pages_over;
        assert!(stuck > 0, "pages that were never written were given up");
        faults.clear();
        bench.settles(Span::from_secs(120)).await;
        all_are_there(&file, 0..500).await;
        bench.assert_consistent();
    });
}

#[test]
fn the_last_of_many_budgets_counts() {
    simulate(4, |rt| async move {
        let bench = Bench::plain(rt.clone(), 32);
        let file = bench.open(0);
        write_pages(&file, 0..7_000)
            .await
            .expect("the store is well");
        let most = bench.reported().frames;
        let changes: Vec<_> = [4, 24, 8, 32, 6, 16]
            .into_iter()
            .map(|mib| {
                let cache = bench.cache.clone();
                rt.spawn("budget", async move {
                    cache.set_memory(mib * MIB).await.expect("it is allowed");
                })
            })
            .collect();
        for change in changes {
            change.join().await;
        }
        let last = bench.set_mib(16).await;
        assert_eq!(last, 0);
        let reported = bench.reported();
        let frames = (16 * MIB - reported.overhead_bytes_per_page * most) / PAGE as u64;
        assert!(
            (frames..frames + 32).contains(&reported.frames),
            "{}",
            reported.frames
        );
        all_are_there(&file, 0..7_000).await;
        bench.assert_consistent();
    });
}

#[test]
fn each_zone_keeps_its_part_and_none_becomes_useless() {
    let zone = |name: &str, weight, marks| ZoneSettings {
        name: name.into(),
        weight,
        marks,
        ..ZoneSettings::default()
    };
    let given = Watermarks {
        min: 100,
        low: 200,
        high: 300,
    };
    simulate(5, |rt| async move {
        let settings = Settings {
            nodes: vec![NodeSettings {
                zones: vec![zone("DMA32", 1, None), zone("Normal", 3, Some(given))],
            }],
            ..Settings::of_mib(64)
        };
        let bench = Bench::with(rt, settings, |_, memory| memory);
        let file = bench.open(0);
        write_pages(&file, 0..10_000)
            .await
            .expect("the store is well");
        assert_eq!(bench.set_mib(16).await, 0);
        let zones = bench.reported().zones;
        assert!(
            zones[1].managed.abs_diff(3 * zones[0].managed) <= 3,
            "{zones:?}"
        );
        assert_eq!(zones[1].high, given.high, "what was given stays");
        let refused = bench.cache.set_memory(MIB).await;
        let Err(MemoryError::TooSmall { needed_bytes, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(bench.cache.set_memory(needed_bytes).await, Ok(0));
        assert!((600..604).contains(&bench.reported().zones[1].managed));
        assert!(bench.cache.set_memory(needed_bytes - 1).await.is_err());
        all_are_there(&file, 0..10_000).await;
        bench.assert_consistent();
    });
}

#[test]
fn a_budget_that_cannot_be_is_refused_and_the_old_one_stays() {
    simulate(6, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let before = bench.reported();
        let refused = bench.cache.set_memory(8 * MIB + 1).await;
        let too_large = MemoryError::TooLarge {
            given_bytes: 8 * MIB + 1,
            limit_bytes: 8 * MIB,
        };
        assert_eq!(refused, Err(too_large));
        let refused = bench.cache.set_memory(0).await;
        assert!(matches!(refused, Err(MemoryError::TooSmall { .. })));
        assert_eq!(bench.reported(), before);
        assert_eq!(bench.set_mib(8).await, 0);
        bench.cache.close().await.expect("nothing is dirty");
        let refused = bench.cache.set_memory(4 * MIB).await;
        assert_eq!(refused, Err(MemoryError::Closed));
    });
}
