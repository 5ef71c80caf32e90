//! Threads that wait for their own requests in a ring of their own, and what becomes of the
//! requests when they do not.

mod support;

use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::Slot;
use forebay_rt::{block_on, thread};
use forebay_store::{
    FileStore, Finish, FinishedIo, Io, IoKind, Method, ObjectId, OpenMode, Request, Store,
};
use rustix::fs::{Mode, OFlags};
use std::sync::Arc;
use std::thread::ThreadId;
use support::fixtures::settings;
use support::{Desk, Driver, FinishingThread};
use tempfile::TempDir;

const PAGE: u64 = PAGE_BYTES as u64;
const ROUNDS: u64 = 50;

struct Bench {
    driver: Driver,
    store: Arc<FileStore>,
    object: ObjectId,
    folder: TempDir,
}

/// A file over io_uring, for which all who submit wait; none if the system has no io_uring.
fn bench() -> Option<Bench> {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let store = match FileStore::new(settings(Method::Uring, true)) {
        Ok(store) => store,
        Err(refusal) => {
            eprintln!("skipped: {refusal}");
            return None;
        }
    };
    let mode = OpenMode::Create { length_bytes: None };
    let opened = store
        .open(&folder.path().join("data"), mode)
        .expect("it opens");
    let mut driver = Driver::new(store.clone(), 256);
    driver.awaits = true;
    Some(Bench {
        driver,
        store,
        object: opened.object,
        folder,
    })
}

impl Bench {
    /// Whether the file is written past the kernel's cache, on a file system that surely makes
    /// such a write durable when it is asked to.
    fn is_written_through(&self) -> bool {
        const EXT: u32 = 0xEF53;
        const XFS: u32 = 0x5846_5342;
        let path = self.folder.path().join("data");
        let opened = rustix::fs::open(&path, OFlags::RDWR | OFlags::DIRECT, Mode::empty());
        opened.is_ok_and(|fd| {
            let reported = rustix::fs::fstatfs(&fd).expect("it lies on a file system");
            matches!(reported.f_type as u32, EXT | XFS)
        })
    }
}

fn commit_of(object: ObjectId) -> Request {
    Request {
        kind: IoKind::Commit,
        object,
        offset_bytes: 0,
        length_bytes: 0,
    }
}

#[test]
fn a_thread_that_waits_finishes_its_own_request() {
    let Some(bench) = bench() else { return };
    let finished_on = |is_awaited: bool| {
        let place = Arc::new(FinishingThread::default());
        block_on(async {
            let io = Io::new(commit_of(bench.object), Vec::new(), place.clone(), 0);
            bench
                .store
                .submit(if is_awaited { io.awaited() } else { io });
            place.take().await
        })
    };
    let here = std::thread::current().id();
    for _ in 0..3 {
        assert_eq!(finished_on(true), here);
        assert_ne!(finished_on(false), here);
    }
    // Outside of a call that blocks nobody would look after it here.
    let place = Arc::new(FinishingThread::default());
    let io = Io::new(commit_of(bench.object), Vec::new(), place.clone(), 0);
    bench.store.submit(io.awaited());
    assert_ne!(block_on(place.take()), here);
}

#[test]
fn invariant_w1_requests_of_a_caller_that_gives_up_are_finished() {
    let Some(bench) = bench() else { return };
    let (driver, object) = (&bench.driver, bench.object);
    for round in 0..ROUNDS {
        let bytes = [round as u8; 3 * PAGE_BYTES];
        let tokens = block_on(async {
            let write = driver.submit_write(object, 0, &bytes);
            let commit = driver.submit(commit_of(object), Vec::new());
            [write, commit]
        });
        for token in tokens {
            block_on(driver.finish(token)).expect("the disk is well");
        }
        assert!(driver.read(object, 0, 3 * PAGE) == bytes, "round {round}");
    }
}

#[test]
fn requests_of_a_thread_that_has_ended_are_finished() {
    let Some(bench) = bench() else { return };
    for round in 0..ROUNDS {
        let (driver, object) = (bench.driver.clone(), bench.object);
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let reported = tokens.clone();
        let joiner = thread::spawn("gives up", move || {
            block_on(async {
                let bytes = [round as u8; PAGE_BYTES];
                lock(&reported).push(driver.submit_write(object, round * PAGE, &bytes));
                // The kernel leaves it to a worker of this thread, which ends with it.
                lock(&reported).push(driver.submit(commit_of(object), Vec::new()));
            });
        });
        joiner.expect("a thread").join();
        for token in std::mem::take(&mut *lock(&tokens)) {
            let ended = block_on(bench.driver.finish(token));
            ended.expect("the disk is well");
        }
    }
    for round in 0..ROUNDS {
        let read = bench.driver.read(bench.object, round * PAGE, PAGE);
        assert!(read == [round as u8; PAGE_BYTES], "round {round}");
    }
}

