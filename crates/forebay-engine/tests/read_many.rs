//! Many reads in one call: how many are under way, what each returns when something goes wrong, and
//! what becomes of them when the caller goes away.

mod support;

use forebay_base::sync::{Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, Advice, Cache, Counter, File, ReadRequest, Settings};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{
    CountStore, DelayStore, Delays, Failure, Fault, FaultAction, FaultStore, FaultWhen, FileStore,
    FileStoreSettings, Geometry, Io, IoKind, Method, OpenMode, Store,
};
use std::sync::Arc;
use support::{Bench, OfSize, PAGE, page_of, simulate, write_pages};

const BROKEN: Failure = Failure::Device(5);

/// Requests for whole pages, and the buffers behind them.
fn requests<'a>(buffers: &'a mut [Vec<u8>], pages: &[u64]) -> Vec<ReadRequest<'a>> {
    let each = buffers.iter_mut().zip(pages);
    each.map(|(buffer, page)| ReadRequest {
        offset_bytes: page * PAGE as u64,
        buffer,
        done_bytes: 77,
    })
    .collect()
}

fn buffers(count: usize) -> Vec<Vec<u8>> {
    vec![vec![9; PAGE]; count]
}

/// Pages 0 to `pages`, in an order without neighbours.
fn scattered(pages: u64) -> Vec<u64> {
    (0..pages).map(|number| number * 89 % pages).collect()
}

/// A file of `pages` pages that the store has and the cache does not.
async fn cold(bench: &Bench, pages: u64) -> File {
    let writer = bench.open(0);
    write_pages(&writer, 0..pages)
        .await
        .expect("memory takes it");
    writer.sync().await.expect("the store is well");
    let all = 0..pages * PAGE as u64;
    let dropped = writer.advise(Advice::DontNeed, all).await;
    dropped.expect("it is advice");
    for_random_reads(&writer).await
}

/// Another handle on the same file, which reads no page that was not asked for.
async fn for_random_reads(file: &File) -> File {
    let other = file.clone();
    let advised = other.advise(Advice::Random, 0..u64::MAX).await;
    advised.expect("it is advice");
    other
}

fn are_the_pages(buffers: &[Vec<u8>], pages: &[u64]) -> bool {
    let mut each = buffers.iter().zip(pages);
    each.all(|(buffer, &page)| *buffer == page_of(page))
}

#[test]
fn as_many_reads_are_under_way_as_a_store_takes_and_not_more() {
    const PAGES: u64 = 200;
    simulate(1, async |rt: Rt| {
        let delays = Delays {
            read: Span::from_millis(1),
            ..Delays::default()
        };
        let mut counted = None;
        let bench = Bench::new(rt.clone(), 8, |rt, memory| {
            let slow = DelayStore::new(rt.clone(), memory, delays);
            let counts = Arc::new(CountStore::new(rt, Arc::new(slow)));
            counted = Some(counts.clone());
            counts
        });
        let file = cold(&bench, PAGES).await;
        let (pages, mut bytes) = (scattered(PAGES), buffers(PAGES as usize));
        let began = rt.now();
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(many.iter().all(|request| request.done_bytes == PAGE));
        let took = rt.now().since(began);
        assert!(are_the_pages(&bytes, &pages));
        let reads = counted.expect("it was made").counts(IoKind::Read);
        assert_eq!((reads.requests, reads.most_in_flight), (PAGES, 128));
        // Twice as long as one read would be the least.
        assert!(took < Span::from_millis(4), "{took:?}");
        bench.assert_consistent();
    });
}

#[test]
fn no_more_reads_are_under_way_than_the_caller_wants() {
    const PAGES: u64 = 50;
    for most in [0, 1, 7, 1_000] {
        simulate(8, async move |rt: Rt| {
            let delays = Delays {
                read: Span::from_millis(1),
                ..Delays::default()
            };
            let mut counted = None;
            let bench = Bench::new(rt, 8, |rt, memory| {
                let slow = DelayStore::new(rt.clone(), memory, delays);
                let counts = Arc::new(CountStore::new(rt, Arc::new(slow)));
                counted = Some(counts.clone());
                counts
            });
            let file = cold(&bench, PAGES).await;
            let (pages, mut bytes) = (scattered(PAGES), buffers(PAGES as usize));
            let mut many = requests(&mut bytes, &pages);
            assert_eq!(file.read_many_within(&mut many, most).await, Ok(()));
            assert!(are_the_pages(&bytes, &pages));
            let reads = counted.expect("it was made").counts(IoKind::Read);
            let allowed = (most.max(1) as u64).min(PAGES);
            assert_eq!((reads.requests, reads.most_in_flight), (PAGES, allowed));
        });
    }
}

