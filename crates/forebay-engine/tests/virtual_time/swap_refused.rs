//! What is left of pages that the swap store refused when they are no longer wanted.

use crate::support::{Bench, PAGE, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_engine::{AccessError, Counter, File, Settings};
use forebay_store::{Failure, Fault, FaultAction, FaultWhen, IoKind, ObjectId};

/// More than the cache has frames.
const FILE_PAGES: u64 = 2_000;

/// A cache with anonymous memory, a page of which swap has just refused.
async fn refused(bench: &Bench) -> File {
    let swap = bench.cache.set_swap(&bench.store, ObjectId(9), 16 << 20);
    swap.expect("there is room for swap");
    let memory = bench.cache.anonymous(8 << 20).expect("swap is set");
    for page in 0.. {
        if bench.count(Counter::NrWriteFailed) > 0 {
            break;
        }
        let written = write_pages(&memory, page..page + 1).await;
        written.expect("there is memory, or swap takes the others");
        bench.rt.yield_now().await;
    }
    memory
}

/// How long a caller that finds all pages held waits for another one.
async fn wait_for_held(bench: &Bench) -> Span {
    let file = bench.open(FILE_PAGES * PAGE as u64);
    let mut guards = Vec::new();
    for page in 0..FILE_PAGES {
        match file.page(page).await {
            Ok(guard) => guards.push(guard),
            Err(AccessError::NoFrames { waited, .. }) => return waited,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("there are fewer frames than pages");
}

#[test]
fn no_caller_waits_for_swap_to_take_pages_that_are_gone() {
    for is_cut in [false, true] {
        simulate(1, |rt| async move {
            let (bench, faults) = Bench::faulty(rt.clone(), 4);
            bench
                .memory
                .fill(crate::support::FILE, &pages(0..FILE_PAGES));
            let full = FaultAction::Fail(Failure::NoSpace);
            let when = FaultWhen::First(1);
            faults.inject(Fault {
                when,
                ..Fault::each(IoKind::Write, full)
            });
            let memory = refused(&bench).await;
            let kept = if is_cut {
                memory.truncate(0).await.expect("nobody holds its pages");
                Some(memory)
            } else {
                drop(memory);
                None
            };
            rt.sleep(Span::from_secs(10)).await;
            bench.assert_consistent();
            let waited = wait_for_held(&bench).await;
            let most = 2 * Settings::default().held_timeout.as_millis();
            assert!(waited.as_millis() < most, "cut: {is_cut}, {waited}");
            drop(kept);
        });
    }
}
