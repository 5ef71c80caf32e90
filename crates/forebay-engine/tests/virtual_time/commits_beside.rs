//! Commits of an unstable store that run while it takes writes
//! (docs/decisions/sync-and-commits.md).

use crate::support::void::Void;
use crate::support::writers::Writer;
use crate::support::{Bench, OfSize, PAGE, simulate};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_engine::Settings;
use forebay_rt::Rt;
use forebay_store::{
    CountStore, DelayStore, Delays, Durability, Geometry, Io, IoKind, MemoryStore, Rate, RateStore,
    Store,
};
use std::sync::Arc;

const PAGES_PER_S: u64 = 5_120;
const WRITERS: u64 = 4;
/// Pages of a unit of a store that keeps its bytes in units.
const UNIT_PAGES: u64 = 64;
/// Pages of one call.
const CALL_PAGES: u64 = 16;
/// Each writer goes round in a part of the file of this many pages.
const PART_PAGES: u64 = 4_096;

/// A store whose commits wait for no write, over one whose writes take their time.
struct Beside {
    paced: RateStore,
    commits: DelayStore,
}

impl Store for Beside {
    fn geometry(&self) -> Geometry {
        self.commits.geometry()
    }

    fn submit(&self, io: Io) {
        match io.request().kind {
            IoKind::Commit => self.commits.submit(io),
            _ => self.paced.submit(io),
        }
    }
}

/// A cache of 16 MiB, whose limit is less than a fifth of a second of the store's work, over an
/// unstable store that takes [`PAGES_PER_S`], and `commit` for a commit.
fn far(rt: &Rt, write_unit_pages: u32, commit: Span) -> (Bench, Arc<CountStore>) {
    let memory = Arc::new(MemoryStore::with(Geometry {
        durability: Durability::Unstable,
        write_unit_pages,
        ..MemoryStore::new().geometry()
    }));
    let delays = Delays {
        read: Span::ZERO,
        write: Span::ZERO,
        commit,
    };
    let rate = Rate::bytes(PAGES_PER_S * PAGE as u64);
    let store = Arc::new(Beside {
        paced: RateStore::new(rt.clone(), memory.clone(), rate),
        commits: DelayStore::new(rt.clone(), memory.clone(), delays),
    });
    let counts = Arc::new(CountStore::new(rt.clone(), store));
    let bench = Bench::around(rt.clone(), Settings::of_mib(16), memory, counts.clone());
    (bench, counts)
}

/// Lets [`WRITERS`] write as fast as they may, for 10 s. Returns how long each call took that began
/// after the first 5 s, the shortest first.
async fn calls_of_writers(bench: &Bench) -> Vec<Span> {
    let (from, end) = (
        Instant::ZERO + Span::from_secs(5),
        Instant::ZERO + Span::from_secs(10),
    );
    let calls: Arc<Mutex<Vec<Span>>> = Arc::default();
    let file = bench.open(WRITERS * PART_PAGES * PAGE as u64);
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let (file, clock, calls) = (file.clone(), bench.rt.clone(), calls.clone());
        writers.push(bench.rt.spawn("writer", async move {
            let bytes = vec![number as u8; CALL_PAGES as usize * PAGE];
            let mut page = 0;
            while clock.now() < end {
                let began = clock.now();
                let at = (number * PART_PAGES + page) * PAGE as u64;
                file.write_at(&bytes, at).await.expect("memory takes it");
                page = (page + CALL_PAGES) % PART_PAGES;
                if began >= from {
                    lock(&calls).push(clock.now().since(began));
                }
            }
        }));
    }
    for writer in writers {
        writer.join().await;
    }
    let mut calls = std::mem::take(&mut *lock(&calls));
    calls.sort();
    calls
}

#[test]
fn writers_wait_for_no_whole_turn_of_the_flusher() {
    simulate(1, |rt| async move {
        let (bench, counts) = far(&rt, 1, Span::from_micros(200));
        let calls = calls_of_writers(&bench).await;
        // 16 pages of a quarter of the rate take 12.5 ms. A turn is 1,024 pages at least, and takes
        // 200 ms.
        let at_99_percent = calls[calls.len() * 99 / 100];
        assert!(at_99_percent <= Span::from_millis(20), "{at_99_percent:?}");
        let taken = calls.len() as u64 * CALL_PAGES;
        assert!(taken >= 5 * PAGES_PER_S * 97 / 100, "{taken} pages");
        assert!(counts.counts(IoKind::Commit).requests > 200);
        bench.assert_consistent();
    });
}

