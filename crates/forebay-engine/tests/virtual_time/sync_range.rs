//! `sync_range`: what was written to a range is durable when it returns, and it waits for nothing
//! else.

use crate::support::{
    Bench, FILE, OfSize, PAGE, has_page, memory_of, page_of, simulate, sync_failure, write_pages,
};
use forebay_base::Span;
use forebay_engine::Settings;
use forebay_store::{Durability, Failure, Fault, FaultAction, FaultWhen, IoKind};

const BROKEN: Failure = Failure::Device(5);

fn bytes(pages: std::ops::Range<u64>) -> std::ops::Range<u64> {
    pages.start * PAGE as u64..pages.end * PAGE as u64
}

/// `action` for each write that touches `pages`.
fn writes_of(pages: std::ops::Range<u64>, action: FaultAction) -> Fault {
    Fault {
        range_bytes: Some(bytes(pages)),
        ..Fault::each(IoKind::Write, action)
    }
}

#[test]
fn the_pages_that_the_range_touches_are_durable_and_the_others_dirty() {
    for durability in [
        Durability::OnFinish,
        Durability::OnCommit,
        Durability::Unstable,
    ] {
        simulate(1, |rt| async move {
            let memory = memory_of(durability);
            let (bench, _) = Bench::faulty_over(rt, Settings::of_mib(32), memory);
            let file = bench.open(0);
            write_pages(&file, 0..200).await.expect("memory takes it");
            // From the last byte of one page to the first byte of another.
            let range = 10 * PAGE as u64 - 1..20 * PAGE as u64 + 1;
            assert_eq!(file.sync_range(range).await, Ok(()));
            assert!(bench.has_stored(9..21), "{durability:?}");
            let statistics = bench.cache.statistics();
            assert_eq!(statistics.dirty(), 200 - 12, "{durability:?}");
            assert_eq!(file.sync_range(bytes(0..0)).await, Ok(()));
            assert_eq!(file.sync_range(5..u64::MAX).await, Ok(()));
            assert!(bench.has_stored(0..200));
            assert_eq!(bench.cache.statistics().dirty(), 0);
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_write_beside_the_range_that_is_never_answered_is_not_waited_for() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 50..60).await.expect("memory takes it");
        faults.inject(writes_of(50..60, FaultAction::NeverAnswer));
        let other = file.clone();
        let stuck = bench.rt.spawn("stuck", async move {
            assert_eq!(other.sync().await, Ok(()));
        });
        bench.rt.sleep(Span::from_millis(10)).await;
        assert_eq!(faults.injected(IoKind::Write), 1);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let began = bench.rt.now();
        assert_eq!(file.sync_range(bytes(0..10)).await, Ok(()));
        assert!(bench.rt.now().since(began) < Span::from_millis(100));
        assert!(bench.has_stored(0..10) && !stuck.is_finished());
        faults.clear();
        faults.release();
        stuck.join().await;
        assert!(bench.has_stored(50..60));
        bench.assert_consistent();
    });
}

#[test]
fn a_write_of_the_range_that_is_under_way_is_waited_for() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let delay = Span::from_millis(300);
        faults.inject(writes_of(0..10, FaultAction::Delay(delay)));
        let other = file.clone();
        let first = bench.rt.spawn("first", async move {
            assert_eq!(other.sync().await, Ok(()));
        });
        bench.rt.sleep(Span::from_millis(10)).await;
        assert_eq!(file.sync_range(bytes(3..4)).await, Ok(()));
        assert!(bench.has_stored(0..10), "it was on its way");
        first.join().await;
        bench.assert_consistent();
    });
}

#[test]
fn a_failure_in_the_range_is_reported_and_the_pages_are_kept() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let (file, other) = (bench.open(0), bench.open(0));
        write_pages(&file, 0..20).await.expect("memory takes it");
        faults.inject(writes_of(0..10, FaultAction::Fail(BROKEN)));
        assert_eq!(
            sync_failure(file.sync_range(bytes(0..10)).await),
            Some(BROKEN)
        );
        assert_eq!(file.failed_pages(), 10);
        assert_eq!(
            sync_failure(file.sync_range(bytes(0..1)).await),
            Some(BROKEN),
            "it was tried again, and failed again"
        );
        assert_eq!(file.sync_range(bytes(10..20)).await, Ok(()));
        assert!(bench.has_stored(10..20));
        assert_eq!(
            sync_failure(other.sync_range(bytes(10..20)).await),
            Some(BROKEN),
            "reported to every handle"
        );
        faults.clear();
        assert_eq!(file.sync_range(bytes(0..10)).await, Ok(()));
        assert!(bench.has_stored(0..20) && file.failed_pages() == 0);
        bench.assert_consistent();
    });
}

#[test]
fn two_syncs_of_one_handle_both_report_their_failures() {
    simulate(5, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..2).await.expect("memory takes it");
        faults.inject(writes_of(0..2, FaultAction::Fail(Failure::NoSpace)));
        let mut results = [None; 2];
        {
            // Both begin before either ends, and the first takes the failure that was not reported
            // to the handle yet.
            let mut first = std::pin::pin!(file.sync_range(bytes(0..1)));
            let mut second = std::pin::pin!(file.sync_range(bytes(1..2)));
            let ends = std::future::poll_fn(|context| {
                for (result, sync) in results.iter_mut().zip([&mut first, &mut second]) {
                    if result.is_none()
                        && let std::task::Poll::Ready(ended) = sync.as_mut().poll(context)
                    {
                        *result = Some(sync_failure(ended));
                    }
                }
                if results.iter().all(Option::is_some) {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            });
            ends.await;
        }
        assert_eq!(results, [Some(Some(Failure::NoSpace)); 2]);
        bench.assert_consistent();
    });
}

