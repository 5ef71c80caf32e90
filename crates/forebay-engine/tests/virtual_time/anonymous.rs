//! Anonymous memory: it is cut without a request to the store that holds the swap, and is outside
//! the limits on dirty pages.

use crate::support::{Bench, FILE, OfSize, PAGE, has_page, page_of, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::{AccessError, BuildError, Counter, Settings};
use forebay_store::{Failure, Fault, FaultAction, IoKind, ObjectId, Rate};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

#[test]
fn a_cut_of_anonymous_memory_changes_no_object_of_the_swap_store() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let swap = ObjectId(77);
        bench.set_swap(swap, 4 << 20);
        // Objects in the store under every number with which the memory could be confused.
        for number in 0..8 {
            bench.memory.fill(ObjectId(number), &page_of(number));
        }
        let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
        memory
            .write_at(&page_of(9), PAGE as u64)
            .await
            .expect("memory takes bytes");
        assert_eq!(memory.truncate(PAGE as u64).await, Ok(()));
        assert_eq!(memory.truncate(4 * PAGE as u64).await, Ok(()));
        let mut bytes = vec![1; PAGE];
        assert_eq!(memory.read_at(&mut bytes, PAGE as u64).await, Ok(PAGE));
        assert_eq!(bytes, vec![0; PAGE], "what was cut off is zeros");
        for number in 0..8 {
            assert_eq!(bench.memory.snapshot(ObjectId(number)), page_of(number));
        }
        bench.assert_consistent();
    });
}

/// While memory is being dropped, its number names nothing else: dropping the rest would drop pages
/// of the object that got the number.
#[test]
fn a_file_gets_no_number_of_memory_that_is_being_dropped() {
    simulate(1, |rt| async move {
        let settings = Settings {
            objects_limit: 2,
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt.clone(), settings, |_, memory| memory);
        bench.set_swap(ObjectId(0), 4 << 20);
        let _first = bench.open(0);
        let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
        drop(memory);
        // The limit counts what is in use.
        let second = bench.open_object(ObjectId(2), 0);
        let third = bench.cache.open(&bench.store, ObjectId(3), 0).map(drop);
        assert_eq!(third, Err(BuildError::TooManyObjects { limit: 2 }));
        write_pages(&second, 0..4).await.expect("memory takes it");
        rt.sleep(Span::from_secs(1)).await;
        for number in 0..4 {
            assert_eq!(has_page(&second, number).await, Ok(true), "page {number}");
        }
        assert_eq!(bench.cache.statistics().dirty(), 4);
        bench.assert_consistent();
    });
}

fn resident_pages(bench: &Bench) -> u64 {
    let zones = bench.cache.statistics().zones;
    zones.iter().map(|zone| zone.managed - zone.free).sum()
}

/// Pages past the end of memory that are left would be dropped from the object that gets its
/// number.
#[test]
fn memory_that_is_cut_inside_a_page_leaves_nothing_behind() {
    simulate(1, |rt| async move {
        let settings = Settings {
            objects_limit: 1,
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt.clone(), settings, |_, memory| memory);
        bench.set_swap(ObjectId(0), 4 << 20);
        bench.memory.fill(FILE, &pages(0..2));
        let memory = bench.cache.anonymous(2 * PAGE as u64).expect("swap is set");
        let resident = || resident_pages(&bench);
        for (length_bytes, kept) in [(5_000, 1), (4_096, 0), (8_192, 0), (100, 1)] {
            if length_bytes < memory.len() {
                // The page with the new end is resident.
                let written = memory.write_at(&[1], length_bytes).await;
                assert_eq!(written, Ok(()));
            }
            assert_eq!(memory.truncate(length_bytes).await, Ok(()));
            assert_eq!(resident(), kept, "cut to {length_bytes} bytes");
        }
        drop(memory);
        rt.sleep(Span::from_secs(1)).await;
        let file = bench.open(2 * PAGE as u64);
        for number in 0..2 {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        bench.assert_consistent();
    });
}

#[test]
fn a_cut_of_memory_that_a_guard_prevents_changes_no_byte() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 4);
        bench.set_swap(ObjectId(0), 32 << 20);
        let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
        let others = bench.cache.anonymous(8 << 20).expect("swap is set");
        for in_swap in [false, true] {
            let bytes = pages(1..5);
            memory.write_at(&bytes, 0).await.expect("it fits");
            if in_swap {
                write_pages(&others, 0..2_048)
                    .await
                    .expect("swap takes the rest");
            }
            let guard = memory.page(3).await.expect("it is there");
            let cut = memory.truncate(100).await;
            assert!(matches!(cut, Err(AccessError::Held { .. })), "{cut:?}");
            drop(guard);
            assert_eq!(memory.len(), 4 * PAGE as u64);
            let mut found = vec![0; 4 * PAGE];
            assert_eq!(memory.read_at(&mut found, 0).await, Ok(4 * PAGE));
            assert!(found == bytes, "where it was in swap: {in_swap}");
        }
        bench.assert_consistent();
    });
}

