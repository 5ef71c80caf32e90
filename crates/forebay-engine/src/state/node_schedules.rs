//! Orders of the steps of reclaimers that wait for writeback and of the ends of writes, in a world
//! in which only a wake-up ends a wait: if one is lost, everything stands still and the explorer
//! reports it. Run by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p forebay-engine --lib node_schedules`.

use crate::state::node::Node;
use forebay_law::throttle::ThrottleReason;
use forebay_rt::explored::{Clock, explore};
use forebay_rt::wait::{Gate, Permits};
use forebay_rt::{block_on, thread};
use std::sync::Arc;

const RECLAIMERS: u64 = 2;
const STORES: u64 = 2;
/// Pages for each waiter after which all of them are woken (spec/reclaim.md 5.5).
const ENOUGH: u64 = 33;

#[test]
fn invariant_k1_enough_writes_wake_the_reclaimers_that_wait() {
    explore(3_000, Clock::Waits, |_| {
        let node = Arc::new(Node::new(0, 0..1));
        let all_wait = Arc::new(Gate::new(false));
        let all_here = Arc::new(Permits::new(RECLAIMERS as usize));
        let mut threads = Vec::new();
        for _ in 0..RECLAIMERS {
            let node = node.clone();
            // Given back once it waits.
            let coming = all_here.try_acquire_owned(1).expect("each has one");
            let reclaim = move || {
                // The same order as in `Reclaim::reclaim_throttle`.
                let listener = node.queue(ThrottleReason::Writeback).listen();
                let _waits = node.wait_for_writeback();
                drop(coming);
                block_on(listener);
            };
            threads.push(thread::spawn("reclaimer", reclaim).expect("a thread starts"));
        }
        for _ in 0..STORES {
            let (node, all_wait) = (node.clone(), all_wait.clone());
            let write = move || {
                block_on(all_wait.wait());
                for _ in 0..ENOUGH * RECLAIMERS / STORES {
                    node.note_written(1);
                }
            };
            threads.push(thread::spawn("store", write).expect("a thread starts"));
        }
        drop(block_on(all_here.acquire(RECLAIMERS as usize)));
        all_wait.open();
        threads.into_iter().for_each(thread::Joiner::join);
        assert_eq!(node.note_written(1), 0, "a reclaimer still waits");
    });
}
