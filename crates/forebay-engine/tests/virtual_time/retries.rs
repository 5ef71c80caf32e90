//! Writes that failed: what is tried again, when, and what is left alone meanwhile.

use crate::support::writers::Writer;
use crate::support::{Bench, FILE, OfSize, PAGE, page_of, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::{AccessError, Counter, Settings};
use forebay_kernels::Policy;
use forebay_rt::Rt;
use forebay_store::{
    Failure, Fault, FaultAction, FaultStore, FaultWhen, IoKind, MemoryStore, ObjectId, Rate,
    RateStore,
};
use std::ops::Range;
use std::sync::Arc;

const OTHER: ObjectId = ObjectId(2);
const BROKEN: Failure = Failure::Device(5);

fn bytes_of(pages: Range<u64>) -> Range<u64> {
    pages.start * PAGE as u64..pages.end * PAGE as u64
}

/// Writes to `pages` fail.
fn refuse(faults: &FaultStore, pages: Range<u64>, failure: Failure) {
    faults.inject(Fault {
        range_bytes: Some(bytes_of(pages)),
        ..Fault::each(IoKind::Write, FaultAction::Fail(failure))
    });
}

/// A cache of 8 MiB in front of a full disk, filled until its writer is refused.
async fn full(rt: &Rt) -> (Bench, Arc<FaultStore>, forebay_engine::File) {
    let (bench, faults) = Bench::faulty(rt.clone(), 8);
    let file = bench.open(0);
    refuse(&faults, 0..u64::MAX >> 12, Failure::NoSpace);
    // Long enough for the back-off to grow.
    let mut refused = 0;
    for number in 0..2_000 {
        refused += u64::from(write_pages(&file, number..number + 1).await.is_err());
        bench.rt.sleep(Span::from_millis(30)).await;
    }
    assert!(refused > 100, "a full disk stops its writers: {refused}");
    (bench, faults, file)
}

/// How long it takes until a write of `file` is taken, ms, if one is tried every 50 ms.
async fn taken_after_ms(bench: &Bench, file: &forebay_engine::File) -> u64 {
    let began = bench.rt.now();
    while let Err(error) = write_pages(file, 0..1).await {
        assert!(
            matches!(error, AccessError::TooManyFailed { .. }),
            "{error}"
        );
        bench.rt.sleep(Span::from_millis(50)).await;
        let waited = bench.rt.now().since(began);
        assert!(waited < Span::from_secs(100), "no write is taken again");
    }
    bench.rt.now().since(began).as_millis()
}

#[test]
fn a_writer_is_accepted_within_a_second_of_room() {
    simulate(1, |rt| async move {
        let (bench, faults, file) = full(&rt).await;
        faults.clear();
        let waited_ms = taken_after_ms(&bench, &file).await;
        assert!(waited_ms <= 1_000, "{waited_ms} ms");
        assert!(file.sync().await.is_err(), "it reports what failed");
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn callers_that_keep_asking_make_no_busy_loop() {
    simulate(2, |rt| async move {
        let (bench, faults, file) = full(&rt).await;
        let before = faults.injected(IoKind::Write);
        let kept = file.failed_pages();
        for _ in 0..10_000 {
            assert!(write_pages(&file, 0..1).await.is_err());
            bench.rt.sleep(Span::from_millis(1)).await;
        }
        let tries = faults.injected(IoKind::Write) - before;
        // Ten seconds allow forty tries, each with its halves down to a bound.
        assert!(
            tries <= 45 * (512 + kept),
            "{tries} requests of {kept} pages"
        );
        assert!(tries >= 20, "{tries} requests");
    });
}

#[test]
fn a_discard_or_a_truncate_makes_room_for_others() {
    for cuts in [true, false] {
        simulate(3, |rt| async move {
            let (bench, faults) = Bench::faulty(rt, 8);
            let (file, other) = (bench.open(0), bench.open_object(OTHER, 0));
            write_pages(&other, 0..4).await.expect("memory takes it");
            other.sync().await.expect("there is room");
            refuse(&faults, 0..u64::MAX >> 12, Failure::NoSpace);
            write_pages(&file, 0..50).await.expect("memory takes it");
            bench.rt.sleep(Span::from_secs(200)).await;
            assert!(!bench.has_stored(0..1));
            faults.clear();
            if cuts {
                other.truncate(PAGE as u64).await.expect("it can be cut");
            } else {
                other
                    .discard(bytes_of(0..4))
                    .await
                    .expect("it can be discarded");
            }
            bench.rt.sleep(Span::from_millis(500)).await;
            assert!(bench.has_stored(0..50), "{cuts}");
        });
    }
}

#[test]
fn requests_of_one_try_that_fail_together_cost_one_back_off() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = bench.open(0);
        // Eight pages that are not neighbours: eight requests.
        for number in 0..8 {
            write_pages(&file, 2 * number..2 * number + 1)
                .await
                .expect("memory takes it");
        }
        faults.inject(Fault {
            when: FaultWhen::First(8),
            ..Fault::each(IoKind::Write, FaultAction::Fail(BROKEN))
        });
        assert!(file.sync().await.is_err());
        assert_eq!(faults.injected(IoKind::Write), 8);
        bench.rt.sleep(Span::from_millis(1_200)).await;
        assert_eq!(file.failed_pages(), 0);
        assert!((0..8).all(|number| bench.has_stored(2 * number..2 * number + 1)));
        bench.assert_consistent();
    });
}

#[test]
fn good_pages_beside_bad_ones_are_written_at_once() {
    simulate(5, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 16);
        let file = bench.open(0);
        let bad: [Range<u64>; 4] = [100..101, 300..428, 613..614, 999..1_000];
        for pages in &bad {
            refuse(&faults, pages.clone(), BROKEN);
        }
        write_pages(&file, 0..1_000).await.expect("memory takes it");
        assert!(file.sync().await.is_err());
        bench.rt.sleep(Span::from_secs(1)).await;
        let is_bad = |page: u64| bad.iter().any(|pages| pages.contains(&page));
        for page in 0..1_000 {
            assert_eq!(
                bench.has_stored(page..page + 1),
                !is_bad(page),
                "page {page}"
            );
        }
        assert_eq!(file.failed_pages(), 131);
        // The pages that are left do not hold back a new one, nor are they tried all the time.
        let before = faults.injected(IoKind::Write);
        write_pages(&file, 1_500..1_501)
            .await
            .expect("memory takes it");
        bench.rt.sleep(Span::from_secs(36)).await;
        assert!(bench.has_stored(1_500..1_501));
        let again = faults.injected(IoKind::Write) - before;
        assert!(again < 10 * 300, "{again} requests for 131 pages");
        faults.clear();
        bench.rt.sleep(Span::from_secs(70)).await;
        assert!(bench.has_stored(0..1_000));
        assert_eq!(file.failed_pages(), 0);
        bench.assert_consistent();
    });
}

