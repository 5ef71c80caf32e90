//! Dirty pages so far apart that the room for remembering them runs out before the limit on them.

use forebay_engine::{AccessError, Advice, Counter, Settings};

use crate::support::{Bench, FILE, OfSize, PAGE, memory_of, page_of, simulate, write_pages};
use forebay_base::Span;
use forebay_base::hash::mix;
use forebay_engine::settings::DirtyKnobs;
use forebay_store::{
    Durability, Failure, Fault, FaultAction, IoKind, MemoryStore, ObjectId, Rate, RateStore,
};
use std::sync::Arc;

/// Pages dirtied, each in an object of its own: more than 4 MiB have room for.
const SCATTERED: u64 = 800;

/// Limits on dirty pages that are out of reach.
fn unlimited() -> Settings {
    Settings {
        dirty: DirtyKnobs {
            dirty_ratio_percent: 95,
            background_ratio_percent: 90,
            ..DirtyKnobs::default()
        },
        ..Settings::of_mib(4)
    }
}

/// A writer that finds no room gets it as soon as any page is clean, whichever object it belongs
/// to.
#[test]
fn a_writer_waits_for_the_pages_of_any_store() {
    for durability in [Durability::OnFinish, Durability::Unstable] {
        simulate(1, async |rt| {
            let bench = Bench::with(rt.clone(), unlimited(), |_, memory| memory);
            let other = memory_of(durability);
            let slow = RateStore::new(rt.clone(), Arc::new(other), Rate::bytes(1_000_000));
            let slow = bench.cache.attach(Arc::new(slow)).expect("it is attached");
            let file = bench.open(0);
            for number in 0..SCATTERED {
                let object = ObjectId(FILE.0 + 1 + number);
                let scattered = bench.cache.open(&slow, object, 0).expect("it opens");
                let began = rt.now();
                let written = scattered.write_at(&page_of(number), 0).await;
                assert_eq!(written, Ok(()), "page {number}");
                // Blocks of one page each: a stride of 64 pages takes one for each page.
                let at = number * 64 * PAGE as u64;
                assert_eq!(file.write_at(&page_of(number), at).await, Ok(()));
                assert!(rt.now().since(began) < Span::from_secs(10), "page {number}");
            }
            assert_eq!(bench.count(Counter::WaitsOverdue), 0);
            bench.cache.sync().await.expect("the stores are well");
            write_pages(&file, 0..64).await.expect("memory takes it");
            bench.assert_consistent();
        });
    }
}

/// Writes that fail again and again end, but free no room: in the end the writer gets an error.
#[test]
fn a_writer_that_waits_for_pages_that_cannot_be_written_fails() {
    simulate(2, async |rt| {
        let (bench, faults) = Bench::faulty_over(rt.clone(), unlimited(), MemoryStore::new());
        faults.inject(Fault::each(
            IoKind::Write,
            FaultAction::Fail(Failure::NoSpace),
        ));
        for number in 0..SCATTERED {
            let object = ObjectId(FILE.0 + number);
            let file = bench.open_object(object, 0);
            let page = page_of(number);
            let write = file.write_at(&page, 0);
            match rt.timeout(Span::from_secs(40), write).await {
                Ok(Ok(())) => {}
                Ok(Err(AccessError::NoFrames { .. })) => {
                    assert!(bench.count(Counter::WaitsOverdue) > 0, "page {number}");
                    return;
                }
                other => panic!("page {number}: {other:?}"),
            }
        }
        panic!("there is room for less");
    });
}

/// A caller that knows the hash can choose pages that all fall into one bucket.
#[test]
fn pages_of_one_bucket_are_found_however_many_they_are() {
    const NEIGHBOURS: u64 = 16;
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 4);
        let file = bench.open(1 << 40);
        file.advise(Advice::Random, 0..u64::MAX)
            .await
            .expect("it is advice");
        let groups = bench.cache.statistics().frames.div_ceil(NEIGHBOURS);
        let group = |page: u64| {
            let key = 1 << 40 | page;
            ((mix(key / NEIGHBOURS) >> 32) * groups) >> 32
        };
        let chosen: Vec<u64> = (0..)
            .step_by(NEIGHBOURS as usize)
            .filter(|&page| group(page) == 0)
            .take(400)
            .collect();
        let mut byte = [1];
        for _ in 0..2 {
            for page in &chosen {
                let read = file.read_at(&mut byte, page * PAGE as u64).await;
                assert_eq!((read, byte), (Ok(1), [0]));
            }
        }
        assert_eq!(bench.count(Counter::CacheMiss), chosen.len() as u64);
        bench.assert_consistent();
    });
}
