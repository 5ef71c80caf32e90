//! Cutting, growing and discarding against reads and writes in flight.

use crate::support::{Bench, FILE, OfSize, PAGE, has_page, page_of, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::{AccessError, File, Settings};
use forebay_rt::{Rt, Task};
use forebay_store::{
    DelayStore, Delays, Failure, Fault, FaultAction, FaultWhen, IoKind, ObjectId, Rate,
};
use std::sync::Arc;

fn at(page: u64) -> u64 {
    page * PAGE as u64
}

/// A cache in front of a store whose requests all take some milliseconds.
fn slow(rt: Rt, mib: u64) -> Bench {
    Bench::new(rt, mib, |rt, memory| {
        let delays = Delays {
            read: Span::from_millis(5),
            write: Span::from_millis(7),
            commit: Span::from_millis(9),
        };
        Arc::new(DelayStore::new(rt, memory, delays))
    })
}

/// `length` bytes of `file` from byte `from` on are zeros.
async fn is_zero(file: &File, from: u64, length: usize) -> bool {
    let mut bytes = vec![1; length];
    let read = file.read_at(&mut bytes, from).await;
    read == Ok(length) && bytes.iter().all(|&byte| byte == 0)
}

fn spawn_sync(bench: &Bench, file: &File) -> Task {
    let file = file.clone();
    bench.rt.spawn("syncer", async move {
        assert_eq!(file.sync().await, Ok(()));
    })
}

#[test]
fn what_is_extended_after_a_cut_reads_as_zeros() {
    simulate(1, |rt| async move {
        let bench = slow(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        let cut = at(7) + 100;
        for is_synced in [false, true] {
            if is_synced {
                file.sync().await.expect("the store is well");
            }
            file.truncate(cut).await.expect("the store is well");
            assert_eq!(file.len(), cut);
            file.truncate(at(20)).await.expect("the store is well");
            assert!(is_zero(&file, cut, (at(20) - cut) as usize).await);
            file.write_at(b"end", at(30)).await.expect("a hole is made");
            assert!(is_zero(&file, cut, (at(30) - cut) as usize).await);
            file.sync().await.expect("the store is well");
            let stored = bench.memory.snapshot(FILE);
            assert_eq!(stored.len() as u64, at(30) + 3);
            assert!(stored[..cut as usize] == pages(0..8)[..cut as usize]);
            assert!(
                stored[cut as usize..at(30) as usize]
                    .iter()
                    .all(|&b| b == 0)
            );
            bench.assert_consistent();
            write_pages(&file, 0..20).await.expect("memory takes it");
        }
    });
}

#[test]
fn a_cut_waits_for_writes_in_flight_and_none_lands_past_it() {
    for delay_ms in 0..12 {
        simulate(2, |rt| async move {
            let bench = slow(rt, 8);
            let file = bench.open(0);
            write_pages(&file, 0..100).await.expect("memory takes it");
            let sync = spawn_sync(&bench, &file);
            bench.rt.sleep(Span::from_millis(delay_ms)).await;
            let cut = at(30) + 17;
            file.truncate(cut).await.expect("the store is well");
            sync.join().await;
            file.sync().await.expect("the store is well");
            bench.rt.sleep(Span::from_secs(1)).await;
            assert!(bench.memory.snapshot(FILE) == pages(0..31)[..cut as usize]);
            bench.assert_consistent();
        });
    }
}

#[test]
fn what_is_given_up_is_asked_of_the_store_no_more() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        assert_eq!(file.sync().await, Ok(()));
        write_pages(&file, 10..40).await.expect("memory takes it");
        for kind in [IoKind::Write, IoKind::Commit, IoKind::SetLength] {
            faults.inject(Fault::each(kind, FaultAction::Fail(Failure::Gone)));
        }
        file.abandon().await.expect("nobody holds a page");
        assert_eq!((file.len(), file.is_written()), (0, true));
        assert_eq!(bench.cache.statistics().dirty(), 0);
        assert_eq!(bench.cache.sync().await, Ok(()), "nothing is to commit");
        bench.assert_consistent();
    });
}

