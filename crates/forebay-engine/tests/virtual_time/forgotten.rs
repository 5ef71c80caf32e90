//! A store that starts anew, forgets writes that it had finished, and reports this at the next
//! commit.

use crate::support::{Bench, FILE, OfSize, PAGE, memory_of, page_of, pages, simulate, write_pages};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::{Settings, SyncError};
use forebay_rt::Rt;
use forebay_store::{
    DelayStore, Delays, Durability, Ending, Failure, Geometry, Intercept, Io, IoKind, MemoryStore,
    Store,
};
use std::sync::Arc;

/// A store that starts anew when one of the next commits comes: at that moment it forgets all
/// writes, and the commit reports this.
struct Restarting {
    below: Arc<dyn Store>,
    memory: Arc<MemoryStore>,
    restarts_left: AtomicU64,
    restarts: AtomicU64,
}

/// Turns the end of a commit into the report that writes were forgotten.
struct Forgetting;

impl Intercept for Forgetting {
    fn ended(&self, mut ending: Ending) {
        ending.fail(Failure::Forgotten);
        ending.pass();
    }
}

impl Store for Restarting {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn submit(&self, mut io: Io) {
        let left = self.restarts_left.load(Ordering::Relaxed);
        if io.request().kind == IoKind::Commit && left > 0 {
            self.restarts_left.store(left - 1, Ordering::Relaxed);
            self.restarts.fetch_add(1, Ordering::Relaxed);
            self.memory.fill(FILE, &[]);
            io.intercept(Arc::new(Forgetting));
        }
        self.below.submit(io);
    }
}

/// A cache over such a store, in which writes take 2 ms and commits 20.
fn before(rt: &Rt, restarts: u64, durability: Durability, mib: u64) -> (Bench, Arc<Restarting>) {
    let memory = Arc::new(memory_of(durability));
    let delays = Delays {
        read: Span::from_millis(1),
        write: Span::from_millis(2),
        commit: Span::from_millis(20),
    };
    let store = Arc::new(Restarting {
        below: Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays)),
        memory: memory.clone(),
        restarts_left: AtomicU64::new(restarts),
        restarts: AtomicU64::new(0),
    });
    let settings = Settings::of_mib(mib);
    let bench = Bench::around(rt.clone(), settings, memory, store.clone());
    (bench, store)
}

#[test]
fn what_the_store_forgot_is_written_again_and_no_handle_hears_of_it() {
    for restarts in 1..4 {
        simulate(restarts, |rt| async move {
            let (bench, store) = before(&rt, restarts, Durability::Unstable, 8);
            let (file, reader) = (bench.open(0), bench.open(0));
            write_pages(&file, 0..50).await.expect("memory takes it");
            assert_eq!(file.sync().await, Ok(()));
            assert_eq!(store.restarts.load(Ordering::Relaxed), restarts);
            assert!(bench.has_stored(0..50));
            assert_eq!(bench.cache.statistics().dirty(), 0);
            assert_eq!(reader.sync().await, Ok(()), "no handle reports it");
            assert_eq!(file.sync().await, Ok(()));
            bench.assert_consistent();
        });
    }
}

/// The sync looks at its pages while a commit that another caller asked for is under way. That
/// commit makes them dirty again, and the next one, which ends well, does not cover them.
#[test]
fn a_sync_whose_pages_another_commit_made_dirty_again_writes_them() {
    for delay_ms in 0..30 {
        simulate(delay_ms, |rt| async move {
            let (bench, _) = before(&rt, 1, Durability::Unstable, 8);
            let (file, other) = (bench.open(0), bench.open(0));
            write_pages(&file, 0..10).await.expect("memory takes it");
            let first = bench.rt.spawn("first", async move {
                assert_eq!(other.sync().await, Ok(()));
            });
            rt.sleep(Span::from_millis(delay_ms)).await;
            write_pages(&file, 10..12).await.expect("memory takes it");
            assert_eq!(
                file.sync_range(10 * PAGE as u64..12 * PAGE as u64).await,
                Ok(())
            );
            assert!(bench.has_stored(10..12), "after {delay_ms} ms");
            assert_eq!(file.sync().await, Ok(()));
            assert!(bench.has_stored(0..12), "after {delay_ms} ms");
            first.join().await;
            bench.assert_consistent();
        });
    }
}

#[test]
fn the_flusher_writes_again_what_was_forgotten_without_a_sync() {
    simulate(3, |rt| async move {
        let (bench, store) = before(&rt, 2, Durability::Unstable, 8);
        let file = bench.open(0);
        write_pages(&file, 0..20).await.expect("memory takes it");
        rt.sleep(Span::from_secs(120)).await;
        assert_eq!(store.restarts.load(Ordering::Relaxed), 2);
        assert_eq!(bench.cache.statistics().dirty(), 0);
        assert!(bench.has_stored(0..20));
        bench.assert_consistent();
    });
}

