//! What is read back from swap together with the requested page.

use crate::support::{Bench, OfSize, has_page, simulate, write_pages};
use forebay_base::Prng;
use forebay_engine::{Cache, Counter, File};
use forebay_store::{CountStore, IoKind, MemoryStore, ObjectId};
use std::sync::Arc;

const MEMORY_PAGES: u64 = 4_000;

/// A cache of 8 MiB, anonymous memory of twice that, written once, and the store that counts
/// requests.
async fn swapped(rt: forebay_rt::Rt) -> (Bench, Arc<CountStore>, File) {
    let memory = Arc::new(MemoryStore::new());
    let counts = Arc::new(CountStore::new(rt.clone(), memory.clone()));
    let bench = Bench::around(
        rt,
        forebay_engine::Settings::of_mib(8),
        memory,
        counts.clone(),
    );
    let file = anonymous(&bench.cache, &bench);
    write_pages(&file, 0..MEMORY_PAGES)
        .await
        .expect("memory takes bytes");
    (bench, counts, file)
}

fn anonymous(cache: &Cache, bench: &Bench) -> File {
    let swap = cache.set_swap(&bench.store, ObjectId(9), 64 << 20);
    swap.expect("swap is new");
    cache.anonymous(MEMORY_PAGES * 4_096).expect("swap is set")
}

#[test]
fn a_walk_through_memory_reads_several_pages_at_a_time() {
    simulate(1, |rt| async move {
        let (bench, counts, file) = swapped(rt).await;
        for _ in 0..2 {
            for number in 0..MEMORY_PAGES {
                assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
            }
        }
        let swapped_in = bench.count(Counter::Pswpin);
        let requests = counts.counts(IoKind::Read).requests;
        assert!(swapped_in >= MEMORY_PAGES, "{swapped_in}");
        assert!(
            requests * 4 < swapped_in,
            "{requests} requests for {swapped_in} pages"
        );
        bench.assert_consistent();
    });
}

#[test]
fn random_reads_read_little_more_than_what_was_wanted() {
    simulate(1, |rt| async move {
        let (bench, _, file) = swapped(rt).await;
        let mut chance = Prng::from_seed(7);
        let (misses, swapped_in) = (
            bench.count(Counter::CacheMiss),
            bench.count(Counter::Pswpin),
        );
        for _ in 0..2_000 {
            let number = chance.below(MEMORY_PAGES);
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        let misses = bench.count(Counter::CacheMiss) - misses;
        let swapped_in = bench.count(Counter::Pswpin) - swapped_in;
        assert!(misses > 500, "{misses}");
        assert!(
            swapped_in < 4 * misses,
            "{swapped_in} pages for {misses} misses"
        );
        bench.assert_consistent();
    });
}