#[test]
fn a_store_that_refuses_everything_is_asked_a_bounded_number_of_times() {
    simulate(6, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 64);
        let file = bench.open(0);
        refuse(&faults, 0..u64::MAX >> 12, BROKEN);
        write_pages(&file, 0..2_000).await.expect("memory takes it");
        assert!(file.sync().await.is_err());
        bench.rt.sleep(Span::from_secs(600)).await;
        let failed = |event: &Event| matches!(event, Event::WritebackFailed { .. });
        let (asked, tries) = (faults.injected(IoKind::Write), 6 + 600 / 60);
        assert!(asked <= tries * (512 + 2_000), "{asked} requests");
        assert!(bench.events().iter().any(|(_, event)| failed(event)));
        assert_eq!(bench.count(Counter::WaitsOverdue), 0);
        assert_eq!(bench.memory.length_bytes(FILE), 0);
        assert_eq!(page_of(0).len(), PAGE);
        bench.assert_consistent();
    });
}

#[test]
fn an_object_that_cannot_be_written_stops_nobody_else() {
    simulate(7, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        let (file, other) = (bench.open(0), bench.open_object(OTHER, 0));
        faults.inject(Fault {
            object: Some(FILE),
            ..Fault::each(IoKind::Write, FaultAction::Fail(Failure::Device(27)))
        });
        let mut refused = 0;
        for number in 0..1_500 {
            refused += u64::from(write_pages(&file, number..number + 1).await.is_err());
            let began = bench.rt.now();
            let written = write_pages(&other, number..number + 1).await;
            assert_eq!(written, Ok(()), "page {number}");
            let took = bench.rt.now().since(began);
            assert!(took <= Span::from_millis(400), "page {number} took {took}");
            if number % 10 == 0 {
                bench.rt.sleep(Span::from_millis(20)).await;
            }
        }
        assert!(refused > 100, "its own writer is refused: {refused}");
        assert_eq!(other.sync().await, Ok(()));
        let failed = bench.cache.sync().await.expect_err("it cannot be written");
        assert!(
            matches!(failed, forebay_engine::SyncError::Store(_)),
            "{failed}"
        );
        bench.assert_consistent();
    });
}

