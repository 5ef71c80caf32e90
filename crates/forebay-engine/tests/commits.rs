//! Commits of one object: callers share them, give them up, and learn of their failure.

mod support;

use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::{Cache, File, Settings, SyncError};
use forebay_rt::Rt;
use forebay_store::{
    CountStore, DelayStore, Delays, Durability, Ending, Failure, Fault, FaultAction, FaultStore,
    FaultWhen, FileStore, FileStoreSettings, Geometry, Intercept, Io, IoKind, OpenMode, Store,
};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use support::{Bench, FILE, OfSize, PAGE, memory_of, page_of, simulate};

const BROKEN: Failure = Failure::Device(5);
/// How long a commit takes; nothing else takes any time.
const COMMIT_MS: u64 = 10;

/// A store whose commits take a while and are counted, and can be made to fail at once.
fn bench(rt: &Rt) -> (Bench, Arc<FaultStore>, Arc<CountStore>) {
    let memory = Arc::new(memory_of(Durability::OnCommit));
    let delays = Delays {
        read: Span::ZERO,
        write: Span::ZERO,
        commit: Span::from_millis(COMMIT_MS),
    };
    let slow = Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays));
    let faults = Arc::new(FaultStore::new(rt.clone(), slow));
    let counted = Arc::new(CountStore::new(rt.clone(), faults.clone()));
    let bench = Bench::around(rt.clone(), Settings::of_mib(8), memory, counted.clone());
    (bench, faults, counted)
}

async fn write_and_sync(file: &File, page: u64) -> Result<(), SyncError> {
    let written = file.write_at(&page_of(page), page * PAGE as u64).await;
    assert_eq!(written, Ok(()));
    file.sync().await
}

fn failure(result: Result<(), SyncError>) -> Option<Failure> {
    match result {
        Ok(()) => None,
        Err(SyncError::Store(error)) => Some(error.failure),
        Err(other) => panic!("{other}"),
    }
}

/// A store that makes each write durable that may be so. No write grows without saying so.
struct DurableStore {
    inner: Arc<dyn Store>,
    end_bytes: AtomicU64,
    /// Writes that said that they grow.
    growing: AtomicU64,
}

impl DurableStore {
    /// Of an object that has `pages` pages at first.
    fn around(inner: Arc<dyn Store>, pages: u64) -> Arc<DurableStore> {
        Arc::new(DurableStore {
            inner,
            end_bytes: AtomicU64::new(pages * PAGE as u64),
            growing: AtomicU64::new(0),
        })
    }
}

impl Store for DurableStore {
    /// Pages change while they are written, as those of a file store do. In virtual time nobody
    /// changes one while it is copied.
    fn geometry(&self) -> Geometry {
        Geometry {
            stable_pages: false,
            ..self.inner.geometry()
        }
    }

    fn submit(&self, mut io: Io) {
        let request = io.request();
        if request.kind == IoKind::Write {
            let end_bytes = request.offset_bytes + request.length_bytes;
            let before = self.end_bytes.fetch_max(end_bytes, Ordering::Relaxed);
            assert!(io.grows() || end_bytes <= before, "{request:?}, {before}");
            let growing = u64::from(io.grows());
            self.growing.fetch_add(growing, Ordering::Relaxed);
        }
        if io.asks_durable() {
            io.intercept(Arc::new(Durably));
        }
        self.inner.submit(io);
    }
}

struct Durably;

impl Intercept for Durably {
    fn ended(&self, mut ending: Ending) {
        ending.make_durable();
        ending.pass();
    }
}

/// Each of `pages` is written and synced by a task and a handle of its own, starting at `after`.
/// Returns the handles and how their syncs ended.
async fn all_at_once(
    rt: &Rt,
    file: &File,
    pages: std::ops::Range<u64>,
    after: Span,
) -> Vec<(File, Option<Failure>)> {
    rt.sleep(after).await;
    let ended: Arc<Mutex<Vec<_>>> = Arc::default();
    let tasks: Vec<_> = pages
        .map(|page| {
            let (file, ended) = (file.clone(), ended.clone());
            rt.spawn("syncs", async move {
                let result = failure(write_and_sync(&file, page).await);
                lock(&ended).push((file, result));
            })
        })
        .collect();
    for task in tasks {
        task.join().await;
    }
    std::mem::take(&mut *lock(&ended))
}

#[test]
fn syncs_that_come_while_a_commit_is_under_way_share_the_next() {
    simulate(1, |rt| async move {
        let (bench, _, counted) = bench(&rt);
        let file = bench.open(0);
        let first = file.clone();
        let task = rt.spawn("first", async move {
            assert_eq!(write_and_sync(&first, 0).await, Ok(()));
        });
        let others = all_at_once(&rt, &file, 1..9, Span::from_millis(1)).await;
        task.join().await;
        assert!(others.iter().all(|(_, failure)| failure.is_none()));
        assert_eq!(counted.counts(IoKind::Commit).requests, 2);
        assert!(bench.has_stored(0..9));
        bench.assert_consistent();
    });
}