#[test]
fn a_reader_of_what_is_cut_ends_with_the_bytes_that_are_left() {
    for delay_ms in 0..12 {
        simulate(3, |rt| async move {
            let bench = slow(rt.clone(), 8);
            bench.memory.fill(FILE, &pages(0..200));
            let file = bench.open(at(200));
            let reader = file.clone();
            let reading = bench.rt.spawn("reader", async move {
                let mut bytes = vec![0; 100 * PAGE];
                let read = reader.read_at(&mut bytes, at(100)).await;
                let read = read.expect("the store is well");
                assert!(bytes[..read] == pages(100..200)[..read], "{read}");
                let guard = reader.page(150).await.map(|page| page.to_vec());
                match guard {
                    Ok(page) => assert_eq!(page, page_of(150)),
                    Err(error) => assert!(matches!(error, AccessError::TooFar { .. })),
                }
            });
            rt.sleep(Span::from_millis(delay_ms)).await;
            file.truncate(at(120)).await.expect("the store is well");
            reading.join().await;
            assert_eq!(file.len(), at(120));
            assert_eq!(has_page(&file, 119).await, Ok(true));
            bench.assert_consistent();
        });
    }
}

#[test]
fn writers_on_both_sides_of_a_cut_leave_a_file_that_one_order_explains() {
    for seed in 100..130 {
        simulate(seed, |rt| async move {
            let bench = slow(rt.clone(), 4);
            let file = bench.open(0);
            let mut tasks = Vec::new();
            for part in 0..3 {
                let (file, rt) = (file.clone(), rt.clone());
                tasks.push(bench.rt.spawn("writer", async move {
                    let mut chance = rt.stream("writer").child(&part.to_string());
                    for _ in 0..60 {
                        let page = 100 * part + chance.below(100);
                        let written = file.write_at(&page_of(page), at(page)).await;
                        assert_eq!(written, Ok(()));
                        rt.sleep(Span::from_micros(chance.below(3_000))).await;
                    }
                }));
            }
            let mut chance = rt.stream("cutter");
            while tasks.iter().any(|task| !task.is_finished()) {
                let length = at(chance.below(300)) + chance.below(2) * 50;
                assert_eq!(file.truncate(length).await, Ok(()));
                if chance.chance(1, 4) {
                    assert_eq!(file.sync().await, Ok(()));
                }
                rt.sleep(Span::from_micros(chance.below(20_000))).await;
            }
            for task in tasks {
                task.join().await;
            }
            assert_eq!(file.sync().await, Ok(()), "seed {seed}");
            bench.assert_consistent();
            let stored = bench.memory.snapshot(FILE);
            assert_eq!(stored.len() as u64, file.len(), "seed {seed}");
            let mut read = vec![0; stored.len()];
            assert_eq!(file.read_at(&mut read, 0).await, Ok(stored.len()));
            assert!(read == stored, "seed {seed}");
            // Each page is what its writer wrote, or zeros, or was cut in the middle.
            for (number, page) in stored.chunks(PAGE).enumerate() {
                let written = page_of(number as u64);
                let kept = page
                    .iter()
                    .zip(&written)
                    .take_while(|(a, b)| a == b)
                    .count();
                let rest = &page[kept..];
                assert!(rest.iter().all(|&byte| byte == 0), "page {number}");
                assert!(kept <= 50 || kept == page.len(), "page {number}: {kept}");
            }
        });
    }
}

