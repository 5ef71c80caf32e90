//! A failure at each point: nothing dirty is dropped, the failure is reported to each handle once,
//! the next call works, and after the repair every byte is where it belongs (promise 2).

use crate::support::{
    Bench, FILE, OfSize, PAGE, has_page, memory_of, page_of, pages, simulate, sync_failure,
    write_pages,
};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::{AccessError, Counter, Settings};
use forebay_store::{
    Durability, Failure, Fault, FaultAction, FaultWhen, Geometry, IoKind, MemoryStore, ObjectId,
    Store,
};

const BROKEN: Failure = Failure::Device(5);

fn fails(kind: IoKind) -> Fault {
    Fault::each(kind, FaultAction::Fail(BROKEN))
}

fn failure_of<T: Copy>(result: Result<T, AccessError>) -> Option<Failure> {
    match result {
        Err(AccessError::Store(error)) => Some(error.failure),
        _ => None,
    }
}

#[test]
fn pages_whose_write_failed_stay_dirty_and_are_written_after_the_repair() {
    simulate(1, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        faults.inject(fails(IoKind::Write));
        assert_eq!(sync_failure(file.sync().await), Some(BROKEN));
        assert_eq!(file.failed_pages(), 10);
        let statistics = bench.cache.statistics();
        assert_eq!(statistics.nr_dirty, 10, "they count as dirty");
        // Each page was tried together with all others, with half of them, and so on down to alone.
        let failed = statistics.get(Counter::NrWriteFailed);
        assert!((20..=50).contains(&failed), "{failed}");
        bench.assert_consistent();
        for number in 0..10 {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        write_pages(&file, 10..12)
            .await
            .expect("the next call works");
        faults.clear();
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(file.failed_pages(), 0);
        assert!(bench.has_stored(0..12));
        bench.assert_consistent();
    });
}

#[test]
fn every_open_handle_reports_a_failure_once() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let (first, second) = (bench.open(0), bench.open(0));
        write_pages(&first, 0..1).await.expect("memory takes it");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..fails(IoKind::Write)
        });
        assert_eq!(sync_failure(first.sync().await), Some(BROKEN));
        assert_eq!(first.sync().await, Ok(()), "reported once, and all is well");
        let later = bench.open(0);
        assert_eq!(later.sync().await, Ok(()), "another handle has reported it");
        assert_eq!(sync_failure(second.sync().await), Some(BROKEN));
        assert_eq!(second.sync().await, Ok(()));
        assert!(bench.has_stored(0..1));
    });
}

#[test]
fn a_handle_that_closes_sees_a_failure_without_taking_it() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let (writer, other) = (bench.open(0), bench.open(0));
        assert!(writer.is_written());
        write_pages(&writer, 0..2).await.expect("memory takes it");
        assert_eq!((writer.dirty_pages(), writer.is_written()), (2, false));
        assert_eq!(writer.unreported_failure(), Ok(()), "nothing was tried yet");
        assert_eq!(writer.dirty_pages(), 2, "asking writes nothing");
        faults.inject(fails(IoKind::Write));
        assert_eq!(sync_failure(other.sync().await), Some(BROKEN));
        assert_eq!(other.unreported_failure(), Ok(()), "its sync reported it");
        for _ in 0..2 {
            assert_eq!(sync_failure(writer.unreported_failure()), Some(BROKEN));
        }
        faults.clear();
        assert_eq!(sync_failure(writer.sync().await), Some(BROKEN));
        assert_eq!(writer.unreported_failure(), Ok(()), "it was reported");
        assert_eq!(writer.sync().await, Ok(()));
        assert!(writer.is_written());
    });
}

/// A writer leaves, its pages are refused, and then there is room again.
async fn leave_unreported(bench: &Bench) {
    let writer = bench.open(0);
    write_pages(&writer, 0..3).await.expect("memory takes it");
    drop(writer);
}

#[test]
fn an_unreported_failure_waits_for_the_next_handle_while_it_is_not_made_good() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        leave_unreported(&bench).await;
        faults.inject(fails(IoKind::Write));
        bench.rt.sleep(Span::from_secs(120)).await;
        let opened_later = bench.open(0);
        assert_eq!(sync_failure(opened_later.sync().await), Some(BROKEN));
    });
}

