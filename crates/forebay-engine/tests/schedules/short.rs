//! Memory that is short, and a budget that changes meanwhile.

use crate::PAGE;
use crate::bench::{Bench, FEWEST_FRAMES, join, settings, start};
use crate::callers;
use crate::versions::Versions;
use forebay_base::{Prng, Span};
use forebay_engine::MemoryError;
use forebay_engine::settings::Watermarks;
use forebay_rt::explored::{Clock, explore};
use forebay_rt::{block_on, thread};
use forebay_store::{Durability, ObjectId};
use std::sync::Arc;

const OBJECT: ObjectId = ObjectId(1);

/// One caller takes the last frame above the low mark and another one, while kswapd goes to sleep
/// for the first time.
fn leave_enough(order: u64) {
    const PAGES: u64 = 30;
    let mut chance = Prng::from_seed(order).child("plan");
    let marks = Watermarks {
        min: 100,
        low: 104,
        high: 105,
    };
    let mut settings = settings(FEWEST_FRAMES, marks);
    settings.readahead_pages = 0;
    let bench = Bench::new(settings, Durability::OnFinish, order);
    let file = bench.open(OBJECT, PAGES);
    let count = FEWEST_FRAMES - marks.low + 1 + chance.below(2);
    let mut bytes = vec![0; PAGE];
    for page in 0..count {
        let read = file.blocking().read_at(&mut bytes, page * PAGE as u64);
        assert_eq!(read, Ok(PAGE));
    }
    block_on(bench.rt.sleep(Span::from_secs(1)));
    let free = bench.cache.statistics().zones[0].free;
    assert!(free >= marks.low, "kswapd sleeps with {free} free");
    drop(file);
    bench.close();
}

#[test]
fn kswapd_sleeps_only_when_enough_is_free() {
    explore(1_000, Clock::Waits, leave_enough);
}

#[test]
fn kswapd_sleeps_only_when_enough_is_free_though_its_nap_is_over() {
    explore(3_000, Clock::Jumps(Span::from_millis(200)), leave_enough);
}

#[test]
fn a_budget_is_met_while_frames_are_taken() {
    explore(300, Clock::Waits, |order| {
        const PAGES: u64 = FEWEST_FRAMES + 20;
        let mut chance = Prng::from_seed(order).child("plan");
        let marks = Watermarks {
            min: 2,
            low: 4,
            high: 6,
        };
        let settings = settings(FEWEST_FRAMES + 16, marks);
        let bench = Bench::new(settings, Durability::OnFinish, order);
        let file = bench.open(OBJECT, PAGES);
        let versions = Arc::new(Versions::new(PAGES));
        let Err(MemoryError::TooLarge { limit_bytes, .. }) =
            block_on(bench.cache.set_memory(u64::MAX))
        else {
            panic!("it has a limit");
        };
        let smaller_bytes = limit_bytes - 16 * PAGE as u64;
        let mut all = vec![0; (FEWEST_FRAMES + 6) as usize * PAGE];
        let read = block_on(file.read_at(&mut all, 0));
        assert_eq!(read, Ok(all.len()));
        let mut threads = Vec::new();
        for caller in 0..2 {
            let (versions, mut chance) = (versions.clone(), chance.child(&format!("{caller}")));
            threads.push(start(&file, move |file| {
                if caller == 0 {
                    callers::read(&file, &versions, 6, &mut chance);
                }
                callers::write(&file, &versions, (caller, 2), 4, &mut chance);
            }));
        }
        let cache = bench.cache.clone();
        let goes_to_and_fro = chance.chance(1, 2);
        let changes = move || {
            assert_eq!(block_on(cache.set_memory(smaller_bytes)), Ok(0));
            if goes_to_and_fro {
                assert_eq!(block_on(cache.set_memory(limit_bytes)), Ok(0));
                assert_eq!(block_on(cache.set_memory(smaller_bytes)), Ok(0));
            }
        };
        threads.push(thread::spawn("budget", changes).expect("a thread starts"));
        join(threads);
        let statistics = bench.cache.statistics();
        assert_eq!(statistics.pages_over, 0);
        drop(file);
        bench.close();
    });
}