#[test]
fn a_sync_shares_a_commit_that_covers_its_writes() {
    simulate(2, |rt| async move {
        let (bench, _, counted) = bench(&rt);
        let file = bench.open(0);
        let first = file.clone();
        let task = rt.spawn("first", async move {
            assert_eq!(write_and_sync(&first, 0).await, Ok(()));
        });
        rt.sleep(Span::from_millis(1)).await;
        let began = rt.now();
        assert_eq!(file.sync().await, Ok(()), "nothing was written since");
        assert!(rt.now().since(began) < Span::from_millis(COMMIT_MS));
        task.join().await;
        assert_eq!(counted.counts(IoKind::Commit).requests, 1);
    });
}

#[test]
fn each_handle_reports_a_shared_failed_commit_once() {
    simulate(3, |rt| async move {
        let (bench, faults, counted) = bench(&rt);
        let file = bench.open(0);
        let first = file.clone();
        let task = rt.spawn("first", async move {
            // The next commit fails in the moment in which the first ends: it may hear of that too.
            let heard = failure(write_and_sync(&first, 0).await);
            assert!(heard.is_none() || heard == Some(BROKEN));
        });
        faults.inject(Fault {
            when: FaultWhen::Nth(2),
            ..Fault::each(IoKind::Commit, FaultAction::Fail(BROKEN))
        });
        let others = all_at_once(&rt, &file, 1..9, Span::from_millis(1)).await;
        task.join().await;
        assert_eq!(counted.counts(IoKind::Commit).requests, 2);
        for (handle, failure_of_first) in &others {
            assert_eq!(*failure_of_first, Some(BROKEN));
            assert_eq!(failure(handle.sync().await), None, "it was reported");
        }
        assert_eq!(
            counted.counts(IoKind::Commit).requests,
            3,
            "it was asked again"
        );
        assert_eq!(failure(file.sync().await), Some(BROKEN), "not reported yet");
        assert_eq!(failure(file.sync().await), None);
        assert!(bench.has_stored(0..9));
        bench.assert_consistent();
    });
}

#[test]
fn a_commit_goes_on_when_its_caller_gives_up() {
    simulate(4, |rt| async move {
        let (bench, _, counted) = bench(&rt);
        let file = bench.open(0);
        let given_up = rt
            .timeout(Span::from_millis(1), write_and_sync(&file, 0))
            .await;
        assert!(given_up.is_err());
        rt.sleep(Span::from_millis(COMMIT_MS)).await;
        let began = rt.now();
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(rt.now(), began, "it is durable by now");
        assert_eq!(counted.counts(IoKind::Commit).requests, 1);
        bench.assert_consistent();
    });
}

/// A caller that has nothing left to commit still learns how a commit that has begun ends, because
/// it may be about to close the file.
#[test]
fn a_sync_after_a_waived_commit_waits_for_the_one_under_way() {
    simulate(1, |rt| async move {
        let (bench, _, counted) = bench(&rt);
        let file = bench.open(0);
        let first = file.clone();
        let task = rt.spawn("sync", async move {
            assert_eq!(write_and_sync(&first, 0).await, Ok(()));
        });
        rt.sleep(Span::from_millis(COMMIT_MS / 2)).await;
        file.waive_commit();
        let began = rt.now();
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(rt.now().since(began), Span::from_millis(COMMIT_MS / 2));
        assert_eq!(counted.counts(IoKind::Commit).requests, 1);
        task.join().await;
        bench.assert_consistent();
    });
}