/// Without an interval nothing wakes the flusher for old pages, but a page that was refused still
/// has its next try.
#[test]
fn refused_pages_are_tried_again_without_an_interval() {
    simulate(4, |rt| async move {
        let settings = Settings {
            writeback_interval: Span::ZERO,
            ..Settings::of_mib(8)
        };
        let (bench, faults) = Bench::faulty_over(rt.clone(), settings, MemoryStore::new());
        let file = bench.open(0);
        refuse(&faults, 0..1, BROKEN);
        write_pages(&file, 0..1).await.expect("memory takes it");
        assert!(file.sync().await.is_err());
        rt.sleep(Span::from_secs(3)).await;
        faults.clear();
        rt.sleep(Span::from_secs(120)).await;
        assert!(bench.has_stored(0..1));
        assert_eq!(bench.cache.statistics().dirty(), 0);
        bench.assert_consistent();
    });
}

/// The rate that is known of a store of 2,000 pages a second before it refuses all of its writes
/// for 20 s, after that, and 4 s after it takes them again.
async fn rates_around_refusals(rt: Rt, policy: &str) -> [u64; 3] {
    let policy = Policy::preset(policy).expect("it is a preset");
    let settings = Settings {
        ..Settings::of_mib(32)
    }
    .under(policy);
    let rate = Rate::bytes(2_000 * PAGE as u64);
    let memory = Arc::new(MemoryStore::new());
    let rated = Arc::new(RateStore::new(rt.clone(), memory.clone(), rate));
    let faults = Arc::new(FaultStore::new(rt.clone(), rated));
    let bench = Bench::around(rt.clone(), settings, memory, faults.clone());
    let writer = Writer::start(&rt, bench.open(0), 16, Span::from_millis(1));
    let known = || bench.cache.statistics().backings[0].write_bandwidth;
    rt.sleep(Span::from_secs(30)).await;
    let before = known();
    faults.inject(Fault::each(IoKind::Write, FaultAction::Fail(BROKEN)));
    rt.sleep(Span::from_secs(20)).await;
    let refusing = known();
    faults.clear();
    rt.sleep(Span::from_secs(4)).await;
    let after = known();
    writer.end().await;
    [before, refusing, after]
}

/// Its refusals came at once, and 20 s of them made it one of 16,777,216 pages a second.
#[test]
fn a_store_is_as_fast_as_what_it_takes() {
    simulate(7, |rt| async move {
        for rate in rates_around_refusals(rt, "forebay").await {
            assert!((1_900..=2_100).contains(&rate), "{rate}");
        }
    });
}

/// Linux counts each write that ends.
#[test]
fn a_kernel_takes_refusals_for_writes() {
    simulate(7, |rt| async move {
        let [before, refusing, _] = rates_around_refusals(rt, "linux-6.16").await;
        assert!((1_900..=2_100).contains(&before), "{before}");
        assert!(!(1_900..=2_100).contains(&refusing), "{refusing}");
    });
}
