//! A store that may forget what it wrote until a commit (spec/writeback.md 1.2, T8 and T9).

use forebay_engine::{BuildError, Counter, Settings};

use crate::support::{
    Bench, FILE, OfSize, PAGE, Setup, has_page, memory_of, page_of, pages, simulate, write_pages,
};
use forebay_base::Span;
use forebay_kernels::Policy;
use forebay_kernels::policy::DirtyThrottle;
use forebay_rt::Rt;
use forebay_store::{
    CountStore, DelayStore, Delays, Durability, Failure, Fault, FaultAction, FaultStore, FaultWhen,
    IoKind, MemoryStore, ObjectId,
};
use std::sync::Arc;

/// A cache in front of a counted, slow, unstable store with faults.
struct Remote {
    bench: Bench,
    faults: Arc<FaultStore>,
    counts: Arc<CountStore>,
}

impl Remote {
    fn new(rt: Rt, mib: u64) -> Remote {
        Remote::with(rt, Settings::of_mib(mib))
    }

    fn with(rt: Rt, settings: impl Into<Setup>) -> Remote {
        Remote::writing_in(rt, settings, Span::from_millis(2))
    }

    /// Settings of a flusher that writes dirty pages at once, without being asked.
    fn eager(mib: u64) -> Settings {
        Settings {
            writeback_interval: Span::from_millis(2),
            dirty_expire: Span::from_millis(1),
            ..Settings::of_mib(mib)
        }
    }

    /// A write takes `write`.
    fn writing_in(rt: Rt, settings: impl Into<Setup>, write: Span) -> Remote {
        let memory = Arc::new(memory_of(Durability::Unstable));
        let delays = Delays {
            read: Span::from_millis(1),
            write,
            commit: Span::from_millis(20),
        };
        let slow = Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays));
        let faults = Arc::new(FaultStore::new(rt.clone(), slow));
        let counts = Arc::new(CountStore::new(rt.clone(), faults.clone()));
        let bench = Bench::around(rt, settings, memory, counts.clone());
        Remote {
            bench,
            faults,
            counts,
        }
    }

    /// Write number `nth` of [`FILE`] is never answered.
    fn swallow_write(&self, nth: u64) {
        self.faults.inject(Fault {
            object: Some(FILE),
            when: FaultWhen::Nth(nth),
            ..Fault::each(IoKind::Write, FaultAction::NeverAnswer)
        });
    }

    /// All is well in the end, once the store answers the requests that it held.
    async fn assert_recovers(&self) {
        self.faults.clear();
        assert_eq!(self.faults.release(), 1);
        self.bench.rt.sleep(Span::from_secs(60)).await;
        assert_eq!(self.bench.cache.statistics().dirty(), 0);
        self.bench.assert_consistent();
    }

    fn commits(&self) -> u64 {
        self.counts.counts(IoKind::Commit).requests
    }

    fn fail_commits(&self, count: u64) {
        self.faults.inject(Fault {
            when: FaultWhen::First(count),
            ..Fault::each(IoKind::Commit, FaultAction::Fail(Failure::Device(5)))
        });
    }
}

#[test]
fn a_sync_writes_and_commits_once() {
    simulate(1, |rt| async move {
        let remote = Remote::new(rt, 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..100).await.expect("memory takes it");
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(remote.commits(), 1);
        assert_eq!(remote.bench.cache.statistics().dirty(), 0);
        assert!(remote.bench.has_stored(0..100));
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(remote.commits(), 1, "nothing had changed");
        remote.bench.assert_consistent();
    });
}

#[test]
fn no_sync_returns_before_a_commit_that_covers_it() {
    simulate(2, |rt| async move {
        let remote = Remote::new(rt.clone(), 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (file, counts, rt) = (file.clone(), remote.counts.clone(), rt.clone());
            tasks.push(remote.bench.rt.spawn("syncer", async move {
                let began = rt.now();
                assert_eq!(file.sync().await, Ok(()));
                let commits = counts.counts(IoKind::Commit);
                assert!(commits.requests > commits.in_flight, "one has ended");
                assert!(rt.now().since(began) >= Span::from_millis(20));
            }));
        }
        for task in tasks {
            task.join().await;
        }
        remote.bench.assert_consistent();
    });
}