#[test]
fn a_discarded_range_reads_as_zeros_whatever_was_in_flight() {
    for delay_ms in 0..12 {
        simulate(4, |rt| async move {
            let bench = slow(rt.clone(), 8);
            let file = bench.open(0);
            write_pages(&file, 0..100).await.expect("memory takes it");
            let sync = spawn_sync(&bench, &file);
            rt.sleep(Span::from_millis(delay_ms)).await;
            let range = at(10) + 5..at(90) - 9;
            let length = (range.end - range.start) as usize;
            assert_eq!(file.discard(range.clone()).await, Ok(()));
            assert!(is_zero(&file, range.start, length).await);
            sync.join().await;
            assert_eq!(file.sync().await, Ok(()));
            let mut expected = pages(0..100);
            expected[range.start as usize..range.end as usize].fill(0);
            assert!(bench.memory.snapshot(FILE) == expected);
            write_pages(&file, 40..41).await.expect("memory takes it");
            assert_eq!(has_page(&file, 40).await, Ok(true));
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_file_keeps_its_length_though_its_dirty_end_is_discarded() {
    simulate(5, |rt| async move {
        let bench = slow(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        assert_eq!(file.discard(at(5)..at(10)).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        let mut expected = pages(0..5);
        expected.resize(10 * PAGE, 0);
        assert!(bench.memory.snapshot(FILE) == expected);
    });
}

#[test]
fn where_a_store_cannot_discard_zeros_are_written() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        faults.inject(Fault::each(
            IoKind::Discard,
            FaultAction::Fail(Failure::Unsupported),
        ));
        let file = bench.open(0);
        write_pages(&file, 0..100).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        assert_eq!(file.discard(at(3)..at(60) + 1).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        let mut expected = pages(0..100);
        expected[3 * PAGE..=60 * PAGE].fill(0);
        assert!(bench.memory.snapshot(FILE) == expected);
        bench.assert_consistent();
    });
}

#[test]
fn a_discard_that_the_store_refuses_loses_nothing() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        faults.inject(Fault::each(
            IoKind::Discard,
            FaultAction::Fail(Failure::Device(5)),
        ));
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        assert!(!bench.has_stored(3..4), "only the cache has it");
        let refused = file.discard(at(3)..at(15)).await;
        assert!(matches!(refused, Err(AccessError::Store(_))), "{refused:?}");
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.memory.snapshot(FILE) == pages(0..20));
        bench.assert_consistent();
    });
}

#[test]
fn a_discard_drops_no_page_while_it_waits_for_a_silent_write() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 30..40).await.expect("memory takes it");
        faults.inject(Fault::each(IoKind::Write, FaultAction::NeverAnswer));
        let sync = spawn_sync(&bench, &file);
        rt.sleep(Span::from_millis(1)).await;
        faults.clear();
        write_pages(&file, 0..30).await.expect("memory takes it");
        let given_up = file.discard(at(3)..at(60)).await;
        assert!(
            matches!(given_up, Err(AccessError::NotAnswering { .. })),
            "{given_up:?}"
        );
        for page in 0..30 {
            assert_eq!(has_page(&file, page).await, Ok(true), "page {page}");
        }
        faults.release();
        sync.join().await;
        assert!(is_zero(&file, at(3), 37 * PAGE).await);
        bench.assert_consistent();
    });
}

#[test]
fn a_guard_keeps_its_page_from_being_cut_until_it_is_dropped() {
    simulate(7, |rt| async move {
        let bench = slow(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let guard = file.page(8).await.expect("it is there");
        let cutter = file.clone();
        let cut = bench.rt.spawn("cutter", async move {
            assert_eq!(cutter.truncate(at(5) + 1).await, Ok(()));
        });
        rt.sleep(Span::from_secs(2)).await;
        assert!(!cut.is_finished());
        assert_eq!(*guard, page_of(8)[..]);
        drop(guard);
        cut.join().await;
        assert_eq!(file.len(), at(5) + 1);
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(bench.memory.length_bytes(FILE), at(5) + 1);
        bench.assert_consistent();
    });
}

/// No cut comes late when the store has other users, even one for which nobody waits any more.
#[test]
fn a_cache_closes_after_the_cuts_that_were_asked_for() {
    simulate(8, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        bench.memory.fill(FILE, &pages(0..9));
        let file = bench.open(at(9));
        faults.inject(Fault::each(IoKind::SetLength, FaultAction::NeverAnswer));
        let cutter = file.clone();
        let cut = rt.timeout(Span::from_millis(10), cutter.truncate(at(5)));
        assert!(cut.await.is_err(), "its caller gave up");
        let cache = bench.cache.clone();
        let closing = rt.spawn("close", async move {
            assert_eq!(cache.close().await, Ok(()));
        });
        rt.sleep(Span::from_secs(1)).await;
        assert!(!closing.is_finished(), "the cut may still come");
        faults.clear();
        faults.release();
        closing.join().await;
        assert_eq!(bench.memory.length_bytes(FILE), at(5));
        bench.assert_consistent();
    });
}

