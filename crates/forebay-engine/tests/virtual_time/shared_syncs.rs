//! Syncs of one file by many callers: one of them writes for the others, and none depends on it.

use crate::support::{Bench, OfSize, PAGE, memory_of, page_of, simulate};
use forebay_base::Span;
use forebay_engine::{File, Settings};
use forebay_rt::Rt;
use forebay_store::{CountStore, DelayStore, Delays, Durability, IoKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

const COMMIT_MS: u64 = 10;
/// More callers than sync by themselves.
const CALLERS: u64 = 16;

/// A store whose commits take a while, and are counted.
fn bench(rt: &Rt) -> (Bench, Arc<CountStore>) {
    let memory = Arc::new(memory_of(Durability::OnCommit));
    let delays = Delays {
        commit: Span::from_millis(COMMIT_MS),
        ..Delays::default()
    };
    let slow = Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays));
    let counted = Arc::new(CountStore::new(rt.clone(), slow));
    let bench = Bench::around(rt.clone(), Settings::of_mib(8), memory, counted.clone());
    (bench, counted)
}

async fn write(file: &File, page: u64) {
    let written = file.write_at(&page_of(page), page * PAGE as u64).await;
    assert_eq!(written, Ok(()));
}

/// Writes and syncs pages `first`, `first + 2` and so on, `rounds` of each of the callers, which
/// all begin at once. Returns the longest sync.
async fn all_at_once(rt: &Rt, file: &File, first: u64, rounds: u64) -> Span {
    let longest = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (clock, file, longest) = (rt.clone(), file.clone(), longest.clone());
            rt.spawn("syncs", async move {
                for round in 0..rounds {
                    write(&file, first + 2 * (caller * rounds + round)).await;
                    let began = clock.now();
                    assert_eq!(file.sync().await, Ok(()));
                    let took = clock.now().since(began);
                    longest.fetch_max(took.as_nanos(), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().await;
    }
    Span::from_nanos(longest.load(Ordering::Relaxed))
}

#[test]
fn many_callers_need_one_commit_a_round() {
    simulate(1, |rt| async move {
        const ROUNDS: u64 = 5;
        let (bench, counted) = bench(&rt);
        let file = bench.open(0);
        let longest = all_at_once(&rt, &file, 0, ROUNDS).await;
        // The commit under way, and the next one.
        assert!(longest <= Span::from_millis(2 * COMMIT_MS), "{longest:?}");
        let commits = counted.counts(IoKind::Commit).requests;
        assert!(commits <= 2 * ROUNDS, "{commits} commits");
        let pages = CALLERS * ROUNDS;
        assert_eq!(counted.counts(IoKind::Write).pages, pages);
        for page in 0..pages {
            assert!(bench.has_stored(2 * page..2 * page + 1));
        }
        bench.assert_consistent();
    });
}

/// The callers that wait for a sync that is given up sync by themselves (invariant SY3).
#[test]
fn callers_that_give_up_leave_nobody_waiting() {
    for patience_ms in [1, COMMIT_MS / 2, COMMIT_MS, COMMIT_MS + 5] {
        simulate(2, |rt| async move {
            let (bench, _) = bench(&rt);
            let file = bench.open(0);
            let giving_up: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (clock, file) = (rt.clone(), file.clone());
                    rt.spawn("gives up", async move {
                        write(&file, 1_000 + 2 * caller).await;
                        let patience = Span::from_millis(patience_ms);
                        // Whether it ends in time does not matter.
                        let _ = clock.timeout(patience, file.sync()).await;
                    })
                })
                .collect();
            let longest = all_at_once(&rt, &file, 0, 2).await;
            assert!(longest <= Span::from_millis(4 * COMMIT_MS), "{longest:?}");
            for caller in giving_up {
                caller.join().await;
            }
            bench.assert_consistent();
        });
    }
}

/// A future that nobody polls any more costs the others a moment.
#[test]
fn callers_do_not_rely_on_one_that_stopped() {
    simulate(3, |rt| async move {
        let (bench, _) = bench(&rt);
        let file = bench.open(0);
        let files: Vec<_> = (0..CALLERS).map(|_| file.clone()).collect();
        let mut stopped: Vec<_> = files.iter().map(|file| Box::pin(file.sync())).collect();
        for (page, sync) in (0..).zip(&mut stopped) {
            write(&file, 1_000 + 2 * page).await;
            let mut context = Context::from_waker(Waker::noop());
            assert!(pin!(sync).poll(&mut context).is_pending());
        }
        let longest = all_at_once(&rt, &file, 0, 3).await;
        assert!(longest <= Span::from_millis(100), "{longest:?}");
        for sync in stopped {
            assert_eq!(sync.await, Ok(()));
        }
        bench.assert_consistent();
    });
}
