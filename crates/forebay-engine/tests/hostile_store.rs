//! Stores of safe code that behave as badly as they can. Whatever they do, no byte of another file
//! is shown or changed, nothing aborts, and each harm is reported.

#![forbid(unsafe_code)]

use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_engine::incident::{Happening, Refusal};
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, AttachedStore, Cache, Counter, File, Mark, Settings, SyncError};
use forebay_rt::block_on;
use forebay_store::{
    Durability, Ending, Failure, Geometry, Hedge, Intercept, Io, IoKind, MemoryStore, ObjectId,
    Store,
};
use std::sync::Arc;

const PAGE: usize = 4096;
const VICTIM: ObjectId = ObjectId(1);
const BAD: ObjectId = ObjectId(2);
/// More than the cache holds, so that each frame has had its bytes.
const VICTIM_BYTES: usize = 12 << 20;
const BAD_BYTES: usize = 64 * PAGE;
const OF_VICTIM: u8 = 0xA5;
const OF_BAD: u8 = 0x11;
static NEW: [u8; 8 * PAGE] = [0x22; 8 * PAGE];

/// What is done with the requests of the bad file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    Good,
    /// Done, and no byte was filled.
    Empty,
    /// Done, and only the middle of the last page was filled.
    Short,
    Drop,
    PanicBefore,
    PanicAfter,
    /// Kept until the test releases it.
    Keep,
    /// Finished by a destructor, on another thread.
    Destructor,
    /// Two attempts; the second answers, and the first later and with other bytes.
    Hedge,
    /// Its end is kept by a wrapper, and passed on by another thread.
    KeepEnd,
    /// A wrapper panics when it ends.
    PanicAtEnd,
    /// One half is done, and the other is dropped.
    Half,
    /// Two copies of a write; the first is done, and the second kept until the test releases it.
    Mirror,
    /// Two copies of a write; one is done, and the other is dropped.
    HalfMirror,
}

struct Hostile {
    memory: Arc<MemoryStore>,
    durability: Durability,
    conduct: Mutex<Conduct>,
    /// The kind of the requests that go wrong.
    kind: Mutex<IoKind>,
    kept: Mutex<Vec<Io>>,
    late: Mutex<Vec<(Hedge, Io)>>,
}

impl Store for Hostile {
    fn geometry(&self) -> Geometry {
        Geometry {
            durability: self.durability,
            // A writer may change a page while it is written.
            stable_pages: false,
            ..self.memory.geometry()
        }
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let is_struck = request.object == BAD && request.kind == *lock(&self.kind);
        let conduct = if is_struck {
            *lock(&self.conduct)
        } else {
            Conduct::Good
        };
        self.behave(conduct, io);
    }
}

impl Hostile {
    fn behave(&self, conduct: Conduct, mut io: Io) {
        match conduct {
            Conduct::Good => self.memory.submit(io),
            Conduct::Empty => io.succeed(),
            Conduct::Short => {
                let last = io.page_count() - 1;
                io.fill_page(last, 100, &[OF_BAD; 50]);
                io.succeed();
            }
            Conduct::PanicBefore => panic!("a store of this test"),
            Conduct::PanicAfter => {
                self.memory.submit(io);
                panic!("a store of this test");
            }
            Conduct::Keep => lock(&self.kept).push(io),
            Conduct::Destructor => {
                let finisher = FinishesWhenDropped(Some(io));
                let other = move || drop(finisher);
                forebay_rt::thread::spawn("finisher", other).expect("a thread starts");
            }
            Conduct::Hedge => {
                let hedge = io.hedge();
                let late = hedge.attempt().expect("nobody has answered");
                let first = hedge.attempt().expect("nobody has answered");
                self.memory.submit(first);
                lock(&self.late).push((hedge, late));
            }
            Conduct::KeepEnd => {
                io.intercept(Arc::new(KeepsEnd));
                self.memory.submit(io);
            }
            Conduct::PanicAtEnd => {
                io.intercept(Arc::new(Panics));
                self.memory.submit(io);
            }
            Conduct::Half if io.page_count() > 1 => {
                let (half, rest) = io.split(1);
                drop(rest);
                self.memory.submit(half);
            }
            Conduct::Mirror => {
                let (one, other) = io.mirror();
                self.memory.submit(one);
                lock(&self.kept).push(other);
            }
            Conduct::HalfMirror => {
                let (one, other) = io.mirror();
                self.memory.submit(one);
                drop(other);
            }
            Conduct::Half | Conduct::Drop => drop(io),
        }
    }
}

