//! Which closed files a full table of objects keeps.

mod support;

use forebay::Settings;
use forebay_base::Prng;
use forebay_store::{Geometry, Io, IoKind, MemoryStore, ObjectId, Store};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::void::Void;
use support::{Bench, OfSize, PAGE, simulate};

/// Answers at once and counts what is read from it.
#[derive(Default)]
struct CountsReads(AtomicU64);

impl Store for CountsReads {
    fn geometry(&self) -> Geometry {
        Void.geometry()
    }

    fn submit(&self, io: Io) {
        if io.request().kind == IoKind::Read {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Void.submit(io);
    }
}

const LIMIT: usize = 9;

async fn read_first_page(bench: &Bench, object: u64) {
    let file = bench.open_object(ObjectId(object), PAGE as u64);
    let read = file.read_at(&mut [0; PAGE], 0).await;
    assert_eq!(read, Ok(PAGE));
}

fn bench(rt: forebay_rt::Rt, reads: &Arc<CountsReads>) -> Bench {
    let settings = Settings {
        objects_limit: LIMIT as u32,
        ..Settings::of_mib(8)
    };
    Bench::around(rt, settings, Arc::new(MemoryStore::new()), reads.clone())
}

/// Eight files by turns, and after each turn one that nobody asks for again.
#[test]
fn files_in_use_stay_while_others_come_and_go() {
    simulate(1, |rt| async move {
        let reads = Arc::new(CountsReads::default());
        let bench = bench(rt, &reads);
        for round in 0..100 {
            for object in 1..LIMIT as u64 {
                read_first_page(&bench, object).await;
            }
            read_first_page(&bench, 1_000 + round).await;
        }
        assert_eq!(reads.0.load(Ordering::Relaxed), 100 + LIMIT as u64 - 1);
        bench.assert_consistent();
    });
}

#[test]
fn a_full_table_forgets_the_file_that_was_closed_longest_ago() {
    for seed in 0..20 {
        simulate(seed, |rt| async move {
            let reads = Arc::new(CountsReads::default());
            let bench = bench(rt, &reads);
            let mut chance = Prng::from_seed(seed);
            let mut kept = VecDeque::new();
            let mut expected = 0;
            for _ in 0..1_000 {
                // The low numbers more often.
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
                assert_eq!(reads.0.load(Ordering::Relaxed), expected, "seed {seed}");
            }
            bench.assert_consistent();
        });
    }
}