#[test]
fn nobody_gets_hold_of_a_page_that_is_being_cut_off() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        bench.memory.fill(FILE, &pages(0..200));
        let file = bench.open(at(200));
        let late = FaultAction::Delay(Span::from_millis(50));
        faults.inject(Fault::each(IoKind::Read, late));
        let holder = file.clone();
        let holding = rt.spawn("holder", async move {
            let held = holder.page(150).await.map(drop);
            assert!(matches!(held, Err(AccessError::TooFar { .. })), "{held:?}");
        });
        rt.sleep(Span::from_millis(10)).await;
        assert_eq!(file.truncate(at(120)).await, Ok(()));
        holding.join().await;
        bench.assert_consistent();
    });
}

#[test]
fn a_holder_of_a_page_reads_nothing_ahead_while_it_is_given_up() {
    for page in 1..24 {
        simulate(5, |rt| async move {
            let bench = Bench::plain(rt.clone(), 8);
            bench.memory.fill(FILE, &pages(0..200));
            let file = bench.open(at(200));
            // One of the pages that this reads carries the mark that asks for the next window.
            let mut bytes = vec![0; PAGE];
            assert_eq!(file.read_at(&mut bytes, 0).await, Ok(PAGE));
            let other = file.page(40).await.expect("the store is well");
            let giver = file.clone();
            let giving = rt.spawn("giver", async move {
                assert_eq!(giver.discard(at(1)..at(41)).await, Ok(()));
            });
            // It waits for the guard. Meanwhile the page is resident and may be held.
            rt.sleep(Span::from_millis(10)).await;
            let holder = file.clone();
            let holding = rt.spawn("holder", async move {
                assert_eq!(holder.page(page).await.map(drop), Ok(()));
            });
            rt.sleep(Span::from_millis(10)).await;
            drop(other);
            giving.join().await;
            holding.join().await;
        });
    }
}

#[test]
fn a_sync_during_a_cut_makes_the_cut_durable_or_what_it_would_have_cut() {
    for is_refused in [false, true] {
        simulate(6, |rt| async move {
            let (bench, faults) = Bench::faulty(rt.clone(), 32);
            bench.memory.fill(FILE, &pages(100..140));
            let file = bench.open(at(40));
            write_pages(&file, 0..40).await.expect("memory takes it");
            let late = if is_refused {
                FaultAction::Fail(Failure::Device(5))
            } else {
                FaultAction::Delay(Span::from_millis(50))
            };
            faults.inject(Fault {
                when: FaultWhen::First(1),
                ..Fault::each(IoKind::SetLength, late)
            });
            let cutter = file.clone();
            let cutting = rt.spawn("cutter", async move {
                assert_eq!(cutter.truncate(at(10)).await.is_err(), is_refused);
            });
            // The cut waits for this guard, so the cache has cut the file and the store has not.
            let guard = file.page(39).await.expect("it was just written");
            rt.sleep(Span::from_millis(10)).await;
            let syncer = file.clone();
            let syncing = rt.spawn("syncer", async move {
                assert_eq!(syncer.sync().await, Ok(()));
            });
            rt.sleep(Span::from_millis(10)).await;
            drop(guard);
            syncing.join().await;
            let stored = bench.memory.snapshot(FILE);
            let expected = pages(0..if is_refused { 40 } else { 10 });
            assert!(
                stored == expected,
                "{} bytes, refused: {is_refused}",
                stored.len()
            );
            cutting.join().await;
        });
    }
}

#[test]
fn a_cut_that_is_refused_leaves_all_of_the_page_in_which_it_would_have_ended() {
    simulate(6, |rt| async move {
        let bench = Bench::plain(rt.clone(), 32);
        let file = bench.open(0);
        write_pages(&file, 0..40).await.expect("memory takes it");
        let guard = file.page(39).await.expect("it was just written");
        let cutter = file.clone();
        let cutting = rt.spawn("cutter", async move {
            let cut = cutter.truncate(at(10) + 100).await;
            assert!(matches!(cut, Err(AccessError::Held { .. })), "{cut:?}");
        });
        rt.sleep(Span::from_millis(10)).await;
        // The flusher and this task find the page with the new end dirty while the cut waits.
        assert_eq!(file.sync().await, Ok(()));
        drop(guard);
        cutting.join().await;
        assert!(bench.memory.snapshot(FILE) == pages(0..40));
        bench.assert_consistent();
    });
}

