//! Threads of the system on one small cache: readers, writers, guards, syncs, cuts, swap and
//! reclaim at once, bounded by operations. It serves the race and memory checkers as much as
//! itself.
//!
//! Every word of a page says which page it is and which version (`support/versions.rs`). The walk
//! at the end finds all books in order, for which see invariants B1, B2, D1, D2, S1 and F4.

mod support;

use forebay_base::Prng;
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, Cache, Counter, Settings, blocking};
use forebay_rt::{block_on, thread};
use forebay_store::{Durability, MemoryStore, ObjectId, Store};
use std::sync::Arc;
use support::versions::{Versions, WORDS, stamped, version_of, words};
use support::{PAGE, memory_of};

/// Three times the memory, in one file; each page has one writer.
const PAGES: u64 = 1_500;
const WRITERS: u64 = 2;
const CUT_PAGES: u64 = 400;
/// More than the memory: some of it must go to swap.
const ANONYMOUS_PAGES: u64 = 1_200;
const OPERATIONS: u64 = 12_000;

const STEADY: ObjectId = ObjectId(1);
const CUT: ObjectId = ObjectId(2);
const SWAP: ObjectId = ObjectId(3);

fn write_steady(file: &blocking::File, versions: &Versions, writer: u64) {
    let mut chance = Prng::from_seed(writer);
    for _ in 0..OPERATIONS {
        let page = chance.below(PAGES / WRITERS) * WRITERS + writer;
        let version = versions.begin(page);
        file.write_at(&stamped(page, version), page * PAGE as u64)
            .expect("the store is well");
        versions.note_returned(page, version);
    }
}

fn read_steady(file: &blocking::File, versions: &Versions, seed: u64) {
    let mut chance = Prng::from_seed(seed);
    let mut bytes = vec![0; PAGE];
    for _ in 0..OPERATIONS {
        let page = chance.below(PAGES);
        let least = versions.returned(page);
        let version = if chance.chance(1, 3) {
            let guard = file.page(page).expect("the store is well");
            let version = version_of(page, &guard);
            std::thread::yield_now();
            assert_eq!(version_of(page, &guard), version, "a held page changed");
            version
        } else {
            let read = file.read_at(&mut bytes, page * PAGE as u64);
            assert_eq!(read, Ok(PAGE));
            version_of(page, &bytes)
        };
        let most = versions.begun(page);
        assert!((least..=most).contains(&version), "page {page} is stale");
    }
}

fn sync_steady(file: &blocking::File, versions: &Versions, store: &MemoryStore) {
    for _ in 0..OPERATIONS / 400 {
        let least: Vec<u64> = (0..PAGES).map(|page| versions.returned(page)).collect();
        file.sync().expect("the store is well");
        assert_stored(store, &least);
    }
}

/// The store has at least these versions.
fn assert_stored(store: &MemoryStore, least: &[u64]) {
    let stored = store.snapshot(STEADY);
    for (page, (bytes, least)) in (0..).zip(stored.chunks(PAGE).zip(least)) {
        assert!(
            version_of(page, bytes) >= *least,
            "page {page} was not synced"
        );
    }
}

/// A page of the file that is cut: a stamp up to the cut, and zeros past it.
fn assert_cut_page(page: u64, bytes: &[u8]) {
    let stamp = stamped(page, 1);
    let kept = words(bytes).take_while(|&word| word != 0).count() * 8;
    assert!(bytes[..kept] == stamp[..kept], "page {page} is another's");
    assert!(
        bytes[kept..].iter().all(|&byte| byte == 0),
        "page {page} has a hole"
    );
}

