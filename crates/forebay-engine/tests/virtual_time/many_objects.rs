//! The memory that objects take counts in the budget, and closed files give theirs back.

use forebay_engine::{BuildError, Cache, Counter, File, Settings, Statistics};

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, has_page, pages, simulate, write_pages};
use forebay_base::{Prng, Span};
use forebay_engine::settings::{NodeSettings, ZoneSettings};
use forebay_rt::Rt;
use forebay_store::{CountStore, Failure, Fault, FaultAction, IoKind, MemoryStore, ObjectId};
use std::ops::Range;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Part of 8 MiB.
const STEP_BYTES: u64 = 32 << 10;

impl Bench {
    fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    fn open_all(&self, objects: Range<u64>) -> Vec<File> {
        objects
            .map(|object| self.open_object(ObjectId(object), PAGE as u64))
            .collect()
    }

    /// Bytes of everything.
    fn all_bytes(&self) -> u64 {
        self.statistics().memory_bytes
    }
}

/// A cache of `mib` MiB in front of a store that counts.
fn counted(rt: Rt, mib: u64) -> (Bench, Arc<CountStore>) {
    let counted = Arc::new(CountStore::new(rt.clone(), Arc::new(Void)));
    let settings = Settings::of_mib(mib);
    let bench = Bench::around(rt, settings, Arc::new(MemoryStore::new()), counted.clone());
    (bench, counted)
}

/// Files of one page each, which is written before the file is closed.
async fn close_dirty(bench: &Bench, objects: Range<u64>) {
    for object in objects {
        let file = bench.open_object(ObjectId(object), 0);
        write_pages(&file, 0..1).await.expect("there is a frame");
    }
}

async fn read_first_page(file: &File) {
    assert_eq!(file.read_at(&mut [0; PAGE], 0).await, Ok(PAGE));
}

#[test]
fn what_objects_take_is_taken_off_the_pages_and_comes_back() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let before = bench.statistics();
        bench.memory.fill(crate::support::FILE, &pages(0..3_000));
        let large = bench.open(3_000 * PAGE as u64);
        for number in 0..3_000 {
            assert_eq!(has_page(&large, number).await, Ok(true), "page {number}");
        }
        let few = bench.open_all(2..12);
        assert_eq!(
            bench.statistics().frames,
            before.frames,
            "a few cost no page"
        );
        let many = bench.open_all(12..1_000);
        bench.settles(Span::from_secs(10)).await;
        assert!(bench.all_bytes() <= 8 * MIB + STEP_BYTES);
        let statistics = bench.statistics();
        assert_eq!(
            statistics.frames + statistics.nr_balloon_pages,
            before.frames
        );
        assert!(statistics.object_bytes > 1_000 * 1_500);
        drop((few, many));
        assert_eq!(
            bench.statistics().object_bytes,
            statistics.object_bytes,
            "remembered"
        );
        // A budget with room for few objects.
        bench.cache.set_memory(MIB).await.expect("it is allowed");
        assert!(bench.statistics().object_bytes <= MIB / 4);
        bench
            .cache
            .set_memory(8 * MIB)
            .await
            .expect("it is allowed");
        assert!(bench.all_bytes() <= 8 * MIB + STEP_BYTES);
        assert!(
            bench.statistics().frames > statistics.frames + 300,
            "the pages are back"
        );
        bench.assert_consistent();
    });
}

