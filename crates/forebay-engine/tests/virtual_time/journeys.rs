//! The four journeys of ARCHITECTURE.md in virtual time: hit, miss with reclaim, throttled write,
//! flush.

use crate::support::{Bench, PAGE, page_of, simulate};
use forebay_base::Span;
use forebay_engine::Counter;
use forebay_store::{DelayStore, Delays, Rate};
use std::sync::Arc;

#[test]
fn what_was_written_is_read_and_synced() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let file = bench.open(0);
        for number in 0..100 {
            file.write_at(&page_of(number), number * PAGE as u64)
                .await
                .expect("a page is written");
        }
        let mut bytes = vec![0; PAGE];
        for number in (0..100).rev() {
            let read = file.read_at(&mut bytes, number * PAGE as u64).await;
            assert_eq!(read, Ok(PAGE));
            assert_eq!(bytes, page_of(number));
        }
        assert_eq!(
            bench.memory.length_bytes(crate::support::FILE),
            0,
            "nothing was written yet"
        );
        file.sync().await.expect("the store is well");
        let stored = bench.memory.snapshot(crate::support::FILE);
        assert_eq!(stored.len(), 100 * PAGE);
        assert!((0..100).all(|n| stored[n * PAGE..(n + 1) * PAGE] == page_of(n as u64)));
        bench.assert_consistent();
        bench.cache.close().await.expect("nothing is dirty");
    });
}

#[test]
fn a_file_four_times_the_memory_is_read_through_reclaim() {
    simulate(2, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let pages = 8192;
        let bytes: Vec<u8> = (0..pages).flat_map(page_of).collect();
        bench.memory.fill(crate::support::FILE, &bytes);
        let file = bench.open(bytes.len() as u64);
        let mut page = vec![0; PAGE];
        for number in 0..pages {
            assert_eq!(
                file.read_at(&mut page, number * PAGE as u64).await,
                Ok(PAGE)
            );
            assert_eq!(page, page_of(number), "page {number}");
        }
        let statistics = bench.cache.statistics();
        assert_eq!(
            statistics.get(Counter::Pgpgin),
            pages,
            "each page was read once"
        );
        assert!(
            statistics.get(Counter::PgstealKswapd) + statistics.get(Counter::PgstealDirect) > 4_000
        );
        assert_eq!(statistics.get(Counter::NrVmscanWriteFile), 0, "promise 4");
        bench.assert_consistent();
    });
}

#[test]
fn a_writer_faster_than_its_store_is_slowed_and_loses_nothing() {
    simulate(3, |rt| async move {
        let bench = Bench::rated(rt, 8, Rate::bytes(10 << 20));
        let file = bench.open(0);
        let pages = 8192_u64;
        let began = bench.rt.now();
        for number in 0..pages {
            file.write_at(&page_of(number), number * PAGE as u64)
                .await
                .expect("a page is written");
        }
        file.sync().await.expect("the store is well");
        let took = bench.rt.now().since(began);
        let least = Span::from_millis(3_200);
        assert!(
            took >= least && took < Span::from_millis(3_700),
            "32 MiB at 10 MiB/s took {took}"
        );
        let statistics = bench.cache.statistics();
        assert!(statistics.get(Counter::BalancePauses) > 0);
        let stored = bench.memory.snapshot(crate::support::FILE);
        assert!((0..8192).all(|n| stored[n * PAGE..(n + 1) * PAGE] == page_of(n as u64)));
        bench.assert_consistent();
    });
}

#[test]
fn an_idle_dirty_page_is_written_when_it_is_old() {
    simulate(4, |rt| async move {
        let bench = Bench::new(rt, 8, |rt, memory| {
            let span = Span::from_millis(5);
            Arc::new(DelayStore::new(
                rt,
                memory,
                Delays {
                    read: span,
                    write: span,
                    commit: span,
                },
            ))
        });
        let file = bench.open(0);
        file.write_at(&page_of(1), 0)
            .await
            .expect("a page is written");
        bench.rt.sleep(Span::from_secs(29)).await;
        assert_eq!(bench.cache.statistics().nr_dirty, 1);
        bench.rt.sleep(Span::from_secs(7)).await;
        assert_eq!(
            bench.cache.statistics().nr_dirty,
            0,
            "30 to 35 s after it was dirtied"
        );
        assert_eq!(bench.memory.snapshot(crate::support::FILE), page_of(1));
        bench.assert_consistent();
    });
}