#[test]
fn a_write_that_was_taken_while_a_longer_end_was_refused_is_not_lost() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..1).await.expect("memory takes it");
        file.write_at(&[1; 100], at(1))
            .await
            .expect("memory takes it");
        let late = FaultAction::Delay(Span::from_millis(50));
        faults.inject(Fault::each(IoKind::Write, late));
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..Fault::each(IoKind::SetLength, FaultAction::Fail(Failure::Device(5)))
        });
        let syncer = file.clone();
        let syncing = rt.spawn("syncer", async move {
            assert_eq!(syncer.sync_range(0..at(1)).await, Ok(()));
        });
        rt.sleep(Span::from_millis(5)).await;
        let extender = file.clone();
        let extending = rt.spawn("extender", async move {
            // It waits for the write that is under way.
            let refused = extender.truncate(at(2)).await;
            assert!(matches!(refused, Err(AccessError::Store(_))), "{refused:?}");
        });
        rt.sleep(Span::from_millis(5)).await;
        assert_eq!(file.len(), at(1) + 100, "the store has not agreed");
        assert_eq!(file.write_at(&[7], at(1) + 200).await, Ok(()));
        extending.join().await;
        syncing.join().await;
        assert_eq!(file.len(), at(1) + 201);
        assert_eq!(file.truncate(at(2)).await, Ok(()));
        let mut expected = pages(0..1);
        expected.extend([1; 100]);
        expected.resize(2 * PAGE, 0);
        expected[PAGE + 200] = 7;
        let mut read = vec![1; 2 * PAGE];
        assert_eq!(file.read_at(&mut read, 0).await, Ok(2 * PAGE));
        assert!(read == expected);
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.memory.snapshot(FILE) == expected);
        bench.assert_consistent();
    });
}

#[test]
fn a_discard_makes_no_file_longer_that_is_cut_while_a_page_of_it_is_read() {
    for seed in 0..8 {
        simulate(seed, |rt| async move {
            let (bench, faults) = Bench::faulty(rt.clone(), 8);
            bench.memory.fill(FILE, &pages(0..1));
            let file = bench.open(at(1));
            let late = FaultAction::Delay(Span::from_millis(50));
            faults.inject(Fault::each(IoKind::Read, late));
            let giver = file.clone();
            let giving = rt.spawn("giver", async move {
                assert_eq!(giver.discard(100..200).await, Ok(()));
            });
            rt.sleep(Span::from_millis(10)).await;
            assert_eq!(file.truncate(0).await, Ok(()));
            giving.join().await;
            assert_eq!(file.len(), 0, "seed {seed}");
            assert_eq!(file.sync().await, Ok(()));
            assert_eq!(bench.memory.length_bytes(FILE), 0, "seed {seed}");
            bench.assert_consistent();
        });
    }
}

#[test]
fn zeros_in_place_of_a_discard_make_no_file_longer_that_was_cut_before_them() {
    for seed in 0..8 {
        for length_bytes in [0, at(4) + 100] {
            simulate(seed, |rt| async move {
                let (bench, faults) = Bench::faulty(rt.clone(), 8);
                let file = bench.open(0);
                write_pages(&file, 0..10).await.expect("memory takes it");
                let cannot = FaultAction::Fail(Failure::Unsupported);
                faults.inject(Fault::each(IoKind::Discard, cannot));
                let guard = file.page(5).await.expect("it was just written");
                let giver = file.clone();
                let giving = rt.spawn("giver", async move {
                    assert_eq!(giver.discard(at(1)..at(9)).await, Ok(()));
                });
                rt.sleep(Span::from_millis(10)).await;
                let cutter = file.clone();
                let cutting = rt.spawn("cutter", async move {
                    assert_eq!(cutter.truncate(length_bytes).await, Ok(()));
                });
                rt.sleep(Span::from_millis(10)).await;
                drop(guard);
                giving.join().await;
                cutting.join().await;
                assert_eq!(file.len(), length_bytes, "seed {seed}");
                let left = length_bytes.saturating_sub(at(1)) as usize;
                assert!(left == 0 || is_zero(&file, at(1), left).await);
                assert_eq!(file.sync().await, Ok(()));
                assert_eq!(bench.memory.length_bytes(FILE), length_bytes);
                bench.assert_consistent();
            });
        }
    }
}