/// The files that were closed longest ago and have to stay do not block others: these are written
/// and not durable yet.
#[test]
fn closed_files_make_room_though_older_ones_have_to_stay() {
    simulate(8, |rt| async move {
        let (bench, counted) = counted(rt.clone(), 8);
        let reads = || counted.counts(IoKind::Read).requests;
        let count = 100;
        close_dirty(&bench, 0..count).await;
        // Each open asks four files, so that 25 more are open before the first have been asked.
        let some_bytes = count / 4 * (bench.statistics().object_bytes / count);
        for object in count..3_000 {
            read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
            let statistics = bench.statistics();
            assert!(statistics.object_bytes <= 2 * MIB + some_bytes, "{object}");
        }
        assert!(bench.statistics().object_bytes <= 2 * MIB);
        // The files closed last are known.
        for object in 2_200..3_000 {
            read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
        }
        assert_eq!(reads(), 3_000 - count);
        // When they are durable, they go like all others.
        bench.cache.sync().await.expect("the store is well");
        for object in 3_000..4_000 {
            read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
        }
        read_first_page(&bench.open_object(ObjectId(0), PAGE as u64)).await;
        assert_eq!(reads(), 4_000 - count + 1);
        bench.assert_consistent();
    });
}

#[test]
fn a_smaller_budget_forgets_closed_files_though_older_ones_have_to_stay() {
    simulate(9, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 32);
        let failing = FaultAction::Fail(Failure::Device(5));
        faults.inject(Fault::each(IoKind::Write, failing));
        close_dirty(&bench, 0..100).await;
        drop(bench.open_all(100..3_500));
        let over = bench.cache.set_memory(8 * MIB).await;
        assert_eq!(over, Ok(0));
        assert!(bench.statistics().object_bytes <= 2 * MIB);
        faults.clear();
        let synced = bench.cache.sync().await;
        assert_eq!(synced, Ok(()), "all is made good, and no handle is open");
        bench.assert_consistent();
    });
}

/// Only pages make room for open files.
#[test]
fn objects_that_are_open_leave_half_of_the_pages() {
    simulate(2, |rt| async move {
        let half = Bench::plain(rt.clone(), 8).statistics().frames / 2;
        let bench = Bench::plain(rt, 32);
        let open = bench.open_all(2..6_000);
        let over = bench.cache.set_memory(8 * MIB).await;
        assert_eq!(over, Ok(0), "what objects take beyond it does not count");
        bench.settles(Span::from_secs(10)).await;
        let statistics = bench.statistics();
        assert!(statistics.object_bytes > 8 * MIB);
        let none = bench.cache.open(&bench.store, ObjectId(7_000), 0).map(drop);
        assert!(
            matches!(none, Err(BuildError::TooManyObjects { .. })),
            "{none:?}"
        );
        assert!(
            (half * 3 / 4..half + 9).contains(&statistics.frames),
            "{}",
            statistics.frames
        );
        let file = open[0].clone();
        write_pages(&file, 0..2_000).await.expect("half is enough");
        file.sync().await.expect("the store is well");
        drop(open);
        // No file is opened in its place.
        bench.rt.sleep(Span::from_secs(1)).await;
        assert!(bench.statistics().object_bytes <= 2 * MIB);
        assert!(bench.all_bytes() <= 8 * MIB + STEP_BYTES);
        bench.assert_consistent();
    });
}

#[test]
fn closed_files_that_take_a_quarter_are_forgotten_in_their_order() {
    simulate(3, |rt| async move {
        let (bench, counted) = counted(rt, 8);
        let reads = || counted.counts(IoKind::Read).requests;
        for object in 0..3_000 {
            read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
            assert!(bench.statistics().object_bytes <= 2 * MIB);
        }
        bench.settles(Span::from_secs(10)).await;
        assert!(bench.all_bytes() <= 8 * MIB + STEP_BYTES);
        assert_eq!(reads(), 3_000);
        // The files closed last are known. The others are not, and each of them takes the place of
        // another.
        for object in (2_200..3_000).chain(0..100) {
            read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
        }
        assert_eq!(reads(), 3_100);
        bench.assert_consistent();
    });
}

