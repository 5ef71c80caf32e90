//! Reclaim from outside: progress without the store, which pages stay and which go
//! (spec/reclaim.md 10).

use crate::support::scan::{endless, slow_reads, touch, void};
use crate::support::void::Void;
use crate::support::{Bench, FILE, OfSize, PAGE, has_page, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::settings::DirtyKnobs;
use forebay_engine::{Counter, File, Settings};
use forebay_store::{ObjectId, Rate, RateStore};
use std::ops::Range;
use std::sync::Arc;

/// Reads the pages again, which changes little, and returns how many were gone.
async fn missing(bench: &Bench, file: &File, numbers: Range<u64>) -> u64 {
    let before = bench.count(Counter::Pgpgin);
    touch(file, numbers).await;
    bench.count(Counter::Pgpgin) - before
}

#[test]
fn readers_go_on_while_every_inactive_page_is_dirty_and_the_store_stalls() {
    simulate(1, |rt| async move {
        let mut medium = None;
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_ratio_percent: 90,
                background_ratio_percent: 80,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt.clone(), settings, |rt, memory| {
            let store = Arc::new(RateStore::new(rt, memory, Rate::UNLIMITED));
            medium = Some(store.clone());
            store
        });
        let medium = medium.expect("the bench has asked for it");
        // Clean pages that are all active, then dirty ones that are all inactive.
        bench.memory.fill(ObjectId(2), &pages(0..1_100));
        let clean = bench.open_object(ObjectId(2), 1_100 * PAGE as u64);
        for _ in 0..3 {
            touch(&clean, 0..1_100).await;
        }
        let dirty = bench.open(0);
        write_pages(&dirty, 0..600).await.expect("memory takes it");
        assert!(bench.cache.statistics().dirty() > 500);
        medium.set_rate(Rate::bytes(0));
        // A store of its own for the reader, because the stalled one serves no request.
        let other = bench.cache.attach(Arc::new(Void)).expect("it is open");
        let wanted = bench
            .cache
            .open(&other, ObjectId(3), 1 << 30)
            .expect("it opens");
        let began = rt.now();
        let reader = rt.spawn("reader", async move { touch(&wanted, 0..5_000).await });
        rt.sleep(Span::from_secs(5)).await;
        assert!(
            reader.is_finished(),
            "5 000 reads in {:?}",
            rt.now() - began
        );
        assert!(
            bench.cache.statistics().dirty() > 500,
            "nothing was written"
        );
        medium.set_rate(Rate::UNLIMITED);
        assert_eq!(dirty.sync().await, Ok(()));
        assert!(bench.has_stored(0..600));
        assert_eq!(bench.count(Counter::NrVmscanWriteFile), 0, "promise 4");
        bench.assert_consistent();
    });
}

#[test]
fn when_all_that_is_not_held_is_dirty_a_reader_waits_for_the_store_alone() {
    simulate(2, |rt| async move {
        let mut medium = None;
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_ratio_percent: 100,
                background_ratio_percent: 99,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(4)
        };
        let bench = Bench::with(rt.clone(), settings, |rt, memory| {
            let store = Arc::new(RateStore::new(rt, memory, Rate::UNLIMITED));
            medium = Some(store.clone());
            store
        });
        let medium = medium.expect("the bench has asked for it");
        let dirty = bench.open(0);
        write_pages(&dirty, 0..200).await.expect("memory takes it");
        assert!(bench.cache.statistics().nr_dirty > 150);
        medium.set_rate(Rate::bytes(0));
        let other = bench.cache.attach(Arc::new(Void)).expect("it is open");
        let clean = bench
            .cache
            .open(&other, ObjectId(3), 1 << 30)
            .expect("it opens");
        let mut guards = Vec::new();
        while bench.cache.statistics().free() > 70 {
            let page = clean.page(guards.len() as u64).await;
            guards.push(page.expect("there are free frames"));
        }
        let reader = clean.clone();
        let reading = rt.spawn("reader", async move { touch(&reader, 5_000..5_150).await });
        rt.sleep(Span::from_secs(5)).await;
        medium.set_rate(Rate::UNLIMITED);
        rt.sleep(Span::from_secs(1)).await;
        assert!(reading.is_finished());
        drop(guards);
        assert_eq!(dirty.sync().await, Ok(()));
        assert!(bench.has_stored(0..200));
        assert_eq!(bench.count(Counter::NrVmscanWriteFile), 0, "promise 4");
        bench.assert_consistent();
    });
}

#[test]
fn after_pressure_kswapd_sleeps_over_balanced_zones() {
    simulate(3, |rt| async move {
        let bench = Bench::with(rt.clone(), Settings::of_mib(8), slow_reads);
        let file = endless(&bench).await;
        touch(&file, 0..10_000).await;
        rt.sleep(Span::from_secs(1)).await;
        for zone in bench.cache.statistics().zones {
            assert!(zone.free > zone.high, "{zone:?}");
        }
        let of_kswapd = |event: &Event| {
            matches!(
                event,
                Event::MmVmscanKswapdSleep { .. } | Event::MmVmscanKswapdWake { .. }
            )
        };
        let last = |bench: &Bench| {
            let mut events = bench.events().into_iter().rev();
            events.find(|(_, event)| of_kswapd(event))
        };
        let fell_asleep = last(&bench).expect("kswapd has run");
        assert!(matches!(fell_asleep.1, Event::MmVmscanKswapdSleep { .. }));
        rt.sleep(Span::from_secs(60)).await;
        assert_eq!(last(&bench), Some(fell_asleep), "and it sleeps on");
        assert!(bench.count(Counter::PgstealKswapd) > 7_000);
        bench.assert_consistent();
    });
}