#[test]
fn a_failed_commit_is_reported_and_tried_again() {
    for durability in [Durability::OnCommit, Durability::Unstable] {
        simulate(6, |rt| async move {
            let memory = memory_of(durability);
            let (bench, faults) = Bench::faulty_over(rt, Settings::of_mib(8), memory);
            let file = bench.open(0);
            write_pages(&file, 0..5).await.expect("memory takes it");
            faults.inject(Fault {
                when: FaultWhen::First(1),
                ..Fault::each(IoKind::Commit, FaultAction::Fail(BROKEN))
            });
            assert_eq!(
                sync_failure(file.sync_range(bytes(0..5)).await),
                Some(BROKEN)
            );
            assert_eq!(file.sync_range(bytes(0..5)).await, Ok(()));
            assert_eq!(bench.cache.statistics().dirty(), 0, "{durability:?}");
            bench.assert_consistent();
        });
    }
}

#[test]
fn it_ends_while_others_write_the_same_range_without_rest() {
    simulate(7, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        faults.inject(writes_of(0..64, FaultAction::Delay(Span::from_millis(2))));
        let file = bench.open(0);
        write_pages(&file, 0..64).await.expect("memory takes it");
        let (writer, rt) = (file.clone(), bench.rt.clone());
        let writing = bench.rt.spawn("writer", async move {
            for round in 0..20_000_u64 {
                write_pages(&writer, round % 64..round % 64 + 1)
                    .await
                    .expect("memory takes it");
                rt.sleep(Span::from_micros(50)).await;
            }
        });
        for _ in 0..20 {
            assert_eq!(file.sync_range(bytes(8..16)).await, Ok(()));
        }
        assert!(!writing.is_finished(), "the sync did not wait for it");
        writing.join().await;
        assert_eq!(has_page(&file, 9).await, Ok(true));
        bench.assert_consistent();
    });
}

/// The longest object has 2^40 pages.
#[test]
fn pages_far_out_are_written_like_others() {
    let page = |number: u64| number * PAGE as u64;
    for far in [(1 << 38) - 1, 1 << 38, (1 << 40) - 1] {
        simulate(1, |rt| async move {
            let bench = Bench::plain(rt, 8);
            let file = bench.open(0);
            write_pages(&file, 0..1).await.expect("memory takes it");
            let there = page_of(far);
            assert_eq!(file.write_at(&there, page(far)).await, Ok(()));
            assert_eq!(file.sync_range(page(far)..page(far) + 1).await, Ok(()));
            assert_eq!(bench.memory.length_bytes(FILE), page(far + 1));
            assert_eq!(bench.cache.statistics().dirty(), 1);
            assert_eq!(file.sync().await, Ok(()));
            assert_eq!(bench.cache.statistics().dirty(), 0);
            bench.assert_consistent();
        });
    }
}

#[test]
fn the_length_is_durable_though_what_made_the_file_longer_is_not_written() {
    for durability in [
        Durability::OnFinish,
        Durability::OnCommit,
        Durability::Unstable,
    ] {
        simulate(7, |rt| async move {
            let memory = memory_of(durability);
            let (bench, faults) = Bench::faulty_over(rt, Settings::of_mib(8), memory);
            let file = bench.open(0);
            write_pages(&file, 0..100).await.expect("memory takes it");
            let end = 100 * PAGE as u64 + 5;
            assert_eq!(file.write_at(b"a end", end - 5).await, Ok(()));
            assert_eq!(file.sync_range(bytes(0..10)).await, Ok(()));
            assert_eq!(bench.memory.length_bytes(FILE), end, "{durability:?}");
            assert_eq!(bench.cache.statistics().dirty(), 91);
            assert!(!file.owes_commit());
            // Once the store knows it, it is not sent again.
            faults.inject(Fault::each(IoKind::SetLength, FaultAction::Fail(BROKEN)));
            write_pages(&file, 0..20).await.expect("memory takes it");
            assert_eq!(file.sync_range(bytes(0..10)).await, Ok(()));
            assert_eq!(file.sync().await, Ok(()));
            assert!(bench.has_stored(0..100));
            bench.assert_consistent();
        });
    }
}

#[test]
fn objects_are_synced_side_by_side() {
    simulate(8, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 16);
        let late = FaultAction::Delay(Span::from_millis(10));
        faults.inject(Fault::each(IoKind::Write, late));
        let files: Vec<_> = (0..400)
            .map(|number| bench.open_object(forebay_store::ObjectId(number), 0))
            .collect();
        for file in &files {
            write_pages(file, 0..1).await.expect("memory takes it");
        }
        let began = bench.rt.now();
        assert_eq!(bench.cache.sync().await, Ok(()));
        let took = bench.rt.now().since(began);
        assert!(took < Span::from_millis(4_000 / 8), "{took:?}");
        assert_eq!(bench.cache.statistics().dirty(), 0);
        bench.assert_consistent();
    });
}
