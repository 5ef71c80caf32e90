//! A caller that writes and syncs over and over, while the flusher goes to sleep and is armed.

use crate::PAGE;
use crate::bench::{Bench, join, short_of_dirty, start};
use crate::callers;
use crate::versions::{Versions, version_of};
use forebay_base::{Prng, Span};
use forebay_rt::block_on;
use forebay_rt::explored::{Clock, explore};
use forebay_store::{Durability, ObjectId};
use std::sync::Arc;

const OBJECTS: u64 = 2;
const PAGES: u64 = 2;
const INTERVAL: Span = Span::from_millis(50);
const EXPIRE: Span = Span::from_millis(20);

/// Each caller ends with a write that it does not sync: only the flusher can write that page, once
/// it is old, and nothing else wakes it.
fn run(order: u64, intervals: u64) {
    let chance = Prng::from_seed(order).child("plan");
    let mut settings = short_of_dirty(40);
    settings.writeback_interval = INTERVAL;
    settings.dirty_expire = EXPIRE;
    let bench = Bench::new(settings, Durability::OnCommit, order);
    let files: Vec<_> = (1..=OBJECTS)
        .map(|number| (ObjectId(number), bench.open(ObjectId(number), PAGES)))
        .collect();
    let versions: Vec<_> = files
        .iter()
        .map(|_| Arc::new(Versions::new(PAGES)))
        .collect();
    let mut threads = Vec::new();
    for ((object, file), versions) in files.iter().zip(&versions) {
        let (versions, store, object) = (versions.clone(), bench.store.clone(), *object);
        let mut chance = chance.child(&format!("{object:?}"));
        let rt = bench.rt.clone();
        threads.push(start(file, move |file| {
            for _ in 0..1 + chance.below(3) {
                callers::write(&file, &versions, (0, 1), 1, &mut chance);
                callers::sync(&file, &versions, &store, object);
                if chance.chance(2, 3) {
                    // Often it goes on at the moment when the flusher looks again.
                    let pause_ms = INTERVAL.as_millis() * (1 + chance.below(3)) + chance.below(2);
                    block_on(rt.sleep(Span::from_millis(pause_ms)));
                }
            }
            callers::write(&file, &versions, (0, 1), 1, &mut chance);
        }));
    }
    join(threads);
    block_on(
        bench
            .rt
            .sleep(EXPIRE + Span::from_millis(INTERVAL.as_millis() * intervals)),
    );
    for ((object, _), versions) in files.iter().zip(&versions) {
        let written = bench.store.written(*object);
        for (page, bytes) in (0..).zip(written.chunks(PAGE)) {
            let (found, last) = (version_of(page, bytes), versions.returned(page));
            assert_eq!(
                found, last,
                "page {page} of {object:?} is old and not written"
            );
        }
    }
    drop(files);
    bench.close();
}

#[test]
fn what_is_old_is_written_after_a_loop_of_commits() {
    explore(1_000, Clock::Waits, |order| run(order, 2));
}

#[test]
fn what_is_old_is_written_though_the_flusher_wakes_late() {
    // Far longer than the clock can jump during the few steps of the flusher.
    explore(500, Clock::Jumps(INTERVAL), |order| run(order, 1_000));
}