#[test]
fn a_smaller_budget_forgets_closed_files_though_its_caller_has_left() {
    for waits in [true, false] {
        simulate(4, |rt| async move {
            let (bench, counted) = counted(rt.clone(), 32);
            for object in 0..3_500 {
                read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
            }
            assert!(
                bench.statistics().object_bytes > 6 * MIB,
                "they are remembered"
            );
            let change = Box::pin(bench.cache.set_memory(8 * MIB));
            if waits {
                assert_eq!(change.await, Ok(0));
            } else {
                let left = rt.timeout(Span::ZERO, change).await;
                assert!(left.is_err(), "the caller has left");
                rt.sleep(Span::from_secs(1)).await;
            }
            assert!(bench.statistics().object_bytes <= 2 * MIB);
            assert!(bench.all_bytes() <= 8 * MIB + 4 * STEP_BYTES);
            let before = counted.counts(IoKind::Read).requests;
            for object in 3_000..3_500 {
                read_first_page(&bench.open_object(ObjectId(object), PAGE as u64)).await;
            }
            let read = counted.counts(IoKind::Read).requests - before;
            assert_eq!(read, 0, "the files closed last are kept");
            bench.assert_consistent();
        });
    }
}

/// It counts until its last handle is gone and its pages are dropped.
#[test]
fn places_in_swap_count_as_long_as_the_memory_lives() {
    simulate(5, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        bench.set_swap(ObjectId(0), 2 << 30);
        let before = bench.statistics();
        let memory = bench.cache.anonymous(1 << 30).expect("swap is set");
        bench.settles(Span::from_secs(10)).await;
        let statistics = bench.statistics();
        assert!(statistics.object_bytes > before.object_bytes + MIB);
        assert!(bench.all_bytes() <= 8 * MIB + STEP_BYTES);
        drop(memory);
        rt.sleep(Span::from_secs(1)).await;
        assert_eq!(bench.statistics().object_bytes, before.object_bytes);
        assert_eq!(bench.statistics().frames, before.frames);
        bench.assert_consistent();
    });
}

/// Stores may register the memory again only when all of it is back.
#[test]
fn no_page_stays_away_for_objects_that_are_gone() {
    simulate(10, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        bench.set_swap(ObjectId(0), 4 << 20);
        let before = bench.statistics();
        let memory = || bench.cache.anonymous(PAGE as u64).expect("swap is set");
        // At least one step and less than two.
        let all: Vec<File> = (0..24).map(|_| memory()).collect();
        bench.settles(Span::from_secs(10)).await;
        assert!(bench.statistics().frames < before.frames);
        drop(all);
        rt.sleep(Span::from_secs(1)).await;
        assert_eq!(bench.statistics().frames, before.frames);
        bench.assert_consistent();
    });
}

/// A pass that finds little asks for more and more of what is beside the pages.
#[test]
fn reclaim_that_finds_little_takes_closed_files_without_pages() {
    simulate(6, |rt| async move {
        let bench = Bench::plain(rt.clone(), 16);
        bench.memory.fill(crate::support::FILE, &pages(0..4_000));
        let large = bench.open(4_000 * PAGE as u64);
        drop(bench.open_all(2..1_800));
        bench.settles(Span::from_secs(10)).await;
        let before = bench.statistics();
        let mut guards = Vec::new();
        for number in 0..4_000 {
            match large.page(number).await {
                Ok(guard) => guards.push(guard),
                Err(_) => break,
            }
        }
        let statistics = bench.statistics();
        assert!(bench.count(Counter::SlabsScanned) > 0);
        assert!(before.object_bytes > 3 * MIB, "{}", before.object_bytes);
        assert!(statistics.object_bytes < MIB, "{}", statistics.object_bytes);
        drop(guards);
        bench.assert_consistent();
    });
}

