//! Syncs beside writes, cuts and other syncs.

use crate::PAGE;
use crate::bench::{Bench, join, short_of_dirty, start};
use crate::callers;
use crate::versions::Versions;
use forebay_base::Prng;
use forebay_rt::explored::{Clock, explore};
use forebay_store::{Durability, ObjectId};
use std::sync::Arc;

const OBJECT: ObjectId = ObjectId(1);
const PAGES: u64 = 6;

fn run(order: u64, durability: Durability) {
    let chance = Prng::from_seed(order).child("plan");
    let bench = Bench::new(short_of_dirty(8), durability, order);
    let file = bench.open(OBJECT, PAGES);
    let versions = Arc::new(Versions::new(PAGES));
    let mut threads = Vec::new();
    for caller in 0..2 {
        let (versions, store) = (versions.clone(), bench.store.clone());
        let mut chance = chance.child(&format!("{caller}"));
        threads.push(start(&file, move |file| {
            for _ in 0..3 {
                let count = 1 + chance.below(2);
                callers::write(&file, &versions, (caller, 2), count, &mut chance);
                callers::sync(&file, &versions, &store, OBJECT);
            }
        }));
    }
    join(threads);
    assert_eq!(
        bench.rt.now().as_millis(),
        0,
        "a wait was not ended by its event"
    );
    assert_eq!(file.len(), PAGES * PAGE as u64);
    drop(file);
    bench.close();
}

#[test]
fn a_sync_returns_when_what_was_written_before_is_durable() {
    explore(1_500, Clock::Waits, |order| {
        run(order, Durability::OnCommit)
    });
}

#[test]
fn a_sync_returns_when_what_an_unstable_store_was_given_before_is_durable() {
    explore(1_500, Clock::Waits, |order| {
        run(order, Durability::Unstable)
    });
}