/// A store that keeps the first read back until so many others have been asked for.
struct Late {
    files: Arc<FileStore>,
    others: usize,
    state: Mutex<LateState>,
}

#[derive(Default)]
struct LateState {
    kept: Option<Io>,
    reads: usize,
}

impl Store for Late {
    fn geometry(&self) -> Geometry {
        self.files.geometry()
    }

    fn submit(&self, io: Io) {
        let ready = {
            let mut state = lock(&self.state);
            state.reads += 1;
            if state.reads == 1 {
                state.kept = Some(io);
                return;
            }
            let is_last = state.reads == 1 + self.others;
            is_last.then(|| state.kept.take()).flatten()
        };
        self.files.submit(io);
        if let Some(late) = ready {
            self.files.submit(late);
        }
    }
}

/// With four reads under way, four more than these are asked for although the first has not ended:
/// only a thread that hears of the others by itself can do that.
#[test]
fn a_thread_begins_more_when_others_than_the_first_have_come_in() {
    const MOST: usize = 4;
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("data");
    let content: Vec<u8> = (0..100).flat_map(page_of).collect();
    std::fs::write(&path, content).expect("there is room");
    let files = FileStore::new(FileStoreSettings::default()).expect("a store starts");
    if files.method() != Method::Uring {
        eprintln!("skipped: {:?}", files.uring_refusal());
        return;
    }
    let opened = files.open(&path, OpenMode::ReadOnly).expect("it opens");
    let cache = Cache::new(Settings::of_mib(2)).expect("the settings are good");
    let late = Arc::new(Late {
        files,
        others: 2 * MOST - 1,
        state: Mutex::default(),
    });
    let store = cache.attach(late).expect("it is new");
    let file = cache
        .open(&store, opened.object, opened.length_bytes)
        .expect("it opens")
        .blocking();
    let advised = file.advise(Advice::Random, 0..u64::MAX);
    advised.expect("it is advice");
    let (pages, mut bytes) = (scattered(100), buffers(100));
    let mut many = requests(&mut bytes, &pages);
    assert_eq!(file.read_many_within(&mut many, MOST), Ok(()));
    assert!(are_the_pages(&bytes, &pages));
}

#[test]
fn a_place_that_cannot_be_read_leaves_the_others_alone() {
    const PAGES: u64 = 100;
    const BAD: u64 = 41;
    simulate(2, async |rt: Rt| {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = cold(&bench, PAGES).await;
        let at = BAD * PAGE as u64;
        faults.inject(Fault {
            range_bytes: Some(at..at + 1),
            ..Fault::each(IoKind::Read, FaultAction::Fail(BROKEN))
        });
        let (pages, mut bytes) = (scattered(PAGES), buffers(PAGES as usize));
        let mut many = requests(&mut bytes, &pages);
        let read = file.read_many(&mut many).await;
        let Err(AccessError::Store(error)) = read else {
            panic!("{read:?}");
        };
        assert_eq!((error.failure, error.request.offset_bytes), (BROKEN, at));
        for (request, &page) in many.iter().zip(&pages) {
            let expected = if page == BAD { 0 } else { PAGE };
            assert_eq!(request.done_bytes, expected, "page {page}");
        }
        let is_good = |at: &usize| pages[*at] != BAD;
        let good: Vec<usize> = (0..pages.len()).filter(is_good).collect();
        assert!(good.iter().all(|&at| bytes[at] == page_of(pages[at])));
        faults.clear();
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(are_the_pages(&bytes, &pages));
        bench.assert_consistent();
    });
}

/// What was asked for together is asked for page by page when it fails, as by any other read.
#[test]
fn a_read_that_fails_once_is_tried_again() {
    simulate(3, async |rt: Rt| {
        let (bench, faults) = Bench::faulty(rt, 8);
        let file = cold(&bench, 64).await;
        faults.inject(Fault {
            when: FaultWhen::First(40),
            ..Fault::each(IoKind::Read, FaultAction::Fail(BROKEN))
        });
        let (pages, mut bytes) = (scattered(64), buffers(64));
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(are_the_pages(&bytes, &pages));
        assert_eq!(faults.injected(IoKind::Read), 40);
        bench.assert_consistent();
    });
}