struct FinishesWhenDropped(Option<Io>);

impl Drop for FinishesWhenDropped {
    fn drop(&mut self) {
        if let Some(io) = self.0.take() {
            io.succeed();
        }
    }
}

struct KeepsEnd;

impl Intercept for KeepsEnd {
    fn ended(&self, ending: Ending) {
        let other = move || ending.pass();
        forebay_rt::thread::spawn("passer", other).expect("a thread starts");
    }
}

struct Panics;

impl Intercept for Panics {
    fn ended(&self, _ending: Ending) {
        panic!("a wrapper of this test");
    }
}

struct Bench {
    cache: Cache,
    attached: AttachedStore,
    store: Arc<Hostile>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Durability::OnFinish)
    }

    /// A cache whose frames all hold bytes of the victim.
    fn with(durability: Durability) -> Bench {
        let memory = Arc::new(MemoryStore::new());
        memory.fill(VICTIM, &vec![OF_VICTIM; VICTIM_BYTES]);
        memory.fill(BAD, &vec![OF_BAD; BAD_BYTES]);
        let store = Arc::new(Hostile {
            memory,
            durability,
            conduct: Mutex::new(Conduct::Good),
            kind: Mutex::new(IoKind::Read),
            kept: Mutex::default(),
            late: Mutex::default(),
        });
        let settings = Settings {
            answer_timeout: Span::from_millis(300),
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        let attached = cache.attach(store.clone()).expect("it is attached");
        let bench = Bench {
            cache,
            attached,
            store,
        };
        bench.victim_is_whole();
        bench
    }

    fn conduct(&self, kind: IoKind, conduct: Conduct) {
        *lock(&self.store.kind) = kind;
        *lock(&self.store.conduct) = conduct;
    }

    fn bad(&self) -> File {
        let opened = self.cache.open(&self.attached, BAD, BAD_BYTES as u64);
        opened.expect("it is opened")
    }

    /// Reads the victim, which brings its bytes into every frame, and compares it.
    fn victim_is_whole(&self) {
        let opened = self.cache.open(&self.attached, VICTIM, VICTIM_BYTES as u64);
        let victim = opened.expect("it is opened");
        let mut bytes = vec![0; 1 << 20];
        for offset in (0..VICTIM_BYTES).step_by(bytes.len()) {
            let read = block_on(victim.read_at(&mut bytes, offset as u64));
            assert_eq!(read, Ok(bytes.len()));
            assert!(bytes.iter().all(|&byte| byte == OF_VICTIM), "at {offset}");
        }
        let stored = self.store.memory.snapshot(VICTIM);
        assert!(stored.iter().all(|&byte| byte == OF_VICTIM));
    }

    /// What the cache has noted of requests that failed in this way.
    fn refusals(&self, failure: Failure) -> Vec<Refusal> {
        let all = self.cache.incidents(None).into_iter();
        all.filter_map(|incident| match incident.what {
            Happening::Failed(refusal) if refusal.failure == failure => Some(refusal),
            _ => None,
        })
        .collect()
    }
}

fn read(file: &File) -> Result<Vec<u8>, AccessError> {
    let mut bytes = vec![0xFF; BAD_BYTES];
    let count = block_on(file.read_at(&mut bytes, 0))?;
    assert_eq!(count, BAD_BYTES);
    Ok(bytes)
}

#[test]
fn a_read_shows_bytes_of_its_own_file_or_zeros() {
    for conduct in [
        Conduct::Good,
        Conduct::Empty,
        Conduct::Short,
        Conduct::Destructor,
        Conduct::Hedge,
        Conduct::KeepEnd,
        Conduct::PanicAfter,
    ] {
        let bench = Bench::new();
        bench.conduct(IoKind::Read, conduct);
        let bytes = read(&bench.bad()).expect("the store says that it is done");
        let is_own = |byte: &u8| [0, OF_BAD].contains(byte);
        assert!(bytes.iter().all(is_own), "{conduct:?}");
        let panics = bench.cache.times_reached(Mark::StorePanicked);
        assert_eq!(panics > 0, conduct == Conduct::PanicAfter, "{conduct:?}");
        bench.victim_is_whole();
        assert_eq!(bench.cache.check(), [""; 0]);
    }
}

