//! Everything at once on a cache that is short of memory, of room for dirty pages, or of both.

use crate::PAGE;
use crate::bench::{Bench, join, short_of_dirty, short_of_memory, start};
use crate::callers;
use crate::versions::{Versions, version_of};
use forebay_base::{Prng, Span};
use forebay_engine::{Counter, Settings};
use forebay_rt::block_on;
use forebay_rt::explored::{Clock, explore};
use forebay_store::{Durability, ObjectId};
use std::sync::Arc;

const OBJECT: ObjectId = ObjectId(1);
const PAGES: u64 = 24;

fn drawn(chance: &mut Prng) -> (Settings, Durability) {
    let durability = match chance.below(3) {
        0 => Durability::OnFinish,
        1 => Durability::OnCommit,
        _ => Durability::Unstable,
    };
    let dirty = short_of_dirty(2 + chance.below(4));
    let mut settings = short_of_memory(4 + chance.below(4));
    if chance.chance(1, 3) {
        settings.dirty = dirty.dirty;
    }
    (settings, durability)
}

fn run(order: u64) {
    let mut chance = Prng::from_seed(order).child("plan");
    let (settings, durability) = drawn(&mut chance);
    let bench = Bench::new(settings, durability, chance.next_u64());
    let file = bench.open(OBJECT, PAGES);
    let versions = Arc::new(Versions::new(PAGES));
    let mut first = [0; 8 * PAGE];
    assert_eq!(block_on(file.read_at(&mut first, 0)), Ok(first.len()));
    let mut threads = Vec::new();
    for writer in 0..2 {
        let (versions, mut chance) = (versions.clone(), chance.child(&format!("{writer}")));
        threads.push(start(&file, move |file| {
            callers::write(&file, &versions, (writer, 2), 8, &mut chance);
        }));
    }
    let (of_reader, mut of_reads) = (versions.clone(), chance.child("reads"));
    threads.push(start(&file, move |file| {
        callers::read(&file, &of_reader, 10, &mut of_reads);
    }));
    let (of_syncs, store) = (versions.clone(), bench.store.clone());
    threads.push(start(&file, move |file| {
        for _ in 0..2 {
            callers::sync(&file, &of_syncs, &store, OBJECT);
        }
    }));
    join(threads);
    let scans = bench.count(Counter::PgscanKswapd) + bench.count(Counter::PgscanDirect);
    assert!(scans > 0, "memory was short");
    drop(file);
    let store = bench.store.clone();
    bench.close();
    for (page, bytes) in (0..).zip(store.durable(OBJECT).chunks(PAGE)) {
        assert_eq!(version_of(page, bytes), versions.begun(page), "page {page}");
    }
}

#[test]
fn nothing_is_torn_stale_or_lost() {
    explore(600, Clock::Waits, run);
}

#[test]
fn nothing_is_torn_stale_or_lost_while_timers_fire() {
    explore(600, Clock::Jumps(Span::from_millis(200)), run);
}