#[test]
fn a_failure_made_good_is_no_news_to_a_handle_opened_after_it() {
    // The room comes back before the handle is opened, between its opening and its sync, or only
    // its own sync writes the pages.
    for (good_before, waits) in [(true, true), (false, true), (false, false)] {
        simulate(3, |rt| async move {
            let (bench, faults) = Bench::faulty(rt, 8);
            let bystander = bench.open(0);
            leave_unreported(&bench).await;
            faults.inject(fails(IoKind::Write));
            bench.rt.sleep(Span::from_secs(120)).await;
            if good_before {
                faults.clear();
                bench.rt.sleep(Span::from_secs(120)).await;
                assert!(bench.has_stored(0..3), "it was tried again without a sync");
            }
            let opened_later = bench.open(0);
            faults.clear();
            if waits {
                bench.rt.sleep(Span::from_secs(120)).await;
            }
            assert_eq!(opened_later.unreported_failure().is_ok(), waits);
            assert_eq!(opened_later.sync().await, Ok(()), "everything is written");
            assert!(bench.has_stored(0..3));
            // It was open when the failure happened, and hears of it once.
            assert_eq!(sync_failure(bystander.sync().await), Some(BROKEN));
            assert_eq!(bystander.sync().await, Ok(()));
            assert_eq!(bench.open(0).sync().await, Ok(()));
        });
    }
}

#[test]
fn failed_writes_are_tried_again_ever_less_often() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..1).await.expect("memory takes it");
        faults.inject(fails(IoKind::Write));
        bench.rt.sleep(Span::from_secs(600)).await;
        let failed_ms: Vec<u64> = bench
            .events()
            .into_iter()
            .filter_map(|(at_ms, event)| {
                matches!(event, Event::WritebackFailed { .. }).then_some(at_ms)
            })
            .collect();
        let waits_ms: Vec<u64> = failed_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits_ms.len() > 10, "{waits_ms:?}");
        // The flusher looks every five seconds.
        let look_ms = 5_000;
        for (number, &wait_ms) in waits_ms.iter().enumerate() {
            let least_ms = (1_000_u64 << number.min(20)).min(60_000);
            assert!(
                (least_ms..=least_ms + look_ms + 100).contains(&wait_ms),
                "wait {number} of {waits_ms:?}"
            );
        }
        faults.clear();
        bench.rt.sleep(Span::from_secs(70)).await;
        assert!(bench.has_stored(0..1));
        assert_eq!(file.failed_pages(), 0);
    });
}

#[test]
fn a_disk_that_was_full_is_written_once_there_is_room() {
    simulate(5, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        faults.inject(Fault {
            range_bytes: Some(20 * PAGE as u64..u64::MAX),
            ..Fault::each(IoKind::Write, FaultAction::Fail(Failure::NoSpace))
        });
        write_pages(&file, 0..20).await.expect("memory takes it");
        assert_eq!(file.sync().await, Ok(()));
        write_pages(&file, 20..50).await.expect("memory takes it");
        assert_eq!(sync_failure(file.sync().await), Some(Failure::NoSpace));
        assert_eq!(
            sync_failure(file.sync().await),
            Some(Failure::NoSpace),
            "it was tried again, and failed again"
        );
        assert!(bench.has_stored(0..20));
        assert_eq!(file.failed_pages(), 30);
        faults.clear();
        bench.rt.sleep(Span::from_secs(120)).await;
        assert!(bench.has_stored(0..50), "without a sync");
        bench.assert_consistent();
    });
}

#[test]
fn one_bad_page_does_not_keep_its_neighbours_from_the_store() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..64).await.expect("memory takes it");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..Fault::each(
                IoKind::Write,
                FaultAction::Torn {
                    pages: 7,
                    failure: BROKEN,
                },
            )
        });
        assert_eq!(sync_failure(file.sync().await), Some(BROKEN));
        // The failure is reported after its halves were tried.
        assert!(bench.has_stored(0..64));
        assert_eq!(file.failed_pages(), 0);
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..64));
        bench.assert_consistent();
    });
}