/// A device that writes nothing while it flushes would lose the time.
#[test]
fn commits_that_take_long_are_rare() {
    simulate(2, |rt| async move {
        let (bench, counts) = far(&rt, 1, Span::from_millis(20));
        calls_of_writers(&bench).await;
        // In 10 s: one at the end of each turn, and not more than one in nine times 20 ms beside.
        let commits = counts.counts(IoKind::Commit).requests;
        assert!(commits <= 100, "{commits}");
        bench.assert_consistent();
    });
}

#[test]
fn a_commit_covers_some_whole_units_of_the_store() {
    simulate(3, |rt| async move {
        let commit = Span::from_micros(200);
        let (bench, counts) = far(&rt, UNIT_PAGES as u32, commit);
        calls_of_writers(&bench).await;
        let commits = counts.counts(IoKind::Commit).requests;
        let taken = 10 * PAGES_PER_S;
        assert!(commits <= taken / (4 * UNIT_PAGES), "{commits}");
        bench.assert_consistent();
    });
}

/// All of a burst may be under way before its first pages are written: what is left to write is no
/// part of what commits have to free.
#[test]
fn the_first_pages_of_a_burst_are_committed_before_the_last_are_written() {
    simulate(4, |rt| async move {
        let (bench, counts) = far(&rt, 1, Span::from_micros(200));
        let file = bench.open(0);
        let burst = vec![1; 560 * PAGE];
        file.write_at(&burst, 0).await.expect("memory takes it");
        rt.sleep(Span::from_secs(2)).await;
        assert_eq!(bench.cache.statistics().dirty(), 0);
        let commits = counts.counts(IoKind::Commit).requests;
        assert!((2..=4).contains(&commits), "{commits}");
        bench.assert_consistent();
    });
}

/// A store that notes writes at once and has a line behind it: a commit ends once all that was
/// noted before it is through the line, and an answer has come back.
struct Noting {
    rt: Rt,
    free_at: Mutex<Instant>,
}

const LINE_PAGES_PER_S: u64 = 25_600;
const ANSWER: Span = Span::from_millis(25);

impl Store for Noting {
    fn geometry(&self) -> Geometry {
        Geometry {
            durability: Durability::Unstable,
            ..Void.geometry()
        }
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let now = self.rt.now();
        let mut free_at = lock(&self.free_at);
        if request.kind == IoKind::Write {
            let us = request.length_bytes / PAGE as u64 * 1_000_000 / LINE_PAGES_PER_S;
            *free_at = (*free_at).max(now) + Span::from_micros(us);
        }
        if request.kind != IoKind::Commit {
            return Void.submit(io);
        }
        let (rt, end) = (self.rt.clone(), (*free_at).max(now) + ANSWER);
        self.rt.spawn("commit", async move {
            rt.sleep_until(end).await;
            Void.submit(io);
        });
    }
}

/// A turn was noted only once the commit of the one before had ended, so the line stood still for
/// 25 ms after each 40: the writer got 61 % of it.
#[test]
fn a_store_that_only_notes_writes_has_some_while_it_commits() {
    simulate(4, |rt| async move {
        let store = Arc::new(Noting {
            rt: rt.clone(),
            free_at: Mutex::new(Instant::ZERO),
        });
        let bench = Bench::new(rt.clone(), 128, |_, _| store);
        let writer = Writer::start(&rt, bench.open(0), CALL_PAGES, Span::ZERO);
        let written = || bench.cache.statistics().backings[0].written;
        rt.sleep(Span::from_secs(5)).await;
        let before = written();
        rt.sleep(Span::from_secs(5)).await;
        let taken = written() - before;
        writer.end().await;
        bench.cache.sync().await.expect("the store is well");
        // Until the last commit has its answer.
        rt.sleep(Span::from_secs(1)).await;
        assert!(taken >= 5 * LINE_PAGES_PER_S * 9 / 10, "{taken} pages");
    });
}