#[test]
fn a_read_that_its_store_gives_up_fails_and_is_reported() {
    for (conduct, failure) in [
        (Conduct::Drop, Failure::Dropped),
        (Conduct::Half, Failure::Dropped),
        (Conduct::PanicBefore, Failure::Panicked),
        (Conduct::PanicAtEnd, Failure::Panicked),
    ] {
        let bench = Bench::new();
        bench.conduct(IoKind::Read, conduct);
        let bad = bench.bad();
        match read(&bad) {
            Err(AccessError::Store(error)) => assert_eq!(error.failure, failure, "{conduct:?}"),
            other => panic!("{conduct:?}: {other:?}"),
        }
        let refusals = bench.refusals(failure);
        assert!(
            refusals.iter().any(|it| it.kind == IoKind::Read),
            "{conduct:?}"
        );
        assert!(
            bench.cache.times_reached(Mark::StoreDropped) > 0,
            "{conduct:?}"
        );
        bench.conduct(IoKind::Read, Conduct::Good);
        assert!(read(&bad).expect("the store is good again") == vec![OF_BAD; BAD_BYTES]);
        bench.victim_is_whole();
        assert_eq!(bench.cache.check(), [""; 0]);
    }
}

#[test]
fn a_late_answer_changes_no_page_of_others() {
    let bench = Bench::new();
    bench.conduct(IoKind::Read, Conduct::Keep);
    let bad = bench.bad();
    let first = read(&bad);
    assert!(
        matches!(first, Err(AccessError::NotAnswering { .. })),
        "{first:?}"
    );
    assert!(
        bench.cache.statistics().get(Counter::WaitsOverdue) > 0,
        "it is reported"
    );
    bench.victim_is_whole();
    // They are answered at last, some of them by nobody.
    let kept = std::mem::take(&mut *lock(&bench.store.kept));
    for (number, mut io) in kept.into_iter().enumerate() {
        if number % 2 == 0 {
            io.fill_page(0, 0, &[OF_BAD; PAGE]);
            io.succeed();
        }
    }
    bench.conduct(IoKind::Read, Conduct::Good);
    bench.victim_is_whole();
    let bytes = read(&bad).expect("the store is good again");
    assert!(bytes.iter().all(|byte| [0, OF_BAD].contains(byte)));
    assert_eq!(bench.cache.check(), [""; 0]);
}

#[test]
fn the_loser_of_a_hedged_read_writes_into_no_page_of_a_guard() {
    let bench = Bench::new();
    bench.conduct(IoKind::Read, Conduct::Hedge);
    let bad = bench.bad();
    let guard = block_on(bad.page(0)).expect("the page is read");
    bench.victim_is_whole();
    let before = guard.to_vec();
    for (hedge, mut late) in std::mem::take(&mut *lock(&bench.store.late)) {
        for page in 0..late.page_count() {
            late.fill_page(page, 0, &[0x66; PAGE]);
        }
        late.succeed();
        assert!(hedge.attempt().is_none(), "the read has ended");
    }
    assert_eq!(before, [OF_BAD; PAGE]);
    assert_eq!(guard.to_vec(), before);
    drop(guard);
    bench.victim_is_whole();
}