#[test]
fn a_caller_that_waits_for_the_next_commit_and_gives_up_holds_up_nobody() {
    for patience_ms in [5, COMMIT_MS, COMMIT_MS + 1] {
        simulate(5, |rt| async move {
            let (bench, _, counted) = bench(&rt);
            let file = bench.open(0);
            let tasks = [
                (0, 0, 1_000),
                (1, 1, patience_ms - 1),
                (2, 2, 1_000),
                (2, 3, 1_000),
            ];
            let tasks: Vec<_> = tasks
                .into_iter()
                .map(|(after_ms, page, longest_ms)| {
                    let (rt, file) = (rt.clone(), file.clone());
                    rt.clone().spawn("syncs", async move {
                        rt.sleep(Span::from_millis(after_ms)).await;
                        let longest = Span::from_millis(longest_ms);
                        let ended = rt.timeout(longest, write_and_sync(&file, page)).await;
                        assert_eq!(ended.is_ok(), longest_ms == 1_000);
                    })
                })
                .collect();
            for task in tasks {
                task.join().await;
            }
            assert_eq!(counted.counts(IoKind::Commit).requests, 2);
            assert!(bench.has_stored(0..4));
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_sync_that_is_one_durable_write_needs_no_commit() {
    simulate(9, |rt| async move {
        let memory = Arc::new(memory_of(Durability::OnCommit));
        let durable = DurableStore::around(memory.clone(), 64);
        let counted = Arc::new(CountStore::new(rt.clone(), durable));
        let bench = Bench::around(rt.clone(), Settings::of_mib(8), memory, counted.clone());
        bench.memory.fill(FILE, &vec![0; 64 * PAGE]);
        let file = bench.open(64 * PAGE as u64);
        let commits = || counted.counts(IoKind::Commit).requests;
        for page in [3, 3, 9] {
            assert_eq!(write_and_sync(&file, page).await, Ok(()));
        }
        assert_eq!(commits(), 0, "each was made durable by itself");
        // Two runs are cheaper with a commit than durable one by one.
        let written = file.write_at(&page_of(1), PAGE as u64).await;
        assert_eq!(written, Ok(()));
        assert_eq!(write_and_sync(&file, 20).await, Ok(()));
        assert_eq!(commits(), 1);
        // What the flusher has written needs a commit, and so does a sync after it.
        let written = file.write_at(&page_of(5), 5 * PAGE as u64).await;
        assert_eq!(written, Ok(()));
        rt.sleep(Span::from_secs(40)).await;
        assert!(bench.has_stored(5..6));
        assert_eq!(write_and_sync(&file, 6).await, Ok(()));
        assert_eq!(commits(), 2);
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(write_and_sync(&file, 7).await, Ok(()));
        assert_eq!(commits(), 2);
        bench.assert_consistent();
    });
}

/// The store makes the new length durable with the bytes.
#[test]
fn an_append_is_one_write() {
    simulate(9, |rt| async move {
        let memory = Arc::new(memory_of(Durability::OnCommit));
        let durable = DurableStore::around(memory.clone(), 0);
        let counted = Arc::new(CountStore::new(rt.clone(), durable.clone()));
        let bench = Bench::around(rt.clone(), Settings::of_mib(8), memory, counted.clone());
        let file = bench.open(0);
        for page in [0, 0, 1, 2, 2] {
            assert_eq!(write_and_sync(&file, page).await, Ok(()));
        }
        assert_eq!(counted.counts(IoKind::Write).requests, 5);
        assert_eq!(durable.growing.load(Ordering::Relaxed), 3);
        assert_eq!(counted.counts(IoKind::Commit).requests, 0);
        bench.assert_consistent();
    });
}

/// Each waits for the write under way, and one of them writes the records of all.
#[test]
fn appends_of_several_to_one_page_share_a_write_and_need_no_commit() {
    const CALLERS: u64 = 4;
    const RECORDS: u64 = 60;
    const RECORD: u64 = 200;
    simulate(10, |rt| async move {
        let memory = Arc::new(memory_of(Durability::OnCommit));
        let delays = Delays {
            read: Span::ZERO,
            write: Span::from_millis(1),
            commit: Span::from_millis(1),
        };
        let slow = Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays));
        let counted = Arc::new(CountStore::new(rt.clone(), DurableStore::around(slow, 0)));
        let bench = Bench::around(rt.clone(), Settings::of_mib(8), memory, counted.clone());
        let file = bench.open(0);
        let next = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (file, next) = (file.clone(), next.clone());
                rt.spawn("appends", async move {
                    for _ in 0..RECORDS {
                        let at = next.fetch_add(1, Ordering::Relaxed) * RECORD;
                        assert_eq!(file.write_at(&[1; RECORD as usize], at).await, Ok(()));
                        assert_eq!(file.sync().await, Ok(()));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.join().await;
        }
        let records = CALLERS * RECORDS;
        assert_eq!(file.len(), records * RECORD);
        assert_eq!(counted.counts(IoKind::Commit).requests, 0);
        // While one half is on its way, the other half waits with new records.
        let writes = counted.counts(IoKind::Write).requests;
        assert!(
            writes * 3 < records * 2,
            "{writes} writes of {records} records"
        );
        bench.assert_consistent();
    });
}

#[test]
fn threads_that_commit_one_file_find_their_bytes_in_it() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 30;
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("log");
    let cache = Cache::new(Settings::of_mib(8)).expect("the settings are good");
    let store = FileStore::new(FileStoreSettings::default()).expect("the settings are good");
    let mode = OpenMode::Create { length_bytes: None };
    let opened = store.open(&path, mode).expect("it opens");
    let attached = cache.attach(store).expect("a store is attached");
    let file = cache.open(&attached, opened.object, 0).expect("it opens");
    let plain = Arc::new(std::fs::File::open(&path).expect("it is there"));
    let joiners = (0..THREADS).map(|thread| {
        let (file, plain) = (file.clone().blocking(), plain.clone());
        forebay_rt::thread::spawn("commits", move || {
            for round in 0..ROUNDS {
                let page = round * THREADS + thread;
                let bytes = page_of(page);
                file.write_at(&bytes, page * PAGE as u64).expect("room");
                file.sync().expect("the disk is well");
                let mut stored = vec![0; PAGE];
                plain
                    .read_exact_at(&mut stored, page * PAGE as u64)
                    .expect("it is written");
                assert!(stored == bytes, "page {page}");
            }
        })
    });
    let joiners: Vec<_> = joiners.collect();
    for joiner in joiners {
        joiner.expect("a thread").join();
    }
    forebay_rt::block_on(cache.close()).expect("all is written");
}