/// Pages that are overwritten between the forgotten commit and the next one keep the newer bytes.
#[test]
fn a_writer_beside_restarts_loses_nothing() {
    for seed in 10..30 {
        simulate(seed, |rt| async move {
            let (bench, store) = before(&rt, 12, Durability::Unstable, 2);
            let file = bench.open(0);
            let writer = file.clone();
            let writing = bench.rt.spawn("writer", async move {
                let mut chance = rt.stream("writer");
                for round in 0..400_u64 {
                    let page = chance.below(100);
                    let bytes = page_of(page + 1_000 * round);
                    let taken = writer.write_at(&bytes, page * PAGE as u64).await;
                    assert_eq!(taken, Ok(()), "no failure is reported");
                    rt.sleep(Span::from_micros(chance.below(500))).await;
                }
                assert_eq!(write_pages(&writer, 0..100).await, Ok(()));
            });
            while !writing.is_finished() {
                assert_eq!(file.sync().await, Ok(()), "seed {seed}");
                bench.rt.sleep(Span::from_millis(3)).await;
            }
            assert_eq!(file.sync().await, Ok(()), "seed {seed}");
            assert_eq!(store.restarts.load(Ordering::Relaxed), 12);
            assert!(bench.memory.snapshot(FILE) == pages(0..100), "seed {seed}");
            assert_eq!(bench.cache.statistics().dirty(), 0);
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_store_that_starts_anew_for_ever_does_not_hold_a_sync_for_ever() {
    simulate(5, |rt| async move {
        let (bench, store) = before(&rt, u64::MAX, Durability::Unstable, 8);
        let file = bench.open(0);
        write_pages(&file, 0..5).await.expect("memory takes it");
        let began = rt.now();
        let synced = file.sync().await;
        assert!(
            matches!(synced, Err(SyncError::NotAnswering { .. })),
            "{synced:?}"
        );
        let waited = rt.now().since(began);
        let longest = Settings::default().answer_timeout;
        assert!(waited > longest && waited < longest + longest, "{waited}");
        assert!(store.restarts.load(Ordering::Relaxed) > 3);
        store.restarts_left.store(0, Ordering::Relaxed);
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..5));
        bench.assert_consistent();
    });
}

/// Only pages of an unstable store are still there. With another store they are lost, and the sync
/// reports this.
#[test]
fn a_store_whose_pages_are_gone_cannot_forget_in_silence() {
    simulate(6, |rt| async move {
        let (bench, _) = before(&rt, 1, Durability::OnCommit, 8);
        let file = bench.open(0);
        write_pages(&file, 0..5).await.expect("memory takes it");
        let Err(SyncError::Store(error)) = file.sync().await else {
            panic!("the loss is reported");
        };
        assert_eq!(error.failure, Failure::Forgotten);
        bench.assert_consistent();
    });
}

/// A store that keeps a write of page 1 back until a commit comes. Then it finishes the write,
/// forgets everything, and ends that commit with `failure`.
struct Late {
    memory: Arc<MemoryStore>,
    failure: Failure,
    kept: Mutex<Option<Io>>,
    has_forgotten: AtomicU64,
}

impl Store for Late {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        if self.has_forgotten.load(Ordering::Relaxed) > 0 {
            return self.memory.submit(io);
        }
        match request.kind {
            IoKind::Write if request.offset_bytes == PAGE as u64 => {
                *lock(&self.kept) = Some(io);
            }
            IoKind::Commit => {
                self.has_forgotten.store(1, Ordering::Relaxed);
                let kept = lock(&self.kept).take();
                self.memory
                    .submit(kept.expect("the write comes before the commit"));
                self.memory.fill(FILE, &[]);
                io.fail(self.failure);
            }
            _ => self.memory.submit(io),
        }
    }
}

/// The commit looks for its pages before it goes to the store, and the store counts the writes that
/// have ended when the commit arrives. A write that ends in between is lost as well, and the store
/// says so once.
#[test]
fn a_write_that_ended_on_the_way_of_a_commit_is_made_again() {
    for failure in [Failure::Forgotten, Failure::Device(5)] {
        simulate(7, |rt| async move {
            let geometry = Geometry {
                durability: Durability::Unstable,
                ..MemoryStore::new().geometry()
            };
            let memory = Arc::new(MemoryStore::with(geometry));
            let store = Arc::new(Late {
                memory: memory.clone(),
                failure,
                kept: Mutex::new(None),
                has_forgotten: AtomicU64::new(0),
            });
            let settings = Settings::of_mib(8);
            let bench = Bench::around(rt.clone(), settings, memory, store.clone());
            let (file, other) = (bench.open(0), bench.open(0));
            write_pages(&file, 0..2).await.expect("memory takes it");
            let late = rt.spawn("late", async move {
                let range = PAGE as u64..2 * PAGE as u64;
                other.sync_range(range).await.unwrap_or_default();
            });
            rt.sleep(Span::from_millis(1)).await;
            assert!(lock(&store.kept).is_some(), "its write is under way");
            let synced = file.sync_range(0..PAGE as u64).await;
            assert_eq!(synced.is_ok(), failure == Failure::Forgotten);
            late.join().await;
            file.sync().await.unwrap_or_default();
            assert_eq!(file.sync().await, Ok(()));
            assert!(bench.has_stored(0..2), "after {failure:?}");
            assert_eq!(bench.cache.statistics().dirty(), 0);
            bench.assert_consistent();
        });
    }
}
