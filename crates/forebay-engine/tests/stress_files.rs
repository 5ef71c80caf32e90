//! Threads of the system on one small cache, whose budget changes meanwhile, in front of real files
//! whose requests fail, are torn or are late now and then: with io_uring if the system allows it,
//! and with positioned calls.
//!
//! A call that meets a failure is made again, as a program would. The test looks into the file
//! itself for what each successful sync promised.

mod support;

use forebay_base::{Prng, Span};
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, Cache, Counter, Settings, SyncError, blocking};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{
    Failure, Fault, FaultAction, FaultStore, FaultWhen, FileStore, FileStoreSettings, IoKind,
    Method, OpenMode,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::PAGE;
use support::versions::{Versions, stamped, version_of, version_of_word, words};

/// Twice the memory.
const PAGES: u64 = 1_024;
/// Half of them fit.
const BUDGET_BYTES: u64 = PAGES * PAGE as u64 / 2;
const WRITERS: u64 = 2;
const OPERATIONS: u64 = 12_000;
const SYNCS: u64 = 100;
/// How often the budget changes.
const BUDGETS: u64 = 40;
const BROKEN: Failure = Failure::Device(5);

/// What goes wrong: one request in this many, and the first commit.
fn faults() -> Vec<Fault> {
    let torn = FaultAction::Torn {
        pages: 1,
        failure: BROKEN,
    };
    let list = [
        (IoKind::Read, 50, FaultAction::Fail(BROKEN)),
        (IoKind::Read, 30, FaultAction::Delay(Span::from_millis(2))),
        (IoKind::Write, 400, FaultAction::Fail(Failure::NoSpace)),
        (IoKind::Write, 400, torn),
        (IoKind::Write, 20, FaultAction::Delay(Span::from_millis(2))),
        (IoKind::Commit, 6, FaultAction::Fail(BROKEN)),
    ];
    let by_chance = list.into_iter().map(|(kind, one_in, action)| Fault {
        when: FaultWhen::Chance {
            numerator: 1,
            denominator: one_in,
        },
        ..Fault::each(kind, action)
    });
    let first_commit = Fault {
        when: FaultWhen::First(1),
        ..Fault::each(IoKind::Commit, FaultAction::Fail(BROKEN))
    };
    std::iter::once(first_commit).chain(by_chance).collect()
}

#[derive(Clone)]
struct Shared {
    file: blocking::File,
    versions: Arc<Versions>,
    path: PathBuf,
}

impl Shared {
    /// The result of a call that is repeated until it meets no injected failure.
    fn surely<T>(&self, call: impl Fn(&blocking::File) -> Result<T, AccessError>) -> T {
        loop {
            match call(&self.file) {
                Ok(done) => return done,
                Err(AccessError::Store(_)) => {}
                Err(AccessError::TooManyFailed { .. }) => {
                    let _: bool = self.syncs();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Syncs, and returns whether everything is durable now.
    fn syncs(&self) -> bool {
        match self.file.sync() {
            Ok(()) => true,
            Err(SyncError::Store(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn write(&self, writer: u64) {
        let mut chance = Prng::from_seed(writer);
        for _ in 0..OPERATIONS {
            let page = chance.below(PAGES / WRITERS) * WRITERS + writer;
            let version = self.versions.begin(page);
            let bytes = stamped(page, version);
            self.surely(|file| file.write_at(&bytes, page * PAGE as u64));
            self.versions.note_returned(page, version);
        }
    }

    fn read(&self, seed: u64) {
        let mut chance = Prng::from_seed(seed);
        for _ in 0..OPERATIONS {
            let page = chance.below(PAGES);
            let least = self.versions.returned(page);
            let version = self.surely(|file| {
                let guard = file.page(page)?;
                Ok(version_of(page, &guard))
            });
            let most = self.versions.begun(page);
            assert!((least..=most).contains(&version), "page {page} is stale");
        }
    }

    /// Syncs again and again, and looks into the file. Returns how often everything was durable.
    fn sync(&self) -> u64 {
        let mut durable = 0;
        for _ in 0..SYNCS {
            let least: Vec<u64> = (0..PAGES)
                .map(|page| self.versions.returned(page))
                .collect();
            if self.syncs() {
                durable += 1;
                self.assert_stored(&least);
            }
        }
        durable
    }

    /// The file has at least these versions. A write may be under way, so each word is checked by
    /// itself.
    fn assert_stored(&self, least: &[u64]) {
        let stored = std::fs::read(&self.path).expect("the file is there");
        assert_eq!(stored.len(), PAGES as usize * PAGE);
        for (page, (bytes, &least)) in (0..).zip(stored.chunks(PAGE).zip(least)) {
            for word in words(bytes) {
                let version = version_of_word(page, word);
                assert!(version >= least, "page {page} was not synced");
                assert!(version <= self.versions.begun(page), "page {page}");
            }
        }
    }
}

#[test]
fn what_is_promised_holds_on_files_that_fail() {
    run(Method::Positioned);
}

#[test]
fn what_is_promised_holds_on_a_ring_that_fails() {
    run(Method::Auto);
}

fn run(method: Method) {
    let folder = tempfile::tempdir().expect("a folder is made");
    let path = folder.path().join("steady");
    let cache = Cache::new(Settings {
        memory_bytes: BUDGET_BYTES,
        prefault: false,
        writeback_interval: Span::from_millis(20),
        dirty_expire: Span::from_millis(20),
        // A disk that other processes keep busy is slow, not broken.
        answer_timeout: Span::from_secs(600),
        ..Settings::default()
    });
    let cache = cache.expect("the settings are good");
    let (disk, file) = open(&cache, method, &path);
    let shared = Shared {
        file: file.blocking(),
        versions: Arc::new(Versions::new(PAGES)),
        path,
    };
    for fault in faults() {
        disk.inject(fault);
    }
    run_threads(&shared, &cache);
    let given_up = cache.statistics().get(Counter::BalloonInflate);
    assert!(given_up > 0, "the budget was never smaller");
    for kind in [IoKind::Read, IoKind::Write, IoKind::Commit] {
        assert!(disk.injected(kind) > 0, "no {kind:?} failed");
    }
    disk.clear();
    // It reports what failed last, once more; then all is well.
    shared.syncs();
    assert!(shared.syncs(), "the store is well");
    let last: Vec<u64> = (0..PAGES).map(|page| shared.versions.begun(page)).collect();
    shared.assert_stored(&last);
    assert_eq!(file.failed_pages(), 0);
    assert_eq!(block_on(cache.close()), Ok(()));
    let at_rest = (0..1_000).any(|_| {
        // The daemons end on their own threads.
        std::thread::yield_now();
        cache.check().is_empty()
    });
    assert!(at_rest, "{:?}", cache.check());
}

/// A file of zeros behind a store that can be made to fail.
fn open(cache: &Cache, method: Method, path: &Path) -> (Arc<FaultStore>, forebay_engine::File) {
    let settings = FileStoreSettings {
        method,
        ..FileStoreSettings::default()
    };
    let files = FileStore::new(settings).expect("a store starts");
    if let Some(refusal) = files.uring_refusal() {
        println!("without io_uring: {refusal}");
    }
    let mode = OpenMode::Create {
        length_bytes: Some(PAGES * PAGE as u64),
    };
    let opened = files.open(path, mode).expect("the file is made");
    let disk = Arc::new(FaultStore::new(Rt::real(), files));
    let attached = cache.attach(disk.clone()).expect("a store is attached");
    let file = cache.open(&attached, opened.object, opened.length_bytes);
    (disk, file.expect("the object opens"))
}

fn run_threads(shared: &Shared, cache: &Cache) {
    let mut threads = Vec::new();
    let mut start = |act: Box<dyn FnOnce(Shared) + Send>| {
        let shared = shared.clone();
        let thread = thread::spawn("stress", move || act(shared));
        threads.push(thread.expect("a thread starts"));
    };
    for number in 0..WRITERS {
        start(Box::new(move |shared| shared.write(number)));
        start(Box::new(move |shared| shared.read(100 + number)));
    }
    start(Box::new(|shared| {
        assert!(shared.sync() > 0, "no sync was without an error");
    }));
    let cache = cache.clone();
    start(Box::new(move |_| change_memory(&cache)));
    threads.into_iter().for_each(thread::Joiner::join);
}

/// Makes the budget smaller and larger again, and full at the end.
fn change_memory(cache: &Cache) {
    // The files' own memory comes on top of the budget until it is worth a step of the pages.
    let full = cache.statistics().memory_bytes.min(BUDGET_BYTES);
    let mut chance = Prng::from_seed(7);
    for turn in 0..BUDGETS {
        let smaller = full * (5 + chance.below(5)) / 10;
        let memory_bytes = if turn % 2 == 0 { smaller } else { full };
        block_on(cache.set_memory(memory_bytes)).expect("the budget is large enough");
    }
}