/// The part of the last page past the new end is zeros, also if the page was in swap.
#[test]
fn memory_that_grows_again_has_zeros_where_it_was_cut() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 4);
        bench.set_swap(ObjectId(0), 32 << 20);
        let memory = bench.cache.anonymous(PAGE as u64).expect("swap is set");
        for (round, cut) in [(1, 100), (2, 4_000)] {
            memory.write_at(&page_of(round), 0).await.expect("it fits");
            // Twice the cache: what was written before goes to swap.
            let others = bench.cache.anonymous(8 << 20).expect("swap is set");
            write_pages(&others, 0..2_048)
                .await
                .expect("swap takes the rest");
            assert_eq!(memory.truncate(cut).await, Ok(()));
            write_pages(&others, 0..2_048)
                .await
                .expect("swap takes the rest");
            assert_eq!(memory.truncate(PAGE as u64).await, Ok(()));
            let mut bytes = vec![1; PAGE];
            assert_eq!(memory.read_at(&mut bytes, 0).await, Ok(PAGE));
            let cut = cut as usize;
            assert_eq!(bytes[..cut], page_of(round)[..cut]);
            assert_eq!(bytes[cut..], vec![0; PAGE - cut]);
        }
        bench.assert_consistent();
    });
}

/// A call that waited for a frame inserts nothing past an end that moved meanwhile.
#[test]
fn a_page_of_zeros_that_comes_too_late_is_left_out() {
    simulate(1, |rt| async move {
        let slow = Rate::bytes(64 * PAGE as u64);
        let bench = Bench::rated(rt.clone(), 4, slow);
        bench.set_swap(ObjectId(0), 32 << 20);
        let others = bench.cache.anonymous(8 << 20).expect("swap is set");
        let fills = rt.spawn("fill memory", async move {
            let filled = write_pages(&others, 0..2_048).await;
            assert_eq!(filled, Ok(()), "swap is slow, but it takes them");
        });
        rt.sleep(Span::from_millis(100)).await;
        let memory = bench.cache.anonymous(2 * PAGE as u64).expect("swap is set");
        let late = memory.clone();
        let waits = rt.spawn("read the last page", async move {
            let read = late.page(1).await.map(drop);
            assert!(matches!(read, Err(AccessError::TooFar { .. })), "{read:?}");
        });
        rt.yield_now().await;
        assert_eq!(memory.truncate(PAGE as u64).await, Ok(()));
        waits.join().await;
        bench.assert_consistent();
        fills.join().await;
    });
}

/// If a page goes to swap while a call waits to fill it with zeros, its bytes are what was written.
#[test]
fn zeros_that_come_too_late_take_the_place_of_nothing_that_was_written() {
    simulate(1, |rt| async move {
        let slow = Rate::bytes(64 * PAGE as u64);
        let bench = Bench::rated(rt.clone(), 4, slow);
        bench.set_swap(ObjectId(0), 32 << 20);
        let others = bench.cache.anonymous(8 << 20).expect("swap is set");
        let filling = others.clone();
        let fills = rt.spawn("fill memory", async move {
            let filled = write_pages(&filling, 0..2_048).await;
            assert_eq!(filled, Ok(()), "swap is slow, but it takes them");
        });
        rt.sleep(Span::from_millis(100)).await;
        let memory = bench.cache.anonymous(2 * PAGE as u64).expect("swap is set");
        let writer = memory.clone();
        let mut looks = pin!(memory.page(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(looks.as_mut().poll(&mut context).is_pending());
        fills.join().await;
        assert_eq!(writer.write_at(&page_of(7), PAGE as u64).await, Ok(()));
        // Twice the cache: what was written before goes to swap.
        write_pages(&others, 0..2_048)
            .await
            .expect("swap takes the rest");
        let found = looks.await.map(|page| page.to_vec());
        assert!(found == Ok(page_of(7)), "the bytes that were written");
        bench.assert_consistent();
    });
}

#[test]
fn anonymous_memory_grows_no_further_than_it_was_made() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        bench.set_swap(ObjectId(0), 4 << 20);
        let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
        let limit_bytes = 4 * PAGE as u64;
        let refused = AccessError::TooFar {
            offset_bytes: limit_bytes + 1,
            limit_bytes,
        };
        assert_eq!(memory.truncate(limit_bytes + 1).await, Err(refused));
        assert_eq!(memory.len(), limit_bytes);
    });
}

#[test]
fn a_writer_of_anonymous_memory_does_not_pay_for_dirty_files() {
    simulate(1, |rt| async move {
        let slow = Rate::bytes(100 * PAGE as u64);
        let bench = Bench::rated(rt.clone(), 16, slow);
        bench.set_swap(ObjectId(9), 16 << 20);
        let memory = bench
            .cache
            .anonymous(1_000 * PAGE as u64)
            .expect("swap is set");
        let file = bench.open(0);
        write_pages(&file, 0..1_000)
            .await
            .expect("the store is well");
        let pauses = bench.count(Counter::BalancePauses);
        assert!(pauses > 0, "files are over their limit");
        let began = rt.now();
        write_pages(&memory, 0..1_000)
            .await
            .expect("memory takes bytes");
        assert_eq!(bench.count(Counter::BalancePauses), pauses);
        assert_eq!(rt.now(), began, "there was room for it");
    });
}

