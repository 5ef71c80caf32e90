//! Futures that are dropped while they wait, wherever that is, leave nothing behind: no frame, no
//! mark, no lock, and no byte that was not written.

use crate::support::{Bench, FILE, OfSize, PAGE, page_of, simulate};
use forebay_base::{Prng, Span};
use forebay_engine::{Advice, File, ReadRequest, Settings};
use forebay_rt::Rt;
use forebay_store::{
    Durability, Fault, FaultAction, FaultStore, FaultWhen, Geometry, MemoryStore, ObjectId, Rate,
    RateStore, Store,
};
use std::sync::Arc;

const PAGES: u64 = 900;

/// A small cache in front of a store whose requests take time and overtake each other.
fn bench(rt: Rt, durability: Durability) -> Bench {
    let geometry = MemoryStore::new().geometry();
    let memory = Arc::new(MemoryStore::with(Geometry {
        durability,
        queue_depth: 4,
        ..geometry
    }));
    let paced = Arc::new(RateStore::new(
        rt.clone(),
        memory.clone(),
        Rate::bytes(20 << 20),
    ));
    let uneven = FaultStore::new(rt.clone(), paced);
    uneven.inject(Fault {
        kind: None,
        object: None,
        range_bytes: None,
        when: FaultWhen::Chance {
            numerator: 1,
            denominator: 3,
        },
        action: FaultAction::Delay(Span::from_millis(3)),
    });
    Bench::around(rt, Settings::of_mib(2), memory, Arc::new(uneven))
}

/// The version that a page holds, if the page is whole.
fn version_of(bytes: &[u8], page: u64) -> Option<u64> {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let is_whole = number % PAGES == page && bytes == page_of(number);
    is_whole.then_some(number / PAGES)
}

/// One operation that may be given up anywhere. Whole pages are written, or zeros.
async fn attempt(file: &File, chance: &mut Prng, version: u64) {
    let page = chance.below(PAGES);
    let at = page * PAGE as u64;
    let outcome = match chance.below(9) {
        0..=2 => {
            let end = (page + 1 + chance.below(60)).min(PAGES);
            let bytes: Vec<u8> = (page..end)
                .flat_map(|page| page_of(version * PAGES + page))
                .collect();
            file.write_at(&bytes, at).await
        }
        3 => {
            let mut bytes = vec![0; 40 * PAGE];
            file.read_at(&mut bytes, at).await.map(drop)
        }
        4 => {
            let mut buffers = [[0; 64]; 6];
            let mut requests: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| ReadRequest {
                    offset_bytes: chance.below(PAGES) * PAGE as u64,
                    buffer,
                    done_bytes: 0,
                })
                .collect();
            file.read_many(&mut requests).await
        }
        5 if at < file.len() => file.page(page).await.map(drop),
        6 => {
            // It does not matter here whether the sync succeeds.
            let _ = file.sync().await;
            Ok(())
        }
        7 if chance.chance(1, 2) => file.truncate(at).await,
        7 => file.discard(at..at + 50 * PAGE as u64).await,
        _ => {
            let advice = [Advice::WillNeed, Advice::DontNeed][chance.below(2) as usize];
            file.advise(advice, at..at + 100 * PAGE as u64).await
        }
    };
    let cut_meanwhile = matches!(outcome, Err(forebay_engine::AccessError::TooFar { .. }));
    assert!(outcome.is_ok() || cut_meanwhile, "{outcome:?}");
}

async fn give_up_often(rt: Rt, file: File, name: &'static str) {
    let mut chance = rt.stream(name);
    for version in 1..=150 {
        let mut own = chance.child("attempt");
        let patience = match chance.below(4) {
            0 => Span::from_micros(chance.below(100)),
            1 => Span::from_micros(chance.below(3_000)),
            2 => Span::from_millis(chance.below(40)),
            _ => Span::from_secs(20),
        };
        let tried = rt.timeout(patience, attempt(&file, &mut own, version));
        // Given up or finished, both leave the cache as it should be.
        let _ = tried.await;
    }
}

/// A caller that comes afterwards finds a cache as good as new.
async fn settle(bench: &Bench, file: &File) {
    bench.rt.sleep(Span::from_secs(70)).await;
    let synced = file.sync().await;
    assert_eq!(synced, Ok(()));
    bench.assert_consistent();
    let statistics = bench.cache.statistics();
    assert_eq!(statistics.dirty(), 0, "nothing is left to write");
    let listed: u64 = statistics
        .zones
        .iter()
        .map(|zone| zone.free + zone.inactive_file + zone.active_file)
        .sum();
    assert_eq!(listed, statistics.frames, "no frame is lost");
    let stored = bench.memory.snapshot(FILE);
    assert_eq!(stored.len() as u64, file.len());
    let mut read = vec![0; stored.len()];
    assert_eq!(file.read_at(&mut read, 0).await, Ok(stored.len()));
    assert!(read == stored);
    for (page, bytes) in stored.chunks(PAGE).enumerate() {
        let is_zero = bytes.iter().all(|&byte| byte == 0);
        assert!(
            is_zero || version_of(bytes, page as u64).is_some(),
            "page {page} is neither zeros nor one write"
        );
    }
    for page in 0..PAGES {
        let written = file.write_at(&page_of(page), page * PAGE as u64).await;
        assert_eq!(written, Ok(()));
    }
    assert_eq!(file.sync().await, Ok(()));
    assert!(bench.has_stored(0..PAGES));
    bench.assert_consistent();
}

#[test]
fn calls_that_are_given_up_leave_nothing_behind() {
    let durabilities = [
        Durability::OnFinish,
        Durability::OnCommit,
        Durability::Unstable,
    ];
    for seed in 0..36 {
        simulate(seed, |rt| async move {
            let bench = bench(rt.clone(), durabilities[seed as usize % 3]);
            let file = bench.open(0);
            let tasks: Vec<_> = ["first", "second", "third"]
                .map(|name| rt.spawn(name, give_up_often(rt.clone(), file.clone(), name)))
                .into();
            for task in tasks {
                task.join().await;
            }
            settle(&bench, &file).await;
        });
    }
}

#[test]
fn anonymous_memory_that_is_given_up_half_way_leaves_nothing_behind() {
    for seed in 100..120 {
        simulate(seed, |rt| async move {
            let bench = bench(rt.clone(), Durability::OnFinish);
            bench.set_swap(ObjectId(9), 32 << 20);
            let mut chance = rt.stream("user");
            for _ in 0..10 {
                let spill = bench
                    .cache
                    .anonymous(PAGES * PAGE as u64)
                    .expect("swap has room");
                for _ in 0..20 {
                    let page = chance.below(PAGES - 100);
                    let bytes = vec![7; 100 * PAGE];
                    let patience = Span::from_micros(chance.below(30_000));
                    let write = spill.write_at(&bytes, page * PAGE as u64);
                    let _ = rt.timeout(patience, write).await;
                    let mut read = vec![0; PAGE];
                    let _ = rt
                        .timeout(patience, spill.read_at(&mut read, page * PAGE as u64))
                        .await;
                    assert!(read.iter().all(|&byte| byte == 0 || byte == 7));
                }
            }
            rt.sleep(Span::from_secs(5)).await;
            bench.assert_consistent();
            let statistics = bench.cache.statistics();
            assert_eq!(statistics.swap_slots_used, 0, "seed {seed}");
            assert_eq!(statistics.free(), statistics.frames, "seed {seed}");
        });
    }
}
