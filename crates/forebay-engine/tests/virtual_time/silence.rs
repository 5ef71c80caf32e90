//! A store that never answers: a typed error in bounded time, and all is well once it speaks.

use crate::support::{
    Bench, FILE, OfSize, PAGE, has_page, memory_of, pages, simulate, write_pages,
};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::settings::{BackingSettings, DirtyKnobs};
use forebay_engine::{AccessError, Counter, Settings, SyncError};
use forebay_kernels::Policy;
use forebay_store::{
    Durability, Fault, FaultAction, FaultStore, FaultWhen, IoKind, MemoryStore, ObjectId, Rate,
    RateStore,
};
use std::pin::pin;
use std::sync::Arc;

/// The longest that a call may wait for an event that never comes: the two timeouts of the usual
/// settings, 30 s and 5 s, one after the other.
const BOUND: Span = Span::from_secs(36);

/// Pages that a call may dirty before it may have to pause.
const STRETCH_PAGES: u64 = 64;

fn silence(kind: IoKind) -> Fault {
    Fault::each(kind, FaultAction::NeverAnswer)
}

/// Ends the silence and lets the held requests land.
async fn speak(bench: &Bench, faults: &FaultStore) {
    faults.clear();
    faults.release();
    bench.rt.sleep(Span::from_millis(10)).await;
}

#[test]
fn a_read_that_is_never_answered_ends_and_works_later() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        bench.memory.fill(FILE, &pages(0..100));
        let file = bench.open(100 * PAGE as u64);
        faults.inject(silence(IoKind::Read));
        for _ in 0..2 {
            let began = bench.rt.now();
            let read = has_page(&file, 50).await;
            let silent = matches!(
                read,
                Err(AccessError::NotAnswering {
                    object: 1,
                    page_index: 50,
                    ..
                })
            );
            assert!(silent, "{read:?}");
            assert!(bench.rt.now().since(began) <= BOUND);
        }
        assert!(bench.count(Counter::WaitsOverdue) > 0, "it was reported");
        speak(&bench, &faults).await;
        for number in 0..100 {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        bench.assert_consistent();
    });
}

#[test]
fn a_sync_that_is_never_answered_ends_and_works_later() {
    for kind in [IoKind::Write, IoKind::Commit] {
        simulate(4, |rt| async move {
            let memory = memory_of(Durability::OnCommit);
            let (bench, faults) = Bench::faulty_over(rt, Settings::of_mib(8), memory);
            let file = bench.open(0);
            write_pages(&file, 0..50).await.expect("memory takes it");
            faults.inject(silence(kind));
            for _ in 0..2 {
                let began = bench.rt.now();
                let synced = file.sync().await;
                assert!(
                    matches!(synced, Err(SyncError::NotAnswering { object: 1, .. })),
                    "{synced:?}"
                );
                assert!(bench.rt.now().since(began) <= BOUND);
            }
            write_pages(&file, 50..60).await.expect("memory takes it");
            speak(&bench, &faults).await;
            assert_eq!(file.sync().await, Ok(()), "{kind:?}");
            assert!(bench.has_stored(0..60));
            bench.assert_consistent();
        });
    }
}

#[test]
fn writers_to_a_store_that_never_answers_get_an_error() {
    simulate(5, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        faults.inject(silence(IoKind::Write));
        let mut written = 0;
        let error = loop {
            let began = bench.rt.now();
            let outcome = write_pages(&file, written..written + 1).await;
            let took = bench.rt.now().since(began);
            assert!(took <= BOUND, "page {written} took {took}");
            match outcome {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 4_000, "8 MiB hold 2 000 pages");
        };
        assert!(
            matches!(
                error,
                AccessError::NotAnswering { .. } | AccessError::NoFrames { .. }
            ),
            "{error}"
        );
        speak(&bench, &faults).await;
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(write_pages(&file, written..written + 100).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..written + 100));
        bench.assert_consistent();
    });
}

fn assert_ahead_by_at_most(bench: &Bench, pages: u64) {
    let statistics = bench.cache.statistics();
    let limit = statistics.dirty_limit.max(statistics.nr_dirty_threshold);
    let dirty = statistics.dirty();
    assert!(dirty <= limit + pages, "{dirty} of {limit} pages");
}

#[test]
fn a_writer_that_is_refused_or_gives_up_is_never_further_ahead_than_by_one_stretch() {
    for patience in [Span::from_secs(60), Span::from_millis(250)] {
        simulate(6, |rt| async move {
            let (bench, faults) = Bench::faulty(rt, 8);
            let file = bench.open(0);
            faults.inject(silence(IoKind::Write));
            let mut came_back = 0;
            for call in 0..20 {
                let first = call * STRETCH_PAGES;
                let bytes = pages(first..first + STRETCH_PAGES);
                let write = pin!(file.write_at(&bytes, first * PAGE as u64));
                let is_done = matches!(bench.rt.timeout(patience, write).await, Ok(Ok(())));
                came_back += u64::from(!is_done);
                assert_ahead_by_at_most(&bench, STRETCH_PAGES);
            }
            assert!(came_back > 5, "{came_back} calls did not end");
            speak(&bench, &faults).await;
            assert_eq!(file.write_at(&pages(0..1), 0).await, Ok(()));
            assert_eq!(file.sync().await, Ok(()));
            bench.assert_consistent();
        });
    }
}