#[test]
fn swap_that_refuses_is_asked_seldom_and_soon_enough() {
    simulate(1, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 4);
        bench.set_swap(ObjectId(9), 16 << 20);
        let memory = bench.cache.anonymous(8 << 20).expect("swap is set");
        let full = FaultAction::Fail(Failure::NoSpace);
        faults.inject(Fault::each(IoKind::Write, full));
        let frames = bench.cache.statistics().frames;
        let writer = write_pages(&memory, 0..1_500);
        let (refused, failed) = (writer.await, faults.injected(IoKind::Write));
        assert!(matches!(refused, Err(AccessError::NoFrames { .. })));
        // Each page once, and a few of them again while the writer waited.
        assert!(failed <= frames + 16, "{failed} requests, {frames} frames");
        // Another caller finds no frame for as long as it may wait.
        let refused = write_pages(&memory, 1_499..1_500).await;
        assert!(refused.is_err());
        let more = faults.injected(IoKind::Write) - failed;
        assert!((1..=8).contains(&more), "{more} requests in half a minute");
        faults.clear();
        let (began, page) = (rt.now(), 1_400);
        write_pages(&memory, page..1_500)
            .await
            .expect("swap has room again");
        let waited = rt.now().since(began);
        assert!(waited < Span::from_secs(30), "{waited} after the mending");
        bench.assert_consistent();
    });
}

/// No read returns what lies in slot 0, which no page has.
#[test]
fn pages_that_nobody_wrote_are_zeros_beside_those_in_swap() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 4);
        let swap = ObjectId(77);
        bench.memory.fill(swap, &page_of(7));
        bench.set_swap(swap, 32 << 20);
        let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
        for number in [0, 1, 3] {
            let at = number * PAGE as u64;
            memory
                .write_at(&page_of(number), at)
                .await
                .expect("it fits");
        }
        let others = bench.cache.anonymous(8 << 20).expect("swap is set");
        write_pages(&others, 0..2_048)
            .await
            .expect("swap takes the rest");
        assert_eq!(memory.discard(0..PAGE as u64).await, Ok(()));
        let before = bench.count(Counter::Pswpin);
        let mut bytes = vec![1; 4 * PAGE];
        assert_eq!(
            memory.read_at(&mut bytes[PAGE..], PAGE as u64).await,
            Ok(3 * PAGE)
        );
        assert_eq!(memory.read_at(&mut bytes, 0).await, Ok(4 * PAGE));
        let zeros = vec![0; PAGE];
        let expected = [zeros.clone(), page_of(1), zeros, page_of(3)].concat();
        assert!(bytes == expected);
        assert_eq!(bench.count(Counter::Pswpin) - before, 2);
        bench.assert_consistent();
    });
}

/// The memory keeps its number until the cut is over, even if its handles are gone.
#[test]
fn a_cut_whose_caller_has_left_touches_nothing_of_others() {
    for seed in 0..50 {
        simulate(seed, |rt| async move {
            let settings = Settings {
                objects_limit: 1,
                ..Settings::of_mib(8)
            };
            let bench = Arc::new(Bench::with(rt.clone(), settings, |_, memory| memory));
            bench.set_swap(ObjectId(0), 4 << 20);
            let memory = bench.cache.anonymous(4 * PAGE as u64).expect("swap is set");
            write_pages(&memory, 0..4).await.expect("memory takes it");
            {
                let mut cut = pin!(memory.truncate(PAGE as u64));
                let mut context = Context::from_waker(Waker::noop());
                assert!(cut.as_mut().poll(&mut context).is_pending());
            }
            drop(memory);
            let theirs = bench.clone();
            let opened = rt.spawn("open another", async move {
                let Ok(next) = theirs.cache.anonymous(4 * PAGE as u64) else {
                    return;
                };
                write_pages(&next, 0..4).await.expect("memory takes it");
                theirs.rt.sleep(Span::from_secs(1)).await;
                for number in 0..4 {
                    assert_eq!(has_page(&next, number).await, Ok(true), "page {number}");
                }
            });
            opened.join().await;
            bench.assert_consistent();
        });
    }
}

/// Memory that is written to swap all the time does not keep files beside it from being written.
#[test]
fn a_sync_ends_while_swap_keeps_the_same_store_busy() {
    simulate(21, |rt| async move {
        let rate = Rate::bytes(64 * PAGE as u64);
        let bench = Bench::rated(rt.clone(), 4, rate);
        bench.set_swap(ObjectId(9), 32 << 20);
        let file = bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let others = bench.cache.anonymous(2_048 * PAGE as u64);
        let others = others.expect("swap holds it");
        rt.spawn("others", async move {
            loop {
                // It goes on, whether or not it fails for lack of a frame.
                let _ = write_pages(&others, 0..2_048).await;
            }
        });
        rt.sleep(Span::from_secs(1)).await;
        let synced = rt.timeout(Span::from_secs(120), file.sync()).await;
        assert!(matches!(synced, Ok(Ok(()))), "{synced:?}");
        assert!(bench.has_stored(0..10));
    });
}