#[test]
fn a_failed_commit_is_reported_and_tried_again() {
    for durability in [Durability::OnCommit, Durability::Unstable] {
        simulate(7, |rt| async move {
            let memory = memory_of(durability);
            let (bench, faults) = Bench::faulty_over(rt, Settings::of_mib(8), memory);
            let file = bench.open(0);
            write_pages(&file, 0..5).await.expect("memory takes it");
            faults.inject(Fault {
                when: FaultWhen::First(1),
                ..fails(IoKind::Commit)
            });
            assert_eq!(sync_failure(file.sync().await), Some(BROKEN));
            bench.assert_consistent();
            // If the commit is never tried again, this fault never strikes.
            faults.inject(Fault {
                when: FaultWhen::First(1),
                ..fails(IoKind::Commit)
            });
            assert_eq!(sync_failure(file.sync().await), Some(BROKEN));
            assert_eq!(file.sync().await, Ok(()), "{durability:?}");
            assert_eq!(bench.cache.statistics().dirty(), 0);
            assert!(bench.has_stored(0..5));
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_truncate_that_the_store_refuses_can_be_repeated() {
    simulate(8, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..8).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..fails(IoKind::SetLength)
        });
        let cut = 3 * PAGE as u64 + 5;
        assert_eq!(failure_of(file.truncate(cut).await), Some(BROKEN));
        bench.assert_consistent();
        assert_eq!(file.truncate(cut).await, Ok(()));
        assert_eq!(bench.memory.length_bytes(FILE), cut);
        assert_eq!(file.truncate(6 * PAGE as u64).await, Ok(()));
        file.sync().await.expect("the store is well");
        let mut expected = pages(0..4);
        expected.truncate(cut as usize);
        expected.resize(6 * PAGE, 0);
        assert!(bench.memory.snapshot(FILE) == expected);
        bench.assert_consistent();
    });
}

#[test]
fn a_failed_read_fails_only_the_callers_of_that_page() {
    simulate(9, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        bench.memory.fill(FILE, &pages(0..200));
        let file = bench.open(200 * PAGE as u64);
        let bad = 17_u64;
        faults.inject(Fault {
            range_bytes: Some(bad * PAGE as u64..(bad + 1) * PAGE as u64),
            ..fails(IoKind::Read)
        });
        for number in 0..200 {
            let read = has_page(&file, number).await;
            if number == bad {
                assert_eq!(failure_of(read), Some(BROKEN));
            } else {
                assert_eq!(read, Ok(true), "page {number}");
            }
        }
        let part = file.write_at(b"x", bad * PAGE as u64 + 9).await;
        assert_eq!(failure_of(part), Some(BROKEN), "the rest has to be read");
        let whole = file.write_at(&page_of(bad), bad * PAGE as u64).await;
        assert_eq!(whole, Ok(()), "a whole page needs no read");
        assert_eq!(has_page(&file, bad).await, Ok(true));
        faults.clear();
        file.sync().await.expect("the store is well");
        assert!(bench.has_stored(0..200));
        bench.assert_consistent();
    });
}

#[test]
fn a_read_that_fails_once_is_tried_again_alone() {
    simulate(10, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        bench.memory.fill(FILE, &pages(0..64));
        let file = bench.open(64 * PAGE as u64);
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..fails(IoKind::Read)
        });
        for number in 0..64 {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        assert_eq!(faults.injected(IoKind::Read), 1);
        bench.assert_consistent();
    });
}

#[test]
fn anonymous_memory_outlives_a_swap_store_that_fails_half_the_time() {
    simulate(11, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 2);
        bench.set_swap(ObjectId(9), 16 << 20);
        let spill = bench.cache.anonymous(8 << 20).expect("swap has room");
        faults.inject(Fault {
            when: FaultWhen::Chance {
                numerator: 1,
                denominator: 2,
            },
            ..fails(IoKind::Write)
        });
        let pages = 1_500;
        write_pages(&spill, 0..pages).await.expect("swap takes it");
        assert!(bench.count(Counter::NrWriteFailed) > 100);
        for number in 0..pages {
            assert_eq!(has_page(&spill, number).await, Ok(true), "page {number}");
        }
        bench.assert_consistent();
    });
}