#[test]
fn what_is_discarded_under_a_cut_that_is_refused_reads_as_zeros() {
    for is_held in [false, true] {
        for range in [at(20)..at(30), at(5)..at(30) + 9, at(10) + 50..at(10) + 200] {
            simulate(6, |rt| async move {
                let (bench, faults) = Bench::faulty(rt.clone(), 32);
                let file = bench.open(0);
                write_pages(&file, 0..40).await.expect("memory takes it");
                if !is_held {
                    let refused = FaultAction::Fail(Failure::Device(5));
                    faults.inject(Fault::each(IoKind::SetLength, refused));
                }
                let guard = file.page(39).await.expect("it was just written");
                let cutter = file.clone();
                let cutting = rt.spawn("cutter", async move {
                    let cut = cutter.truncate(at(10) + 100).await;
                    assert_eq!(matches!(cut, Err(AccessError::Held { .. })), is_held);
                    assert!(cut.is_err(), "{cut:?}");
                });
                rt.sleep(Span::from_millis(10)).await;
                let (giver, given) = (file.clone(), range.clone());
                let giving = rt.spawn("giver", async move {
                    assert_eq!(giver.discard(given).await, Ok(()));
                });
                rt.sleep(Span::from_millis(10)).await;
                let guard = is_held.then_some(guard);
                cutting.join().await;
                drop(guard);
                giving.join().await;
                let mut expected = pages(0..40);
                expected[range.start as usize..range.end as usize].fill(0);
                let mut read = vec![1; 40 * PAGE];
                assert_eq!(file.read_at(&mut read, 0).await, Ok(40 * PAGE));
                assert!(read == expected, "{range:?}, held: {is_held}");
                bench.assert_consistent();
            });
        }
    }
}

#[test]
fn nobody_gets_hold_of_bytes_that_are_being_cut_off() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..2).await.expect("memory takes it");
        let late = FaultAction::Delay(Span::from_millis(50));
        faults.inject(Fault::each(IoKind::SetLength, late));
        let cutter = file.clone();
        let cutting = rt.spawn("cutter", async move {
            assert_eq!(cutter.truncate(at(1) + 100).await, Ok(()));
        });
        rt.sleep(Span::from_millis(10)).await;
        let guard = file.page(1).await.expect("its start is kept");
        assert_eq!(guard[..100], page_of(1)[..100]);
        assert!(guard[100..].iter().all(|&byte| byte == 0));
        drop(guard);
        cutting.join().await;
        bench.assert_consistent();
    });
}

#[test]
fn discarded_anonymous_memory_is_zero_and_gives_its_swap_back() {
    simulate(8, |rt| async move {
        let bench = Bench::plain(rt, 2);
        bench.set_swap(ObjectId(9), 16 << 20);
        let spill = bench.cache.anonymous(at(2_000)).expect("swap has room");
        write_pages(&spill, 0..2_000).await.expect("swap takes it");
        let before = bench.cache.statistics().swap_slots_used;
        assert!(before > 1_000);
        assert_eq!(spill.discard(at(100)..at(1_900)).await, Ok(()));
        assert!(bench.cache.statistics().swap_slots_used <= 200);
        assert!(is_zero(&spill, at(100), 1_800 * PAGE).await);
        assert_eq!(has_page(&spill, 99).await, Ok(true));
        assert_eq!(has_page(&spill, 1_900).await, Ok(true));
        drop(spill);
        bench.rt.sleep(Span::from_secs(1)).await;
        assert_eq!(bench.cache.statistics().swap_slots_used, 0);
        bench.assert_consistent();
    });
}

/// Nothing is synced, as in a program that only closes its file.
#[test]
fn a_store_knows_how_long_an_object_is_whose_end_was_discarded() {
    simulate(9, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        assert_eq!(file.discard(at(10)..at(20)).await, Ok(()));
        rt.sleep(Span::from_secs(60)).await;
        assert!(file.is_written());
        assert_eq!(bench.memory.length_bytes(FILE), at(20));
        assert!(is_zero(&file, at(10), 10 * PAGE).await);
        bench.assert_consistent();
    });
}