#[test]
fn pages_touched_twice_outlive_pages_touched_once() {
    simulate(4, |rt| async move {
        let bench = void(rt, Settings::of_mib(8));
        let file = endless(&bench).await;
        touch(&file, 0..400).await;
        touch(&file, 10_000..10_400).await;
        touch(&file, 0..400).await;
        // About as many more as it takes to push out the pages that were touched once.
        touch(&file, 20_000..21_500).await;
        assert_eq!(missing(&bench, &file, 0..400).await, 0, "touched twice");
        assert!(missing(&bench, &file, 10_000..10_400).await > 200);
        bench.assert_consistent();
    });
}

#[test]
fn records_in_the_middle_of_a_page_that_are_read_again_keep_it() {
    simulate(8, |rt| async move {
        let bench = void(rt, Settings::of_mib(8));
        let file = endless(&bench).await;
        for _ in 0..2 {
            for number in 0..400 {
                let mut record = [0; 100];
                let read = file.read_at(&mut record, number * PAGE as u64 + 1_000);
                assert_eq!(read.await, Ok(100));
            }
        }
        touch(&file, 20_000..22_500).await;
        assert_eq!(missing(&bench, &file, 0..400).await, 0);
        bench.assert_consistent();
    });
}

#[test]
fn a_scan_of_ten_times_the_memory_leaves_the_working_set() {
    simulate(5, |rt| async move {
        let bench = void(rt, Settings::of_mib(8));
        let file = endless(&bench).await;
        for _ in 0..3 {
            touch(&file, 0..900).await;
        }
        touch(&file, 100_000..120_000).await;
        let gone = missing(&bench, &file, 0..900).await;
        assert!(gone <= 90, "{gone} of 900 are gone");
        bench.assert_consistent();
    });
}

#[test]
fn a_cyclic_set_displaces_an_old_working_set_that_is_not_used_any_more() {
    simulate(6, |rt| async move {
        let bench = void(rt, Settings::of_mib(8));
        let file = endless(&bench).await;
        for _ in 0..3 {
            touch(&file, 0..1_800).await;
        }
        let first = missing(&bench, &file, 50_000..51_500).await;
        assert!(first >= 1_400);
        for _ in 0..15 {
            touch(&file, 50_000..51_500).await;
        }
        let last = missing(&bench, &file, 50_000..51_500).await;
        assert!(last <= 150, "{last} of 1 500 still miss");
        assert!(bench.count(Counter::WorkingsetActivateFile) > 0);
        bench.assert_consistent();
    });
}

#[test]
fn without_free_swap_anonymous_pages_are_left_alone() {
    simulate(7, |rt| async move {
        let bench = Bench::plain(rt, 4);
        bench.set_swap(ObjectId(9), 301 * PAGE as u64);
        bench.memory.fill(FILE, &pages(0..2_000));
        let file = bench.open(2_000 * PAGE as u64);
        // More and more anonymous memory until swap is full. The pages that were written last have
        // no slot, and are discarded to make room for file pages.
        let memories: Vec<File> = (0..12)
            .map(|_| bench.cache.anonymous(100 * PAGE as u64))
            .map(|memory| memory.expect("each alone has room"))
            .collect();
        let is_full = || bench.cache.statistics().swap_slots_used == 300;
        let mut end = 0;
        while !is_full() {
            let number = end % 100;
            let written = write_pages(&memories[end as usize / 100], number..number + 1).await;
            assert_eq!(written, Ok(()));
            end += 1;
        }
        for _ in 0..60 {
            end -= 1;
            let start = end % 100 * PAGE as u64;
            let discarded = memories[end as usize / 100].discard(start..start + PAGE as u64);
            assert_eq!(discarded.await, Ok(()));
        }
        assert!(is_full());
        let before = bench.count(Counter::PgscanAnon);
        for _ in 0..5 {
            touch(&file, 0..2_000).await;
        }
        assert_eq!(bench.count(Counter::PgscanAnon), before);
        assert!(bench.count(Counter::PgstealDirect) + bench.count(Counter::PgstealKswapd) > 5_000);
        drop(file);
        for at in 0..end {
            let is_there = has_page(&memories[at as usize / 100], at % 100).await;
            assert_eq!(is_there, Ok(true), "page {at}");
        }
        bench.assert_consistent();
    });
}

/// Only what reclaim marked goes to the old end of its list when it is written. A page that was
/// written for another reason, here a sync, stays as young as it was.
#[test]
fn pages_that_a_sync_wrote_are_not_the_next_to_go() {
    simulate(12, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let file = bench.open(0);
        bench.memory.fill(ObjectId(2), &pages(0..1_000));
        let old = bench.open_object(ObjectId(2), 1_000 * PAGE as u64);
        touch(&old, 0..1_000).await;
        write_pages(&file, 0..64).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        // Memory is full after some of these, and the oldest pages go.
        let other = bench.cache.attach(Arc::new(Void)).expect("it is open");
        let other = bench.cache.open(&other, ObjectId(3), 1 << 30);
        touch(&other.expect("it opens"), 0..1_400).await;
        assert_eq!(missing(&bench, &file, 0..64).await, 0);
        let gone = missing(&bench, &old, 0..200).await;
        assert!(gone > 100, "only {gone} of the oldest pages are gone");
    });
}