#[test]
fn stores_that_fail_forever_refuse_writers_and_hang_none() {
    simulate(12, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        faults.inject(fails(IoKind::Write));
        let mut refused = 0;
        for object in 0..16 {
            let file = bench.open_object(ObjectId(object), 0);
            for number in 0..400 {
                let began = bench.rt.now();
                let written = file.write_at(&page_of(number), number * PAGE as u64).await;
                let took = bench.rt.now().since(began);
                assert!(took <= Span::from_secs(61), "a write took {took}");
                if let Err(error) = written {
                    assert!(
                        matches!(
                            error,
                            AccessError::TooManyFailed { .. }
                                | AccessError::NoFrames { .. }
                                | AccessError::NotAnswering { .. }
                        ),
                        "{error}"
                    );
                    refused += 1;
                    break;
                }
            }
        }
        assert!(refused > 0, "6 400 pages do not fit");
        let statistics = bench.cache.statistics();
        assert!(statistics.dirty() <= statistics.frames);
        faults.clear();
        // Each handle may report what failed before the repair.
        let _ = bench.cache.sync().await;
        assert_eq!(bench.cache.sync().await, Ok(()));
        let file = bench.open_object(ObjectId(0), 0);
        assert_eq!(write_pages(&file, 0..400).await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn a_refused_writer_learns_why_the_store_failed() {
    for failure in [Failure::NoSpace, BROKEN] {
        simulate(13, |rt| async move {
            let (bench, faults) = Bench::faulty(rt, 8);
            faults.inject(Fault::each(IoKind::Write, FaultAction::Fail(failure)));
            let file = bench.open(0);
            let refused = write_pages(&file, 0..2_000)
                .await
                .expect_err("they do not fit");
            assert!(
                matches!(refused, AccessError::TooManyFailed { .. }),
                "{refused}"
            );
            assert_eq!(refused.errno(), failure.errno());
            let kept = file.failed_pages();
            assert!(kept > 0);
            faults.clear();
            // It reports what failed before there was room.
            assert_eq!(sync_failure(file.sync().await), Some(failure));
            assert_eq!(file.sync().await, Ok(()));
            assert_eq!(file.failed_pages(), 0);
            assert!(bench.has_stored(0..kept), "nothing was dropped");
            assert_eq!(
                write_pages(&file, 0..2_000).await,
                Ok(()),
                "it is writable again"
            );
            assert_eq!(file.sync().await, Ok(()));
            assert!(bench.has_stored(0..2_000));
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_read_of_many_requests_that_all_fail_at_once_ends() {
    simulate(1, |rt| async move {
        let geometry = Geometry {
            max_io_pages: 1,
            ..MemoryStore::new().geometry()
        };
        let memory = MemoryStore::with(geometry);
        memory.fill(FILE, &pages(0..100));
        let (bench, faults) = Bench::faulty_over(rt, Settings::of_mib(8), memory);
        let file = bench.open(100 * PAGE as u64);
        faults.inject(fails(IoKind::Read));
        let mut bytes = vec![0; 20 * PAGE];
        let read = file.read_at(&mut bytes, 0).await;
        assert_eq!(failure_of(read), Some(BROKEN));
        assert_eq!(failure_of(file.page(3).await.map(drop)), Some(BROKEN));
        faults.clear();
        assert_eq!(has_page(&file, 3).await, Ok(true));
        bench.assert_consistent();
    });
}

#[test]
fn a_failed_read_of_swap_is_reported() {
    simulate(1, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 2);
        let swap = bench.cache.set_swap(&bench.store, ObjectId(9), 8 << 20);
        assert_eq!(swap, Ok(()));
        let sort = bench.cache.anonymous(4 << 20).expect("swap has room");
        // More than fits in memory: the first pages are in swap afterwards.
        write_pages(&sort, 0..1_000).await.expect("swap takes it");
        faults.inject(fails(IoKind::Read));
        assert_eq!(failure_of(has_page(&sort, 0).await), Some(BROKEN));
        faults.clear();
        assert_eq!(has_page(&sort, 0).await, Ok(true));
    });
}