#[test]
fn calls_of_one_writer_at_once_are_ahead_by_a_stretch_each_at_most() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = Arc::new(bench.open(0));
        faults.inject(silence(IoKind::Write));
        let tasks: Vec<_> = (0..2u64)
            .map(|task| {
                let file = file.clone();
                bench.rt.spawn("writer", async move {
                    for call in 0..20u64 {
                        let first = (2 * call + task) * STRETCH_PAGES;
                        let bytes = pages(first..first + STRETCH_PAGES);
                        let _ = file.write_at(&bytes, first * PAGE as u64).await;
                    }
                })
            })
            .collect();
        for _ in 0..1000 {
            bench.rt.sleep(Span::from_millis(100)).await;
            assert_ahead_by_at_most(&bench, 2 * STRETCH_PAGES);
        }
        assert!(bench.count(Counter::WaitsOverdue) > 2, "both were refused");
        drop(tasks);
    });
}

/// A store without any writes yet is not measured, and what stops its writers is not its own fault.
#[test]
fn a_fresh_store_is_written_to_while_another_never_answers() {
    for durability in [Durability::OnFinish, Durability::Unstable] {
        simulate(5, |rt| async move {
            let (bench, faults) = Bench::faulty(rt, 8);
            let file = bench.open(0);
            faults.inject(silence(IoKind::Write));
            let mut written = 0;
            while write_pages(&file, written..written + 1).await.is_ok() {
                written += 1;
                assert!(written < 4_000, "8 MiB hold 2 000 pages");
            }
            let store = bench.cache.attach(Arc::new(memory_of(durability)));
            let store = store.expect("a second store is attached");
            let other = bench.cache.open(&store, FILE, 0).expect("it opens");
            let began = bench.rt.now();
            assert_eq!(write_pages(&other, 0..64).await, Ok(()));
            let took = bench.rt.now().since(began);
            assert!(took <= Span::from_secs(2), "{durability:?}: {took}");
            speak(&bench, &faults).await;
            assert_eq!(bench.cache.sync().await, Ok(()));
            assert!(bench.has_stored(0..written));
            bench.assert_consistent();
        });
    }
}

/// The same, while memory goes to swap in that store all the time.
#[test]
fn a_fresh_store_with_swap_is_written_to_while_another_never_answers() {
    simulate(7, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        faults.inject(silence(IoKind::Write));
        let mut written = 0;
        while write_pages(&file, written..written + 1).await.is_ok() {
            written += 1;
            assert!(written < 4_000, "8 MiB hold 2 000 pages");
        }
        let rate = Rate::bytes(1_024 * PAGE as u64);
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(RateStore::new(rt.clone(), memory.clone(), rate));
        let store = bench.cache.attach(store).expect("a second store");
        let swap = bench.cache.set_swap(&store, ObjectId(9), 64 << 20);
        assert_eq!(swap, Ok(()));
        let other = bench.cache.open(&store, FILE, 0).expect("it opens");
        let others = bench.cache.anonymous(8_192 * PAGE as u64);
        let others = others.expect("swap holds it");
        rt.spawn("others", async move {
            loop {
                // It goes on, whether or not it fails for lack of a frame.
                let _ = write_pages(&others, 0..8_192).await;
            }
        });
        rt.sleep(Span::from_secs(1)).await;
        let writes = rt.timeout(Span::from_secs(60), write_pages(&other, 0..24));
        assert_eq!(writes.await.ok(), Some(Ok(())));
        let syncs = rt.timeout(Span::from_secs(60), other.sync());
        assert_eq!(syncs.await.ok(), Some(Ok(())));
        assert!(memory.snapshot(FILE) == pages(0..24));
    });
}

#[test]
fn a_truncate_that_is_never_answered_ends_and_cuts_nothing_that_came_later() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..silence(IoKind::SetLength)
        });
        let began = bench.rt.now();
        let cut = file.truncate(2 * PAGE as u64).await;
        assert!(cut.is_err(), "{cut:?}");
        assert!(bench.rt.now().since(began) <= BOUND);
        // A write past the end now either has to wait or is written for good.
        let began = bench.rt.now();
        let late = write_pages(&file, 4..6).await;
        assert!(bench.rt.now().since(began) <= BOUND);
        let synced = file.sync().await;
        speak(&bench, &faults).await;
        assert_eq!(
            write_pages(&file, 6..8).await,
            Ok(()),
            "{late:?} {synced:?}"
        );
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..2) && bench.has_stored(6..8));
        assert!(late.is_err() || bench.has_stored(4..6));
        assert_eq!(bench.memory.length_bytes(FILE), file.len());
        bench.assert_consistent();
    });
}