#[test]
fn bytes_of_a_write_or_commit_that_its_store_gives_up_are_kept_and_written_later() {
    for (kind, conduct, failure) in [
        (IoKind::Write, Conduct::Drop, Failure::Dropped),
        (IoKind::Write, Conduct::Half, Failure::Dropped),
        (IoKind::Write, Conduct::HalfMirror, Failure::Dropped),
        (IoKind::Write, Conduct::PanicBefore, Failure::Panicked),
        (IoKind::Write, Conduct::PanicAtEnd, Failure::Panicked),
        (IoKind::Commit, Conduct::Drop, Failure::Dropped),
        (IoKind::Commit, Conduct::PanicBefore, Failure::Panicked),
        (IoKind::Commit, Conduct::PanicAtEnd, Failure::Panicked),
    ] {
        let context = format!("{kind:?}, {conduct:?}");
        let durability = if kind == IoKind::Commit {
            Durability::Unstable
        } else {
            Durability::OnFinish
        };
        let bench = Bench::with(durability);
        bench.conduct(kind, conduct);
        let bad = bench.bad();
        block_on(bad.write_at(&NEW, 0)).expect("there is memory");
        match block_on(bad.sync()) {
            Err(SyncError::Store(error)) => assert_eq!(error.failure, failure, "{context}"),
            other => panic!("{context}: {other:?}"),
        }
        let refusals = bench.refusals(failure);
        assert!(refusals.iter().any(|it| it.kind == kind), "{context}");
        if kind == IoKind::Commit {
            // A store that is unstable may have forgotten what it did not commit.
            bench.store.memory.fill(BAD, &vec![OF_BAD; BAD_BYTES]);
        }
        bench.conduct(kind, Conduct::Good);
        // A try that began before may still fail, and is reported.
        let is_synced = (0..100).any(|_| block_on(bad.sync()).is_ok());
        assert!(is_synced, "the store is good again");
        let stored = bench.store.memory.snapshot(BAD);
        assert!(stored[..8 * PAGE] == NEW, "{context}");
        assert!(stored[8 * PAGE..].iter().all(|&byte| byte == OF_BAD));
        bench.victim_is_whole();
        assert_eq!(bench.cache.check(), [""; 0]);
    }
}

/// A late copy of a write reads its pages for as long as it likes: they are given to no other file,
/// and what a writer changes meanwhile is written once more.
#[test]
fn the_late_copy_of_a_mirrored_write_reads_its_own_pages_alone() {
    let bench = Bench::new();
    let replica = MemoryStore::new();
    bench.conduct(IoKind::Write, Conduct::Mirror);
    let bad = bench.bad();
    block_on(bad.write_at(&NEW, 0)).expect("there is memory");
    let first = block_on(bad.sync());
    assert!(
        matches!(first, Err(SyncError::NotAnswering { .. })),
        "{first:?}"
    );
    assert!(bench.store.memory.snapshot(BAD)[..8 * PAGE] == NEW);
    // Every frame that can be had gets bytes of the victim, and a writer changes the first page.
    bench.victim_is_whole();
    let changed = [0x33; 100];
    block_on(bad.write_at(&changed, 0)).expect("the page may change");
    let pages_of = |io: &Io| io.request().length_bytes / PAGE as u64;
    let late = std::mem::take(&mut *lock(&bench.store.kept));
    assert_eq!(late.iter().map(pages_of).sum::<u64>(), 8);
    bench.conduct(IoKind::Write, Conduct::Good);
    for copy in late {
        replica.submit(copy);
    }
    let copied = replica.snapshot(BAD);
    let is_own = |byte: &u8| [0x22, 0x33].contains(byte);
    assert!(copied.iter().all(is_own), "bytes of another file");
    let is_synced = (0..100).any(|_| block_on(bad.sync()).is_ok());
    assert!(is_synced, "the store is good again");
    assert_eq!(bench.store.memory.snapshot(BAD)[..100], changed);
    bench.victim_is_whole();
    assert_eq!(bench.cache.check(), [""; 0]);
}

#[test]
fn what_ends_on_another_thread_or_before_a_panic_is_written() {
    for conduct in [Conduct::KeepEnd, Conduct::PanicAfter] {
        let bench = Bench::new();
        bench.conduct(IoKind::Write, conduct);
        let bad = bench.bad();
        block_on(bad.write_at(&NEW, 0)).expect("there is memory");
        block_on(bad.sync()).expect("the store has written it");
        assert!(bench.store.memory.snapshot(BAD)[..8 * PAGE] == NEW);
        bench.victim_is_whole();
        assert_eq!(bench.cache.check(), [""; 0]);
    }
}

#[test]
fn a_cut_that_its_store_gives_up_fails_and_is_reported() {
    for (conduct, failure) in [
        (Conduct::Drop, Failure::Dropped),
        (Conduct::PanicBefore, Failure::Panicked),
    ] {
        let bench = Bench::new();
        bench.conduct(IoKind::SetLength, conduct);
        let bad = bench.bad();
        match block_on(bad.truncate(PAGE as u64)) {
            Err(AccessError::Store(error)) => assert_eq!(error.failure, failure, "{conduct:?}"),
            other => panic!("{conduct:?}: {other:?}"),
        }
        let refusals = bench.refusals(failure);
        assert!(
            refusals.iter().any(|it| it.kind == IoKind::SetLength),
            "{conduct:?}"
        );
        bench.victim_is_whole();
    }
}