/// The pages past the discarded ones are dirty since after the sync began, so it does not write
/// them.
#[test]
fn a_sync_makes_the_length_durable_that_it_found_though_its_last_pages_are_discarded() {
    simulate(13, |rt| async move {
        let rate = Rate::bytes(2_000 * PAGE as u64);
        let bench = Bench::rated(rt.clone(), 1024, rate);
        let file = bench.open(0);
        write_pages(&file, 0..6_000).await.expect("memory takes it");
        let sync = spawn_sync(&bench, &file);
        rt.sleep(Span::from_millis(1)).await;
        write_pages(&file, 6_100..6_101)
            .await
            .expect("memory takes it");
        assert_eq!(file.discard(at(5_990)..at(6_050)).await, Ok(()));
        sync.join().await;
        assert!(bench.memory.length_bytes(FILE) >= at(6_000));
        bench.assert_consistent();
    });
}

/// A discard in the middle says nothing about the length.
#[test]
fn a_file_that_was_discarded_in_the_middle_is_written_in_the_end() {
    simulate(11, |rt| async move {
        let settings = Settings {
            objects_limit: 1,
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt.clone(), settings, |_, memory| memory);
        // The last byte ends a whole page, or only the first part of the last page.
        for (object, length_bytes) in [(ObjectId(1), at(20)), (ObjectId(2), at(20) + 100)] {
            let file = bench.open_object(object, 0);
            let bytes = &pages(0..21)[..length_bytes as usize];
            file.write_at(bytes, 0).await.expect("memory takes it");
            let mut expected = bytes.to_vec();
            for range in [at(5)..at(10), at(15)..at(20) - 1, at(19)..length_bytes - 50] {
                expected[range.start as usize..range.end as usize].fill(0);
                assert_eq!(file.discard(range).await, Ok(()));
            }
            rt.sleep(Span::from_secs(60)).await;
            assert!(file.is_written(), "{length_bytes} bytes");
            assert!(bench.memory.snapshot(object) == expected);
        }
        // Nor does its length keep it in the table when nobody has it open.
        assert!(bench.cache.open(&bench.store, ObjectId(3), 0).is_ok());
        bench.assert_consistent();
    });
}

#[test]
fn a_store_knows_how_long_an_object_is_whose_end_inside_a_page_was_discarded() {
    simulate(12, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let file = bench.open(0);
        let length_bytes = at(20) + 100;
        let bytes = &pages(0..21)[..length_bytes as usize];
        file.write_at(bytes, 0).await.expect("memory takes it");
        assert_eq!(file.discard(at(10)..u64::MAX).await, Ok(()));
        rt.sleep(Span::from_secs(60)).await;
        assert!(file.is_written());
        assert_eq!(bench.memory.length_bytes(FILE), length_bytes);
        assert!(is_zero(&file, at(10), 10 * PAGE + 100).await);
        bench.assert_consistent();
    });
}

#[test]
fn a_file_whose_length_the_store_refused_is_not_written() {
    simulate(10, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..Fault::each(IoKind::SetLength, FaultAction::Fail(Failure::Device(5)))
        });
        assert_eq!(file.discard(at(0)..at(20)).await, Ok(()));
        assert_eq!((file.dirty_pages(), file.is_written()), (0, false));
        assert_eq!(file.sync().await, Ok(()));
        assert!(file.is_written());
        assert_eq!(bench.memory.length_bytes(FILE), at(20));
    });
}

/// Only anonymous pages lie in swap: a file that is cut takes nothing from their count.
#[test]
fn a_cut_of_a_file_leaves_the_count_of_pages_in_swap_alone() {
    simulate(31, |rt| async move {
        let bench = Bench::plain(rt, 8);
        bench.set_swap(ObjectId(9), 1 << 20);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        file.sync().await.expect("the store is well");
        file.truncate(PAGE as u64).await.expect("it is cut");
        bench.assert_consistent();
        assert_eq!(file.len(), PAGE as u64);
    });
}