#[test]
fn what_is_past_the_end_is_not_read() {
    simulate(4, async |rt: Rt| {
        let bench = Bench::plain(rt, 8);
        let file = cold(&bench, 10).await;
        file.truncate(9 * PAGE as u64 + 5).await.expect("it is cut");
        let (pages, mut bytes) = ([9, 10, 1 << 50, 0], buffers(4));
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        let done: Vec<usize> = many.iter().map(|request| request.done_bytes).collect();
        assert_eq!(done, [5, 0, 0, PAGE]);
        assert_eq!(bytes[0][..5], page_of(9)[..5]);
        assert!(bytes[0][5..].iter().chain(&bytes[1]).all(|&byte| byte == 9));
        assert_eq!(bytes[3], page_of(0));
    });
}

/// A request of several pages, some of which are there, is read once and in few requests.
#[test]
fn a_page_that_is_there_or_on_its_way_is_not_read_again() {
    simulate(5, async |rt: Rt| {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = cold(&bench, 60).await;
        let mut page = vec![0; PAGE];
        file.read_at(&mut page, 0).await.expect("it is well");
        faults.inject(Fault::each(
            IoKind::Read,
            FaultAction::Delay(Span::from_millis(5)),
        ));
        let one = for_random_reads(&file).await;
        let reader = rt.spawn("another reader", async move {
            let mut page = vec![0; PAGE];
            let read = one.read_at(&mut page, 33 * PAGE as u64).await;
            assert_eq!((read, page), (Ok(PAGE), page_of(33)));
        });
        rt.sleep(Span::from_millis(1)).await;
        let before = bench.count(Counter::Pgpgin);
        let mut long = vec![0; 5 * PAGE];
        let mut twice = [vec![0; PAGE], vec![0; PAGE]];
        let [first, second] = &mut twice;
        let request = |page: u64, buffer| ReadRequest {
            offset_bytes: page * PAGE as u64,
            buffer,
            done_bytes: 0,
        };
        let mut many = [
            request(0, &mut long[..]),
            request(33, first),
            request(33, second),
        ];
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        reader.join().await;
        let expected: Vec<u8> = (0..5).flat_map(page_of).collect();
        assert!(long == expected);
        assert!(twice.iter().all(|page| *page == page_of(33)));
        // Pages 1 to 4, and the one of the other reader.
        assert_eq!(bench.count(Counter::Pgpgin) - before, 5);
        bench.assert_consistent();
    });
}

#[test]
fn a_call_that_gets_no_memory_ends_and_leaves_nothing_locked() {
    simulate(6, async |rt: Rt| {
        let bench = Bench::plain(rt, 2);
        let file = cold(&bench, 2_000).await;
        let mut guards = Vec::new();
        for page in 0.. {
            match file.page(page).await {
                Ok(guard) => guards.push(guard),
                Err(AccessError::NoFrames { .. }) => break,
                Err(error) => panic!("page {page}: {error:?}"),
            }
        }
        let pages: Vec<u64> = (1_500..1_600).collect();
        let mut bytes = buffers(100);
        let mut many = requests(&mut bytes, &pages);
        let read = file.read_many(&mut many).await;
        assert!(
            matches!(read, Err(AccessError::NoFrames { .. })),
            "{read:?}"
        );
        drop(guards);
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(are_the_pages(&bytes, &pages));
        bench.assert_consistent();
    });
}

/// There is no memory for the last requests before the first have come in, which takes long. They
/// are then read in the memory of those.
#[test]
fn requests_that_get_no_memory_ahead_of_their_turn_get_some_in_their_turn() {
    simulate(9, async |rt: Rt| {
        let settings = Settings {
            held_timeout: Span::from_secs(1),
            ..Settings::of_mib(2)
        };
        let delays = Delays {
            read: Span::from_secs(3),
            ..Delays::default()
        };
        let bench = Bench::with(rt, settings, |rt, memory| {
            Arc::new(DelayStore::new(rt, memory, delays))
        });
        let file = cold(&bench, 2_000).await;
        let mut guards = Vec::new();
        let mut page = 0;
        while let Ok(guard) = file.page(page).await {
            guards.push(guard);
            page += 1;
        }
        guards.truncate(guards.len() - 8);
        let pages: Vec<u64> = (1_500..1_540).collect();
        let mut bytes = buffers(40);
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(are_the_pages(&bytes, &pages));
        drop(guards);
        bench.assert_consistent();
    });
}