#[test]
fn another_thread_hears_of_a_request_while_its_thread_waits_for_something_else() {
    let Some(bench) = bench() else { return };
    for round in 0..ROUNDS {
        let (driver, object) = (bench.driver.clone(), bench.object);
        let (begun, over) = (Arc::new(Slot::new()), Arc::new(Slot::new()));
        let (finish, waits) = (begun.clone(), over.clone());
        let joiner = thread::spawn("waits for another", move || {
            block_on(async {
                let token = driver.submit_write(object, 0, &[round as u8; PAGE_BYTES]);
                finish.set(token);
                waits.take().await;
            });
        });
        let token = block_on(begun.take());
        block_on(bench.driver.finish(token)).expect("the disk is well");
        over.set(());
        joiner.expect("a thread").join();
    }
}

/// Notes whether a write was made durable, and on which thread it was finished.
#[derive(Default)]
struct Durably(Slot<(bool, ThreadId)>);

impl Finish for Durably {
    fn finished(&self, io: FinishedIo) {
        assert_eq!(io.result, Ok(()));
        self.0.set((io.is_durable, std::thread::current().id()));
    }
}

#[test]
fn a_write_that_is_to_be_durable_is_so_in_any_ring() {
    let Some(bench) = bench() else { return };
    let here = std::thread::current().id();
    let request = Request {
        kind: IoKind::Write,
        object: bench.object,
        offset_bytes: 0,
        length_bytes: PAGE,
    };
    for is_awaited in [true, false] {
        let ending = Arc::new(Durably::default());
        let pages = bench.driver.arena.lend(1, 7);
        let (durable, thread) = block_on(async {
            let io = Io::new(request, pages, ending.clone(), 0).durable();
            bench
                .store
                .submit(if is_awaited { io.awaited() } else { io });
            ending.0.take().await
        });
        assert_eq!(thread == here, is_awaited);
        // Elsewhere it may be left to a commit.
        assert!(durable || !bench.is_written_through());
        assert_eq!(bench.store.commit_failure(bench.object), None);
        assert!(bench.driver.read(bench.object, 0, PAGE) == [7; PAGE_BYTES]);
    }
}

/// A tail of a page, as a log has one: the file ends where the bytes do.
#[test]
fn a_durable_write_that_makes_the_file_longer_ends_it_there() {
    let Some(bench) = bench() else { return };
    for round in 1..=ROUNDS {
        let request = Request {
            kind: IoKind::Write,
            object: bench.object,
            offset_bytes: 0,
            length_bytes: round * 20,
        };
        let ending = Arc::new(Durably::default());
        let pages = bench.driver.arena.lend(1, round as u8);
        let (durable, _) = block_on(async {
            let io = Io::new(request, pages, ending.clone(), 0).durable();
            bench.store.submit(io.growing().awaited());
            ending.0.take().await
        });
        assert!(durable || !bench.is_written_through());
        let found = std::fs::read(bench.folder.path().join("data")).expect("it is read");
        assert!(
            found == vec![round as u8; round as usize * 20],
            "round {round}"
        );
    }
}

#[test]
fn durable_writes_of_a_thread_that_has_ended_are_finished() {
    let Some(bench) = bench() else { return };
    for round in 0..ROUNDS {
        let ending = Arc::new(Durably::default());
        let (store, object, finish) = (bench.store.clone(), bench.object, ending.clone());
        let pages = bench.driver.arena.lend(1, round as u8);
        let joiner = thread::spawn("gives up", move || {
            block_on(async {
                let request = Request {
                    kind: IoKind::Write,
                    object,
                    offset_bytes: 0,
                    length_bytes: PAGE,
                };
                store.submit(Io::new(request, pages, finish, 0).durable().awaited());
            });
        });
        joiner.expect("a thread").join();
        block_on(ending.0.take());
        let read = bench.driver.read(bench.object, 0, PAGE);
        assert!(read == [round as u8; PAGE_BYTES], "round {round}");
    }
}

#[test]
fn more_requests_than_a_ring_has_room_for_are_all_finished() {
    let Some(bench) = bench() else { return };
    let (driver, object) = (&bench.driver, bench.object);
    let bytes: Vec<u8> = (0..100 * PAGE_BYTES)
        .map(|at| (at / PAGE_BYTES) as u8)
        .collect();
    block_on(async {
        let writes = (0..100).map(|page| {
            let at = page * PAGE_BYTES;
            driver.submit_write(object, at as u64, &bytes[at..at + PAGE_BYTES])
        });
        let tokens: Vec<u64> = writes.collect();
        for token in tokens {
            driver.finish(token).await.expect("the disk is well");
        }
    });
    // One that is too long for a ring of a thread.
    assert!(driver.read(object, 0, 100 * PAGE) == bytes);
}

