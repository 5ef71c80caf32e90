//! Sequential readers: how busy their store is, and how far it reads ahead of them.

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, simulate};
use forebay_base::{Instant, Span};
use forebay_engine::{File, Settings};
use forebay_kernels::Policy;
use forebay_rt::Rt;
use forebay_store::{CountStore, DelayStore, Delays, IoKind, ObjectId, Rate, RateStore, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FILE_PAGES: u64 = 10_000_000;
const PAGES_PER_S: u64 = 25_600;

/// How a reader goes on.
#[derive(Clone, Copy)]
struct Pace {
    block_pages: u64,
    /// What it does between two calls takes so long.
    think: Span,
}

impl Pace {
    /// Blocks of 64 KiB, one after the other.
    const SMALL: Pace = Pace {
        block_pages: 16,
        think: Span::ZERO,
    };
}

/// A store that delivers 100 MiB a second after a delay of `away`.
fn far(rt: &Rt, away: Span) -> Arc<CountStore> {
    let delays = Delays {
        read: away,
        ..Delays::default()
    };
    let link: Arc<dyn Store> = Arc::new(DelayStore::new(rt.clone(), Arc::new(Void), delays));
    let rate = Rate::bytes(PAGES_PER_S * PAGE as u64);
    let disk = Arc::new(RateStore::new(rt.clone(), link, rate));
    Arc::new(CountStore::new(rt.clone(), disk))
}

/// A cache of 128 MiB in front of `store`.
fn before(rt: Rt, store: &Arc<CountStore>, policy: &str) -> Bench {
    let settings = Settings {
        ..Settings::of_mib(128)
    }
    .under(Policy::preset(policy).expect("the policy exists"));
    Bench::with(rt, settings, |_, _| store.clone())
}

/// Reads blocks in order from page `first` until the instant `until`; returns how many pages.
async fn read_until(file: &File, rt: &Rt, first: u64, until: Instant, pace: Pace) -> u64 {
    let Pace { block_pages, think } = pace;
    let mut buffer = vec![0; block_pages as usize * PAGE];
    let mut pages = 0;
    while rt.now() < until {
        let offset = (first + pages) * PAGE as u64;
        let read = file.read_at(&mut buffer, offset).await;
        assert_eq!(read, Ok(buffer.len()));
        pages += block_pages;
        if think > Span::ZERO {
            rt.sleep(think).await;
        }
    }
    pages
}

/// How many pages a sequential reader got in a second after the first two, and how many more than
/// it wanted were requested from the store by then.
fn steady(away: Span, policy: &str, pace: Pace) -> (u64, u64) {
    let mut seen = (0, 0);
    let result = &mut seen;
    simulate(1, |rt| async move {
        let store = far(&rt, away);
        let bench = before(rt.clone(), &store, policy);
        let file = bench.open(FILE_PAGES * PAGE as u64);
        let first = read_until(&file, &rt, 0, rt.now() + Span::from_secs(2), pace).await;
        let later = rt.now() + Span::from_secs(4);
        let pages = read_until(&file, &rt, first, later, pace).await;
        let asked = store.counts(IoKind::Read).pages;
        *result = (pages / 4, asked - first - pages);
        // What was read ahead comes in.
        rt.sleep(Span::from_secs(1)).await;
        bench.assert_consistent();
    });
    seen
}

/// Spec/writeback.md 9; the law `reach`.
#[test]
fn a_store_that_is_far_away_is_busy_while_its_reader_waits() {
    for away_ms in [1, 20, 100] {
        let away = Span::from_millis(away_ms);
        let (rate, ahead) = steady(away, "forebay", Pace::SMALL);
        assert!(
            rate >= PAGES_PER_S * 9 / 10,
            "{rate} pages/s at {away_ms} ms"
        );
        // What is on its way, what is ready for the reader, and two requests.
        let need = PAGES_PER_S * away_ms / 1_000;
        let allowed = 5 * need / 2 + 4 * u64::from(Void.geometry().max_io_pages);
        assert!(ahead <= allowed, "{ahead} of {allowed} at {away_ms} ms");
    }
}

/// A window that begins inside a call is on its way when the call comes to its first page. That
/// page is not lost, and the reach stays what the store needs.
#[test]
fn calls_longer_than_a_window_keep_it_as_busy_as_short_ones() {
    for block_pages in [64, 256, 1_024] {
        let pace = Pace {
            block_pages,
            ..Pace::SMALL
        };
        for away_ms in [1, 20] {
            let (rate, _) = steady(Span::from_millis(away_ms), "forebay", pace);
            assert!(
                rate >= PAGES_PER_S * 9 / 10,
                "{rate} pages/s at {away_ms} ms by {block_pages} pages"
            );
        }
    }
}

#[test]
fn a_fixed_window_leaves_it_idle() {
    let (rate, _) = steady(Span::from_millis(20), "linux-6.16", Pace::SMALL);
    assert!(rate < PAGES_PER_S / 4, "{rate} pages/s");
}

#[test]
fn a_reader_that_does_not_wait_gets_no_longer_windows() {
    // 16 pages in 20 ms are a thirty-second of the rate: the usual window is enough.
    let pace = Pace {
        think: Span::from_millis(20),
        ..Pace::SMALL
    };
    let (rate, ahead) = steady(Span::from_millis(5), "forebay", pace);
    assert!(rate > 700, "{rate} pages/s");
    assert!(ahead <= 128, "{ahead} pages ahead");
}

/// What is read past the end of a call is a guess, and a reader of large parts at random places
/// proves it wrong each time.
#[test]
fn large_reads_at_random_read_no_more_than_with_a_fixed_window() {
    const CALL_PAGES: u64 = 4_096;
    let asked = |policy| {
        let mut seen = 0;
        let result = &mut seen;
        simulate(1, |rt| async move {
            let store = far(&rt, Span::from_millis(20));
            let bench = before(rt.clone(), &store, policy);
            let file = bench.open(FILE_PAGES * PAGE as u64);
            let mut buffer = vec![0; CALL_PAGES as usize * PAGE];
            for call in [90, 7, 55, 31, 72, 18, 64, 40] {
                let read = file
                    .read_at(&mut buffer, call * 100_000 * PAGE as u64)
                    .await;
                assert_eq!(read, Ok(buffer.len()));
            }
            rt.sleep(Span::from_secs(1)).await;
            *result = store.counts(IoKind::Read).pages;
        });
        seen
    };
    assert_eq!(asked("forebay"), asked("linux-6.16"));
}

#[test]
fn hundreds_of_streams_share_the_memory() {
    simulate(1, |rt| async move {
        let store = far(&rt, Span::from_millis(100));
        let bench = before(rt.clone(), &store, "forebay");
        let until = rt.now() + Span::from_secs(10);
        let pages: Vec<_> = (0..300).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let readers: Vec<_> = pages
            .iter()
            .zip(10..)
            .map(|(pages, number)| {
                let object = ObjectId(number);
                let file = bench.open_object(object, FILE_PAGES * PAGE as u64);
                let (rt, pages) = (rt.clone(), pages.clone());
                bench.rt.spawn("reader", async move {
                    let read = read_until(&file, &rt, 0, until, Pace::SMALL).await;
                    pages.store(read, Ordering::Relaxed);
                })
            })
            .collect();
        for reader in readers {
            reader.join().await;
        }
        let pages: Vec<u64> = pages
            .iter()
            .map(|pages| pages.load(Ordering::Relaxed))
            .collect();
        let all: u64 = pages.iter().sum();
        let asked = store.counts(IoKind::Read).pages;
        // Nearly everything that was read was used, the store was busy, and no reader was left out.
        assert!(all >= PAGES_PER_S * 10 * 8 / 10, "{all} pages");
        assert!(asked <= all * 5 / 4, "{asked} pages asked for {all}");
        let least = pages.iter().min().expect("there are readers");
        assert!(*least >= all / 300 / 4, "{least} of {all}");
        // What was read ahead comes in.
        rt.sleep(Span::from_secs(1)).await;
        bench.assert_consistent();
    });
}