#[test]
fn a_call_that_is_dropped_leaves_reads_that_end_by_themselves() {
    simulate(7, async |rt: Rt| {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = cold(&bench, 100).await;
        faults.inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
        let (pages, mut bytes) = (scattered(100), buffers(100));
        let mut many = requests(&mut bytes, &pages);
        let call = file.read_many(&mut many);
        let given_up = rt.timeout(Span::from_millis(50), call).await;
        assert!(given_up.is_err(), "nobody answers: {given_up:?}");
        assert_eq!(faults.held(), 100);
        faults.clear();
        assert_eq!(faults.release(), 100);
        let mut many = requests(&mut bytes, &pages);
        assert_eq!(file.read_many(&mut many).await, Ok(()));
        assert!(are_the_pages(&bytes, &pages));
        assert_eq!(bench.count(Counter::Pgpgin), 100);
        bench.assert_consistent();
    });
}

/// A store before `files` in which some reads fail and some are late.
fn uneven(rt: &Rt, files: Arc<FileStore>) -> Arc<FaultStore> {
    let faults = Arc::new(FaultStore::new(rt.clone(), files));
    for (one_in, action) in [
        (200, FaultAction::Fail(BROKEN)),
        (300, FaultAction::Delay(Span::from_millis(1))),
    ] {
        let when = FaultWhen::Chance {
            numerator: 1,
            denominator: one_in,
        };
        let fault = Fault::each(IoKind::Read, action);
        faults.inject(Fault { when, ..fault });
    }
    faults
}

/// Pages of the file that threads read, and calls of each thread.
const PAGES: u64 = 1_200;
const CALLS: usize = 150;

/// Threads of the system that read many pages in rings of their own, from a file larger than the
/// cache. Now and then one gives up, and some reads fail or are late.
#[test]
fn threads_read_in_their_own_rings_whatever_fails_and_whoever_gives_up() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("data");
    let content: Vec<u8> = (0..PAGES).flat_map(page_of).collect();
    std::fs::write(&path, content).expect("there is room");
    for method in [Method::Auto, Method::Positioned] {
        let rt = Rt::real();
        let settings = FileStoreSettings {
            method,
            ..FileStoreSettings::default()
        };
        let files = FileStore::new(settings).expect("a store starts");
        let opened = files.open(&path, OpenMode::ReadOnly).expect("it opens");
        let faults = uneven(&rt, files);
        let cache = Cache::new(Settings::of_mib(2)).expect("the settings are good");
        let store = cache.attach(faults as Arc<dyn Store>).expect("it is new");
        let file = cache
            .open(&store, opened.object, opened.length_bytes)
            .expect("it opens");
        let readers: Vec<_> = (0..3_u64)
            .map(|seed| {
                let (file, rt) = (file.clone(), rt.clone());
                let body = move || read_often(&rt, &file, Prng::from_seed(seed), CALLS);
                thread::spawn("reader", body).expect("a thread")
            })
            .collect();
        readers.into_iter().for_each(thread::Joiner::join);
        let wrong = block_on(async {
            // What was given up may still be under way.
            for page in 0..PAGES {
                let mut bytes = vec![0; PAGE];
                let read = file.read_at(&mut bytes, page * PAGE as u64).await;
                let is_good = read == Ok(PAGE) && bytes == page_of(page);
                assert!(is_good || matches!(read, Err(AccessError::Store(_))));
            }
            cache.check()
        });
        assert_eq!(wrong, Vec::<String>::new());
    }
}

fn read_often(rt: &Rt, file: &File, mut chance: Prng, calls: usize) {
    for _ in 0..calls {
        let count = 1 + chance.below(90) as usize;
        let pages: Vec<u64> = (0..count).map(|_| chance.below(PAGES)).collect();
        let mut bytes = buffers(count);
        let mut many = requests(&mut bytes, &pages);
        if chance.chance(1, 4) {
            let patience = Span::from_micros(chance.below(400));
            // Whether it ends in time does not matter.
            let _ = block_on(rt.timeout(patience, file.read_many(&mut many)));
            continue;
        }
        let most = 1 + chance.below(40) as usize;
        match file.blocking().read_many_within(&mut many, most) {
            Ok(()) => assert!(are_the_pages(&bytes, &pages)),
            Err(AccessError::Store(_)) => {
                for (request, &page) in many.iter().zip(&pages) {
                    assert!(request.done_bytes == 0 || *request.buffer == page_of(page));
                }
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}
