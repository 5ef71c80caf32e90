//! Which closed files a full table of objects keeps.

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, simulate};
use forebay_base::Prng;
use forebay_engine::Settings;
use forebay_rt::Rt;
use forebay_store::{CountStore, IoKind, MemoryStore, ObjectId};
use std::collections::VecDeque;
use std::sync::Arc;

const LIMIT: usize = 9;

async fn read_first_page(bench: &Bench, object: u64) {
    let file = bench.open_object(ObjectId(object), PAGE as u64);
    let read = file.read_at(&mut [0; PAGE], 0).await;
    assert_eq!(read, Ok(PAGE));
}

/// A cache in front of a store that counts.
fn bench(rt: Rt) -> (Bench, Arc<CountStore>) {
    let settings = Settings {
        objects_limit: LIMIT as u32,
        ..Settings::of_mib(8)
    };
    let counted = Arc::new(CountStore::new(rt.clone(), Arc::new(Void)));
    let bench = Bench::around(rt, settings, Arc::new(MemoryStore::new()), counted.clone());
    (bench, counted)
}

/// Eight files in turns, and after each turn a file that is never opened again.
#[test]
fn files_in_use_stay_while_others_come_and_go() {
    simulate(1, |rt| async move {
        let (bench, counted) = bench(rt);
        for round in 0..100 {
            for object in 1..LIMIT as u64 {
                read_first_page(&bench, object).await;
            }
            read_first_page(&bench, 1_000 + round).await;
        }
        assert_eq!(
            counted.counts(IoKind::Read).requests,
            100 + LIMIT as u64 - 1
        );
        bench.assert_consistent();
    });
}

#[test]
fn a_full_table_forgets_the_file_that_was_closed_longest_ago() {
    for seed in 0..20 {
        simulate(seed, |rt| async move {
            let (bench, counted) = bench(rt);
            let mut chance = Prng::from_seed(seed);
            let mut kept = VecDeque::new();
            let mut expected = 0;
            for _ in 0..1_000 {
                // The low numbers come more often.
                let of = 1 + chance.below(30);
                let object = 1 + chance.below(of);
                match kept.iter().position(|&known| known == object) {
                    Some(at) => drop(kept.remove(at)),
                    None => expected += 1,
                }
                kept.push_back(object);
                if kept.len() > LIMIT {
                    kept.pop_front();
                }
                read_first_page(&bench, object).await;
                assert_eq!(
                    counted.counts(IoKind::Read).requests,
                    expected,
                    "seed {seed}"
                );
            }
            bench.assert_consistent();
        });
    }
}
