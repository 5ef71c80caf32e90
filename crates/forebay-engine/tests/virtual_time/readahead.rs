//! What is read from a file together with the requested page.

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, simulate};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::{Advice, File, Settings};
use forebay_store::{
    CountStore, Counts, Failure, Fault, FaultAction, FaultStore, FaultWhen, Geometry, Io, IoKind,
    Store,
};
use std::ops::Range;
use std::sync::Arc;

const FILE_PAGES: u64 = 100_000;

/// A file of zeros, and the store that counts the requests for it.
fn counted(rt: forebay_rt::Rt, readahead_pages: u64) -> (Bench, Arc<CountStore>, File) {
    let settings = Settings {
        readahead_pages,
        ..Settings::of_mib(128)
    };
    let counts = Arc::new(CountStore::new(rt.clone(), Arc::new(Void)));
    let bench = Bench::with(rt, settings, |_, _| counts.clone());
    let file = bench.open(FILE_PAGES * PAGE as u64);
    (bench, counts, file)
}

async fn read(file: &File, pages: Range<u64>) {
    let mut buffer = vec![1; (pages.end - pages.start) as usize * PAGE];
    let read = file.read_at(&mut buffer, pages.start * PAGE as u64).await;
    assert_eq!(read, Ok(buffer.len()));
    assert!(buffer.iter().all(|&byte| byte == 0));
}

/// Requests and pages that reading `pages` with one call took.
fn reads_for(readahead_pages: u64, pages: Range<u64>) -> Counts {
    let mut seen = Counts::default();
    simulate(1, |rt| async {
        let (bench, counts, file) = counted(rt, readahead_pages);
        read(&file, pages).await;
        bench.assert_consistent();
        seen = counts.counts(IoKind::Read);
    });
    seen
}

/// Spec/writeback.md 9: the longest window is the size of the request, as far as the store takes
/// it.
#[test]
fn one_large_read_is_made_of_requests_as_long_as_the_store_takes() {
    let at_once = u64::from(Void.geometry().max_io_pages);
    let of_pages = |pages: u64| {
        let counts = reads_for(32, 5_000..5_000 + pages);
        (counts.requests, counts.pages)
    };
    assert_eq!(of_pages(32), (1, 32));
    assert_eq!(of_pages(40), (1, 40));
    // The marker in the last window asked for another one.
    assert_eq!(of_pages(4 * at_once), (5, 5 * at_once));
}

#[test]
fn switched_off_it_reads_what_is_missing_page_by_page() {
    let counts = reads_for(0, 5_000..5_100);
    assert_eq!((counts.requests, counts.pages), (100, 100));
}

/// A store that notes whether somebody waits for each of its reads.
#[derive(Default)]
struct Awaited(Mutex<Vec<bool>>);

impl Store for Awaited {
    fn geometry(&self) -> Geometry {
        Void.geometry()
    }

    fn submit(&self, io: Io) {
        lock(&self.0).push(io.is_awaited());
        Void.submit(io);
    }
}

/// A store may let a thread that waits for its own request take the answer itself. Nobody would
/// take that of a request which nobody waits for.
#[test]
fn only_reads_with_the_page_that_the_caller_needs_are_awaited() {
    simulate(1, |rt| async {
        let store = Arc::new(Awaited::default());
        let bench = Bench::with(rt, Settings::of_mib(8), |_, _| store.clone());
        let file = bench.open(FILE_PAGES * PAGE as u64);
        let seen = || std::mem::take(&mut *lock(&store.0));
        read(&file, 5_000..5_001).await;
        assert_eq!(seen(), [true]);
        let later = 6_000 * PAGE as u64..6_008 * PAGE as u64;
        let advised = file.advise(Advice::WillNeed, later).await;
        advised.expect("it is advice");
        assert_eq!(seen(), [false]);
    });
}

/// A place that cannot be read costs a stream three quarters of its window, and not all of it.
#[test]
fn a_read_that_failed_makes_the_window_a_quarter() {
    simulate(1, |rt| async {
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(Void)));
        let counts = Arc::new(CountStore::new(rt.clone(), faults.clone()));
        let settings = Settings {
            readahead_pages: 32,
            ..Settings::of_mib(8)
        };
        let bench = Bench::with(rt, settings, |_, _| counts.clone());
        let file = bench.open(FILE_PAGES * PAGE as u64);
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..Fault::each(IoKind::Read, FaultAction::Fail(Failure::Device(5)))
        });
        read(&file, 5_000..5_001).await;
        let before = counts.counts(IoKind::Read);
        for page in 5_001..5_401 {
            read(&file, page..page + 1).await;
        }
        let after = counts.counts(IoKind::Read);
        let (requests, pages) = (after.requests - before.requests, after.pages - before.pages);
        assert!(
            (4..=8).contains(&(pages / requests)),
            "{pages} in {requests}"
        );
        bench.assert_consistent();
    });
}