#[test]
fn a_reader_that_waits_for_writes_that_are_never_committed_fails() {
    simulate(7, |rt| async move {
        let memory = memory_of(Durability::Unstable);
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_bytes: 16 * PAGE as u64,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(4)
        }
        .under(Policy::preset("linux-3.0").expect("it is one of the presets"));
        let (bench, faults) = Bench::faulty_over(rt, settings, memory);
        let file = bench.open(0);
        faults.inject(silence(IoKind::Commit));
        // Pages that are written and not committed count as under writeback, far above the limit.
        let written = file.write_at(&pages(0..64), 0).await;
        assert!(bench.cache.statistics().nr_writeback > 20, "{written:?}");
        let other = bench.open_object(ObjectId(2), 4_000 * PAGE as u64);
        let mut buffer = vec![0; PAGE];
        for number in 0..2_000 {
            let read = other.read_at(&mut buffer, number * PAGE as u64);
            let read = bench.rt.timeout(BOUND + BOUND, read).await;
            match read.expect("it ends in bounded time") {
                Ok(length) => assert_eq!(length, PAGE),
                Err(error) => {
                    assert!(matches!(error, AccessError::NoFrames { .. }), "{error}");
                    break;
                }
            }
        }
        speak(&bench, &faults).await;
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(other.read_at(&mut buffer, 0).await, Ok(PAGE));
        bench.assert_consistent();
    });
}

#[test]
fn reclaim_that_waits_for_a_full_queue_gives_up_and_reports_it() {
    simulate(8, |rt| async move {
        let settings = Settings {
            dirty: DirtyKnobs {
                dirty_ratio_percent: 90,
                background_ratio_percent: 80,
                ..DirtyKnobs::default()
            },
            ..Settings::of_mib(8)
        }
        .under(Policy::preset("linux-3.0").expect("it is one of the presets"));
        let (bench, _) = Bench::faulty_over(rt.clone(), settings, MemoryStore::new());
        let memory = Arc::new(MemoryStore::new());
        let faults = Arc::new(FaultStore::new(rt, memory.clone()));
        let narrow = BackingSettings {
            queue_requests: 2,
            ..BackingSettings::default()
        };
        let attached = bench.cache.attach_with(faults.clone(), narrow);
        let attached = attached.expect("a second one is attached");
        let file = bench.cache.open(&attached, FILE, 0).expect("it opens");
        write_pages(&file, 0..700).await.expect("memory takes it");
        faults.inject(silence(IoKind::Write));
        let other = bench.open_object(ObjectId(2), 4_000 * PAGE as u64);
        let mut buffer = vec![0; PAGE];
        let is_reported = |(_, event): &(u64, Event)| {
            let what = "room in the queue of a store";
            matches!(event, Event::WaitOverdue { what: answer, .. } if *answer == what)
        };
        for number in 0..4_000 {
            let read = other.read_at(&mut buffer, number * PAGE as u64);
            let read = bench.rt.timeout(BOUND + BOUND, read).await;
            let _ = read.expect("it ends in bounded time");
            if bench.events().iter().any(is_reported) {
                break;
            }
        }
        bench.rt.sleep(BOUND).await;
        assert!(bench.events().iter().any(is_reported), "kswapd still waits");
        speak(&bench, &faults).await;
        assert_eq!(file.sync().await, Ok(()));
        assert!(memory.snapshot(FILE) == pages(0..700));
        bench.assert_consistent();
    });
}

#[test]
fn a_sync_does_not_wait_for_a_lost_request_while_others_end() {
    simulate(31, |rt| async move {
        let settings = Settings {
            answer_timeout: Span::from_secs(1),
            ..Settings::of_mib(8)
        };
        let (bench, faults) = Bench::faulty_over(rt, settings, MemoryStore::new());
        let other = bench.open_object(ObjectId(2), 0);
        let file = bench.open(0);
        write_pages(&file, 0..4).await.expect("memory takes it");
        faults.inject(Fault {
            object: Some(FILE),
            when: FaultWhen::First(1),
            ..silence(IoKind::Write)
        });
        let busy = async {
            // The other object, and later pages of this one, are written all the time.
            for number in 0_u64.. {
                for written in [&other, &file] {
                    let page = 10 + number % 50;
                    let done = write_pages(written, page..page + 1).await;
                    done.expect("memory takes it");
                }
                other.sync().await.expect("the store answers");
                bench.rt.sleep(Span::from_millis(50)).await;
            }
        };
        let began = bench.rt.now();
        let synced = {
            let (mut busy, mut sync) = (pin!(busy), pin!(file.sync()));
            std::future::poll_fn(|context| {
                let _ = busy.as_mut().poll(context);
                sync.as_mut().poll(context)
            })
            .await
        };
        assert!(
            matches!(synced, Err(SyncError::NotAnswering { object: 1, .. })),
            "{synced:?}"
        );
        let took = bench.rt.now().since(began);
        assert!(took <= Span::from_secs(8), "{took}");
        // Others may be served first, so silence of its own for one answer proves nothing.
        assert!(took >= Span::from_secs(3), "{took}");
        assert!(bench.count(Counter::WaitsOverdue) > 0, "it was reported");
        speak(&bench, &faults).await;
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}