#[test]
fn a_failed_commit_makes_its_pages_dirty_again() {
    simulate(3, |rt| async move {
        let remote = Remote::new(rt, 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        remote.fail_commits(1);
        assert!(file.sync().await.is_err());
        let statistics = remote.bench.cache.statistics();
        assert_eq!((statistics.nr_dirty, statistics.nr_writeback), (20, 0));
        remote.bench.assert_consistent();
        // The store forgets, as it is allowed to.
        remote.bench.memory.fill(FILE, &[]);
        assert_eq!(file.sync().await, Ok(()), "written and committed anew");
        assert!(remote.bench.has_stored(0..20));
        assert_eq!(remote.bench.cache.statistics().dirty(), 0);
        remote.bench.assert_consistent();
    });
}

#[test]
fn pages_written_while_a_commit_is_under_way_are_not_covered_by_it() {
    simulate(4, |rt| async move {
        let remote = Remote::new(rt, 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        let syncer = file.clone();
        let sync = remote.bench.rt.spawn("syncer", async move {
            assert_eq!(syncer.sync().await, Ok(()));
        });
        // Writes take 2 ms, the commit 20.
        remote.bench.rt.sleep(Span::from_millis(10)).await;
        assert_eq!(remote.counts.counts(IoKind::Commit).in_flight, 1);
        let late: Vec<u8> = page_of(4).iter().map(|byte| byte ^ 0xff).collect();
        assert_eq!(file.write_at(&late, 4 * PAGE as u64).await, Ok(()));
        write_pages(&file, 10..12).await.expect("memory takes it");
        sync.join().await;
        assert!(
            remote.bench.cache.statistics().dirty() >= 3,
            "what came later is not durable"
        );
        assert_eq!(file.sync().await, Ok(()));
        assert!(remote.commits() >= 2);
        let stored = remote.bench.memory.snapshot(FILE);
        assert!(stored[4 * PAGE..5 * PAGE] == late[..]);
        assert!(remote.bench.has_stored(10..12));
        remote.bench.assert_consistent();
    });
}

#[test]
fn a_writer_during_a_commit_that_fails_loses_nothing() {
    for seed in 10..30 {
        simulate(seed, |rt| async move {
            let remote = Remote::new(rt.clone(), 2);
            let file = remote.bench.open(0);
            remote.fail_commits(6);
            let writer = file.clone();
            let writing = remote.bench.rt.spawn("writer", async move {
                let mut chance = rt.stream("writer");
                for round in 0..400_u64 {
                    let page = chance.below(100);
                    let bytes = page_of(page + 1_000 * round);
                    writer
                        .write_at(&bytes, page * PAGE as u64)
                        .await
                        .expect("failures are few");
                    rt.sleep(Span::from_micros(chance.below(500))).await;
                }
                write_pages(&writer, 0..100)
                    .await
                    .expect("failures are few");
            });
            while !writing.is_finished() {
                // It may fail, which is what this test is about.
                let _ = file.sync().await;
                remote.bench.rt.sleep(Span::from_millis(3)).await;
            }
            let _ = file.sync().await;
            assert_eq!(file.sync().await, Ok(()), "seed {seed}");
            assert!(remote.bench.has_stored(0..100), "seed {seed}");
            assert_eq!(remote.bench.cache.statistics().dirty(), 0);
            remote.bench.assert_consistent();
        });
    }
}

#[test]
fn memory_full_of_unstable_pages_is_freed_by_commits() {
    simulate(5, |rt| async move {
        let remote = Remote::new(rt, 2);
        let file = remote.bench.open(0);
        write_pages(&file, 0..3_000).await.expect("memory takes it");
        assert!(remote.commits() > 3, "the flusher asked for them");
        let before = remote.commits();
        for number in (0..3_000).rev() {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        assert_eq!(file.sync().await, Ok(()));
        assert!(remote.commits() > before);
        assert!(remote.bench.memory.snapshot(FILE) == pages(0..3_000));
        assert_eq!(remote.bench.count(Counter::NrVmscanWriteFile), 0);
        remote.bench.assert_consistent();
    });
}

#[test]
fn unstable_pages_of_an_idle_cache_are_committed_in_the_end() {
    simulate(6, |rt| async move {
        let remote = Remote::new(rt, 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..10).await.expect("memory takes it");
        remote.bench.rt.sleep(Span::from_secs(40)).await;
        assert_eq!(remote.bench.cache.statistics().dirty(), 0);
        assert!(remote.commits() > 0);
        remote.bench.assert_consistent();
    });
}

#[test]
fn what_a_sync_wrote_that_was_given_up_is_committed_all_the_same() {
    for waits_ms in [1, 3] {
        simulate(7, |rt| async move {
            let remote = Remote::new(rt.clone(), 8);
            let file = remote.bench.open(0);
            write_pages(&file, 0..20).await.expect("memory takes it");
            // The sync is dropped while its writes are in flight, or before it asks for the commit.
            let given_up = rt.timeout(Span::from_millis(waits_ms), file.sync()).await;
            assert!(given_up.is_err(), "it takes longer");
            rt.sleep(Span::from_secs(60)).await;
            assert_eq!(remote.bench.cache.statistics().dirty(), 0);
            assert_eq!(remote.commits(), 1);
            remote.bench.assert_consistent();
        });
    }
}

/// The pages are only in memory until a commit: announcing that there will be none cannot give them
/// up.
#[test]
fn pages_whose_commit_is_waived_are_committed_all_the_same() {
    simulate(7, |rt| async move {
        let remote = Remote::new(rt.clone(), 8);
        let file = remote.bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        // The sync is given up before it asks for a commit, and its writes end.
        let given_up = rt.timeout(Span::from_millis(1), file.sync()).await;
        assert!(given_up.is_err(), "it takes longer");
        rt.sleep(Span::from_millis(10)).await;
        file.waive_commit();
        rt.sleep(Span::from_secs(60)).await;
        assert_eq!(remote.bench.cache.statistics().dirty(), 0);
        assert_eq!(remote.commits(), 1);
        remote.bench.assert_consistent();
    });
}

#[test]
fn a_flusher_waits_for_no_write_that_another_began_after_its_turn() {
    simulate(15, |rt| async move {
        let write = Span::from_millis(20);
        let remote = Remote::writing_in(rt.clone(), Remote::eager(8), write);
        let bench = &remote.bench;
        let (stuck, other) = (bench.open(0), bench.open_object(ObjectId(2), 0));
        remote.swallow_write(2);
        write_pages(&stuck, 0..1).await.expect("memory takes it");
        rt.sleep(Span::from_millis(5)).await;
        write_pages(&stuck, 1..2).await.expect("memory takes it");
        let syncer = stuck.clone();
        let syncs = rt.spawn("sync", async move {
            let second = PAGE as u64..2 * PAGE as u64;
            assert_eq!(syncer.sync_range(second).await, Ok(()));
        });
        write_pages(&other, 0..4).await.expect("memory takes it");
        rt.sleep(Span::from_secs(10)).await;
        assert_eq!(remote.faults.held(), 1);
        assert_eq!(other.dirty_pages(), 0, "it has its turn");
        remote.assert_recovers().await;
        syncs.join().await;
    });
}

#[test]
fn a_flusher_waits_for_no_write_that_another_began_before_its_turn() {
    simulate(16, |rt| async move {
        let remote = Remote::with(rt.clone(), Remote::eager(8));
        let bench = &remote.bench;
        let (stuck, other) = (bench.open(0), bench.open_object(ObjectId(2), 0));
        remote.swallow_write(1);
        write_pages(&stuck, 0..1).await.expect("memory takes it");
        let syncer = stuck.clone();
        let syncs = rt.spawn("sync", async move {
            assert_eq!(syncer.sync_range(0..PAGE as u64).await, Ok(()));
        });
        rt.sleep(Span::from_millis(5)).await;
        for round in 1..4 {
            // A file with something of its own to write, which goes on.
            write_pages(&stuck, round..round + 1)
                .await
                .expect("memory takes it");
            write_pages(&other, 0..4).await.expect("memory takes it");
            rt.sleep(Span::from_secs(3)).await;
            assert_eq!(remote.faults.held(), 1);
            assert_eq!((stuck.dirty_pages(), other.dirty_pages()), (0, 0));
            let left = bench.cache.statistics().dirty();
            assert_eq!(left, 1, "what is written is committed");
        }
        remote.assert_recovers().await;
        syncs.join().await;
    });
}

#[test]
fn a_flusher_puts_an_object_off_whose_write_the_store_does_not_answer() {
    simulate(17, |rt| async move {
        let remote = Remote::with(rt.clone(), Remote::eager(8));
        let bench = &remote.bench;
        let (stuck, other) = (bench.open(0), bench.open_object(ObjectId(2), 0));
        remote.swallow_write(1);
        write_pages(&stuck, 0..1).await.expect("memory takes it");
        rt.sleep(Span::from_millis(5)).await;
        assert_eq!(remote.faults.held(), 1);
        // The flusher waits for as long as a store may be silent, and only once.
        let mut longest = Settings::default().answer_timeout;
        for _ in 0..3 {
            write_pages(&other, 0..4).await.expect("memory takes it");
            rt.sleep(longest + Span::from_secs(1)).await;
            assert_eq!(other.dirty_pages(), 0, "it has its turn");
            longest = Span::from_secs(1);
        }
        remote.assert_recovers().await;
    });
}

#[test]
fn writers_are_not_stopped_by_pages_for_whose_commit_nobody_comes() {
    for dirty_throttle in [DirtyThrottle::Foreground, DirtyThrottle::Paced] {
        simulate(8, move |rt| async move {
            let mut settings = Settings::of_mib(2);
            settings.writeback_interval = Span::ZERO;
            settings.dirty.dirty_bytes = 128 * PAGE as u64;
            let policy = Policy {
                dirty_throttle,
                ..Policy::default()
            };
            let remote = Remote::with(rt.clone(), settings.under(policy));
            let file = remote.bench.open(0);
            // So little is dirty at any time that a flusher would not write it.
            for start in (0..200).step_by(8) {
                let written = write_pages(&file, start..start + 8).await;
                assert_eq!(written, Ok(()), "page {start} under {dirty_throttle:?}");
                // The sync is given up before it asks for the commit, if there is anything to
                // write.
                let _ = rt.timeout(Span::from_millis(1), file.sync()).await;
                rt.sleep(Span::from_millis(5)).await;
            }
            assert!(remote.commits() > 0);
            remote.bench.assert_consistent();
        });
    }
}

/// A file that was forgotten while it waited for its turn has a number that may now belong to
/// another file.
#[test]
fn a_flusher_does_not_wait_for_writes_of_the_next_file_with_a_forgotten_number() {
    simulate(14, |rt| async move {
        let settings = Settings {
            objects_limit: 2,
            ..Remote::eager(8)
        };
        let remote = Remote::with(rt.clone(), settings);
        let bench = &remote.bench;
        let first = bench.open(0);
        write_pages(&first, 0..4).await.expect("memory takes it");
        let forgotten = bench.open_object(ObjectId(2), 0);
        write_pages(&forgotten, 0..4)
            .await
            .expect("memory takes it");
        assert_eq!(forgotten.sync().await, Ok(()));
        drop(forgotten);
        let heir = bench.open_object(ObjectId(3), 0);
        remote.faults.inject(Fault {
            object: Some(ObjectId(3)),
            ..Fault::each(IoKind::Write, FaultAction::NeverAnswer)
        });
        write_pages(&heir, 0..4).await.expect("memory takes it");
        let syncs = rt.spawn("sync", async move {
            assert_eq!(heir.sync().await, Ok(()));
        });
        rt.sleep(Span::from_secs(1)).await;
        remote.faults.clear();
        assert_eq!(remote.faults.release(), 1);
        syncs.join().await;
        assert_eq!(bench.cache.statistics().dirty(), 0);
        write_pages(&first, 4..8).await.expect("memory takes it");
        rt.sleep(Span::from_secs(1)).await;
        assert_eq!(bench.cache.statistics().dirty(), 0, "it has its turns");
        assert!(bench.has_stored(0..8));
        bench.assert_consistent();
    });
}

/// Nothing commits swap, and what is written there is nowhere else.
#[test]
fn swap_does_not_lie_in_a_store_that_may_forget_it() {
    simulate(13, |rt| async move {
        let bench = Remote::new(rt, 8).bench;
        let swap = |store| bench.cache.set_swap(store, ObjectId(9), 8 << 20);
        let refused = swap(&bench.store);
        assert!(
            matches!(
                refused,
                Err(BuildError::BadSetting {
                    setting: "swap",
                    ..
                })
            ),
            "{refused:?}"
        );
        let lasting = bench.cache.attach(Arc::new(MemoryStore::new()));
        assert_eq!(swap(&lasting.expect("a second store is attached")), Ok(()));
    });
}

/// A turn of the flusher holds its object until the pages are committed, and no longer.
#[test]
fn objects_that_the_flusher_wrote_and_committed_are_forgotten() {
    simulate(21, |rt| async move {
        let settings = Settings {
            objects_limit: 9,
            ..Remote::eager(8)
        };
        let remote = Remote::writing_in(rt.clone(), settings, Span::from_millis(1));
        for object in 100..150 {
            let file = remote.bench.open_object(ObjectId(object), 0);
            write_pages(&file, 0..2).await.expect("memory takes it");
            drop(file);
            rt.sleep(Span::from_secs(1)).await;
        }
        remote.bench.assert_consistent();
    });
}