/// A zone that is given a number of frames has that many.
#[test]
fn frames_that_were_given_stay() {
    simulate(7, |rt| async move {
        let zone = ZoneSettings {
            managed_pages: Some(1_000),
            ..ZoneSettings::default()
        };
        let settings = Settings {
            nodes: vec![NodeSettings { zones: vec![zone] }],
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt, settings, |_, memory| memory);
        let before = bench.statistics();
        let open = bench.open_all(2..3_000);
        assert_eq!(bench.statistics().frames, before.frames);
        drop(open);
        drop(bench.open_all(3_000..6_000));
        let statistics = bench.statistics();
        assert_eq!(
            (statistics.frames, statistics.pages_over),
            (before.frames, 0)
        );
        assert!(
            statistics.object_bytes > 5_998 * 1_500,
            "all are remembered"
        );
        bench.assert_consistent();
    });
}

/// Files come and go, some are written, memory comes and goes, and the budget changes.
#[test]
fn nothing_is_lost_while_objects_come_and_go() {
    for seed in 0..10 {
        simulate(seed, |rt| async move {
            let bench = Bench::plain(rt.clone(), 4);
            let mut chance = Prng::from_seed(seed);
            let mut written = vec![None; 2_000];
            let mut open = Vec::new();
            for round in 0..4_000_u64 {
                let object = chance.below(written.len() as u64);
                let length_bytes = written[object as usize].map_or(0, |_| PAGE as u64);
                let file = bench.open_object(ObjectId(object + 1), length_bytes);
                if let Some(number) = written[object as usize] {
                    let mut bytes = vec![0; PAGE];
                    assert_eq!(file.read_at(&mut bytes, 0).await, Ok(PAGE));
                    assert_eq!(bytes, crate::support::page_of(number), "object {object}");
                }
                if chance.chance(1, 2) {
                    let page = crate::support::page_of(round);
                    file.write_at(&page, 0).await.expect("the store is well");
                    written[object as usize] = Some(round);
                }
                if chance.chance(1, 4) {
                    open.push(file);
                }
                if open.len() > 200 {
                    open.clear();
                }
                if chance.chance(1, 200) {
                    let mib = 1 + chance.below(4);
                    let change = bench.cache.set_memory(mib * MIB);
                    // Now and then the caller gives up.
                    let _ = rt
                        .timeout(Span::from_micros(chance.below(2_000)), change)
                        .await;
                }
            }
            bench.assert_consistent();
        });
    }
}

/// Memory is a number: with a small budget an open is refused at last, and a file that is closed
/// makes room.
#[test]
fn open_files_take_no_more_than_half_of_the_budget() {
    simulate(77, |rt| async move {
        let bench = Bench::plain(rt, 16);
        let mut files = Vec::new();
        let refused = loop {
            let object = ObjectId(files.len() as u64);
            match bench.cache.open(&bench.store, object, 0) {
                Ok(file) => files.push(file),
                Err(refused) => break refused,
            }
            assert!(files.len() < 65_536, "16 MiB do not hold all of these");
        };
        let limit = files.len() as u32;
        assert_eq!(refused, BuildError::TooManyObjects { limit });
        assert!(limit > 1_000, "{limit}");
        let statistics = bench.cache.statistics();
        assert!(
            statistics.object_bytes <= 8 << 20,
            "{}",
            statistics.object_bytes
        );
        let again = bench.cache.open(&bench.store, ObjectId(7), 0);
        assert!(again.is_ok(), "it is open already");
        files.pop();
        let other = bench.cache.open(&bench.store, ObjectId(1 << 40), 0);
        assert!(other.is_ok(), "{other:?}");
    });
}

#[test]
fn a_budget_that_the_machine_cannot_have_is_refused_before_it_is_touched() {
    for prefault in [true, false] {
        let refused = Cache::new(Settings {
            memory_bytes: 1 << 40,
            prefault,
            ..Settings::default()
        });
        let refused = refused.map(drop).expect_err("no machine of ours has that");
        let is_it = matches!(
            refused,
            BuildError::TooMuchMemory { given_bytes, available_bytes }
                if given_bytes == 1 << 40 && available_bytes < given_bytes
        );
        assert!(is_it, "{refused}");
    }
}