#[test]
fn many_threads_wait_at_once() {
    let Some(bench) = bench() else { return };
    let joiners = (0..48_u64).map(|number| {
        let (driver, object) = (bench.driver.clone(), bench.object);
        thread::spawn("waiter", move || {
            for round in 0..10 {
                let bytes = [(number + round) as u8; PAGE_BYTES];
                let at = number * PAGE;
                driver.write(object, at, &bytes).expect("the disk is well");
                let committed = driver.order(IoKind::Commit, object, 0, 0);
                committed.expect("the disk is well");
                assert!(driver.read(object, at, PAGE) == bytes);
            }
        })
    });
    let joiners: Vec<_> = joiners.collect();
    for joiner in joiners {
        joiner.expect("a thread").join();
    }
}

/// Drops the last handle of a store when it hears of the end of a request.
struct Dropper {
    store: Mutex<Option<Arc<FileStore>>>,
    desk: Arc<Desk>,
}

impl Finish for Dropper {
    fn finished(&self, io: FinishedIo) {
        drop(lock(&self.store).take());
        self.desk.finished(io);
    }
}

/// A store with three commits under way, in a ring of the calling thread.
fn with_commits(desk: &Arc<Desk>) -> Option<(Arc<FileStore>, Arc<Dropper>)> {
    let Bench { store, object, .. } = bench()?;
    let dropper = Arc::new(Dropper {
        store: Mutex::new(None),
        desk: desk.clone(),
    });
    for token in TOKENS {
        let io = Io::new(commit_of(object), Vec::new(), dropper.clone(), token);
        store.submit(io.awaited());
    }
    Some((store, dropper))
}

const TOKENS: [u64; 3] = [1, 2, 3];

#[test]
fn a_store_that_a_thread_drops_waits_for_the_requests_in_the_ring_of_the_thread() {
    let desk = Arc::new(Desk::default());
    block_on(async {
        let Some((store, _)) = with_commits(&desk) else {
            return;
        };
        drop(store);
        for token in TOKENS {
            let ended = desk.try_take(token).expect("the drop has waited for it");
            assert_eq!(ended.result, Ok(()));
        }
    });
}

#[test]
fn a_store_is_dropped_by_a_finisher_on_a_thread_that_waits() {
    let desk = Arc::new(Desk::default());
    block_on(async {
        let Some((store, dropper)) = with_commits(&desk) else {
            return;
        };
        *lock(&dropper.store) = Some(store);
        for token in TOKENS {
            assert_eq!(desk.take(token).await.result, Ok(()));
        }
    });
}

/// The store waits for a lane with a request in it, which comes back idle when the thread goes on.
#[test]
fn a_store_that_another_thread_drops_ends_when_the_lane_of_a_thread_comes_back() {
    for round in 0..10 {
        let Some(Bench {
            driver,
            store,
            object,
            folder,
        }) = bench()
        else {
            return;
        };
        let dropper = block_on(async {
            let write = driver.submit_write(object, 0, &vec![round; 64 * PAGE_BYTES]);
            driver.finish(write).await.expect("the disk is well");
            let commit = driver.submit(commit_of(object), Vec::new());
            let desk = driver.desk.clone();
            drop(driver);
            let dropper = thread::spawn("drops it", move || drop(store));
            assert_eq!(desk.take(commit).await.result, Ok(()));
            dropper.expect("a thread")
        });
        dropper.join();
        drop(folder);
    }
}

/// Requests of one store in the lane of another would be taken off the count of the wrong store,
/// which would have no room any more.
#[test]
fn a_thread_with_a_lane_of_one_store_keeps_it_for_that_store() {
    let (Some(first), Some(second)) = (bench(), bench()) else {
        return;
    };
    let finished_on = |bench: &Bench| {
        let place = Arc::new(FinishingThread::default());
        let io = Io::new(commit_of(bench.object), Vec::new(), place.clone(), 0);
        bench.store.submit(io.awaited());
        async move { place.take().await }
    };
    block_on(async {
        let all = [&first, &second, &second, &second].map(finished_on);
        for one in all {
            one.await;
        }
    });
    let here = std::thread::current().id();
    for (number, bench) in [&first, &second].into_iter().enumerate() {
        assert_eq!(
            block_on(async { finished_on(bench).await }),
            here,
            "{number}"
        );
    }
}