fn write_cut(file: &blocking::File, seed: u64) {
    let mut chance = Prng::from_seed(seed);
    let mut bytes = vec![0; PAGE];
    for _ in 0..OPERATIONS / 2 {
        let page = chance.below(CUT_PAGES);
        if chance.chance(1, 2) {
            file.write_at(&stamped(page, 1), page * PAGE as u64)
                .expect("the store is well");
            continue;
        }
        match file.page(page) {
            Ok(guard) => assert_cut_page(page, &guard),
            Err(AccessError::TooFar { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let read = file.read_at(&mut bytes, page * PAGE as u64);
        let read = read.expect("the store is well") / 8 * 8;
        bytes[read..].fill(0);
        assert_cut_page(page, &bytes);
    }
}

fn cut(file: &blocking::File) {
    let mut chance = Prng::from_seed(9);
    for _ in 0..OPERATIONS / 20 {
        let at = chance.below(CUT_PAGES * WORDS as u64) * 8;
        if chance.chance(1, 3) {
            let first = at / PAGE as u64;
            let pages = first..first + 1 + chance.below(20);
            let range = pages.start * PAGE as u64..pages.end * PAGE as u64;
            file.discard(range).expect("the store is well");
        } else {
            file.truncate(at).expect("no guard is held for long");
        }
    }
}

fn use_anonymous(memory: &blocking::File) {
    let mut chance = Prng::from_seed(10);
    let pages = memory.len() / PAGE as u64;
    let mut versions = vec![0; pages as usize];
    let mut bytes = vec![0; PAGE];
    for version in 1..OPERATIONS / 2 {
        let page = chance.below(pages);
        if chance.chance(1, 2) {
            versions[page as usize] = version;
            memory
                .write_at(&stamped(page, version), page * PAGE as u64)
                .expect("there is swap for all of it");
        } else {
            let read = memory.read_at(&mut bytes, page * PAGE as u64);
            assert_eq!(read, Ok(PAGE));
            assert_eq!(version_of(page, &bytes), versions[page as usize]);
        }
    }
}

/// Starts all threads and waits until they have ended.
fn run_threads(
    cache: &Cache,
    steady: &forebay_engine::File,
    cut_file: &forebay_engine::File,
    store: &Shared,
) {
    let mut threads = Vec::new();
    let mut start = |file: &forebay_engine::File,
                     act: Box<dyn FnOnce(blocking::File, Shared) + Send>| {
        let (file, shared) = (file.blocking(), store.clone());
        let thread = thread::spawn("stress", move || act(file, shared));
        threads.push(thread.expect("a thread starts"));
    };
    for writer in 0..WRITERS {
        start(
            steady,
            Box::new(move |file, shared| write_steady(&file, &shared.versions, writer)),
        );
        start(
            steady,
            Box::new(move |file, shared| read_steady(&file, &shared.versions, 100 + writer)),
        );
        start(
            cut_file,
            Box::new(move |file, _| write_cut(&file, 200 + writer)),
        );
    }
    start(
        steady,
        Box::new(|file, shared| sync_steady(&file, &shared.versions, &shared.store)),
    );
    start(cut_file, Box::new(|file, _| cut(&file)));
    let memory = cache
        .anonymous(ANONYMOUS_PAGES * PAGE as u64)
        .expect("there is swap for all of it");
    start(&memory, Box::new(|file, _| use_anonymous(&file)));
    drop(memory);
    threads.into_iter().for_each(thread::Joiner::join);
}

#[derive(Clone)]
struct Shared {
    versions: Arc<Versions>,
    store: Arc<MemoryStore>,
}

#[test]
fn nothing_is_torn_stale_or_lost_under_threads() {
    run(MemoryStore::new());
}

#[test]
fn nothing_is_torn_stale_or_lost_before_an_unstable_store() {
    run(memory_of(Durability::Unstable));
}

fn run(store: MemoryStore) {
    let cache = Cache::new(Settings {
        memory_bytes: 4 << 20,
        prefault: false,
        ..Settings::default()
    })
    .expect("the settings are good");
    let store = Arc::new(store);
    store.fill(STEADY, &vec![0; PAGES as usize * PAGE]);
    let attached = cache.attach(store.clone()).expect("a store is attached");
    let is_lasting = store.geometry().durability != Durability::Unstable;
    let of_swap = if is_lasting {
        attached.clone()
    } else {
        let beside = cache.attach(Arc::new(MemoryStore::new()));
        beside.expect("a store for swap is attached")
    };
    cache
        .set_swap(&of_swap, SWAP, 2_000 * PAGE as u64)
        .expect("swap is set once");
    let steady = cache.open(&attached, STEADY, PAGES * PAGE as u64);
    let steady = steady.expect("the object opens");
    let cut_file = cache.open(&attached, CUT, 0).expect("the object opens");
    let shared = Shared {
        versions: Arc::new(Versions::new(PAGES)),
        store: store.clone(),
    };
    run_threads(&cache, &steady, &cut_file, &shared);
    assert_eq!(block_on(cache.sync()), Ok(()));
    let mut cut_bytes = vec![1; cut_file.len() as usize];
    let read = cut_file.blocking().read_at(&mut cut_bytes, 0);
    assert_eq!(read, Ok(cut_bytes.len()));
    assert!(
        store.snapshot(CUT) == cut_bytes,
        "the store has another file"
    );
    assert_eq!(block_on(cache.close()), Ok(()));
    let last: Vec<u64> = (0..PAGES).map(|page| shared.versions.begun(page)).collect();
    assert_stored(&store, &last);
    let statistics = cache.statistics();
    assert!(statistics.get(Counter::Pswpout) > 0, "swap was needed");
    assert!(
        statistics.get(Counter::PgstealKswapd) + statistics.get(Counter::PgstealDirect) > PAGES,
        "memory was short"
    );
    assert_eq!(statistics.get(Counter::NrVmscanWriteFile), 0, "promise 4");
    let at_rest = (0..1_000).any(|_| {
        // The daemons end on their own threads.
        std::thread::yield_now();
        cache.check().is_empty()
    });
    assert!(at_rest, "{:?}", cache.check());
}
