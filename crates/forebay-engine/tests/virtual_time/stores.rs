//! Stores beside each other: each keeps its rate whatever happens to the others, and none stands
//! idle while its writers wait (promise 6; docs/decisions/writeback-and-throttling.md).

use forebay_engine::{AttachedStore, Changes, StoreChanges, StoreKey};

use crate::support::void::Void;
use crate::support::writers::{open_for, paced};
use crate::support::{Bench, PAGE, simulate};
use forebay_base::Span;
use forebay_engine::settings::BackingSettings;
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// 200 MB/s.
const PAGES_PER_S: u64 = 48_828;

/// A store of a given rate, with writers of 64 KiB that never stop.
struct Target {
    medium: Arc<RateStore>,
    written: Arc<AtomicU64>,
    tasks: Vec<Task>,
}

impl Target {
    fn new(bench: &Bench, pages_per_s: u64, first: u64, writers: u64) -> Target {
        let rate = Rate::bytes(pages_per_s * PAGE as u64);
        let medium = Arc::new(RateStore::new(bench.rt.clone(), Arc::new(Void), rate));
        let store = bench
            .cache
            .attach_with(medium.clone(), BackingSettings::default())
            .expect("the cache takes a store");
        let written = Arc::new(AtomicU64::new(0));
        let start = |number| {
            let writing = write(bench, &store, ObjectId(number), written.clone());
            bench.rt.spawn("writer", writing)
        };
        Target {
            tasks: (first..first + writers).map(start).collect(),
            medium,
            written,
        }
    }

    /// Pages that its writers have written so far.
    fn pages(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Pages that its writers write in `span` from now.
    async fn pages_in(&self, rt: &Rt, span: Span) -> u64 {
        let before = self.pages();
        rt.sleep(span).await;
        self.pages() - before
    }
}

fn write(
    bench: &Bench,
    store: &AttachedStore,
    object: ObjectId,
    written: Arc<AtomicU64>,
) -> impl Future<Output = ()> + Send + 'static {
    const BLOCK_PAGES: u64 = 16;
    let opened = bench.cache.open(store, object, 0);
    let file = opened.expect("the object opens");
    async move {
        let block = vec![1; BLOCK_PAGES as usize * PAGE];
        let mut at = 0;
        // Ends with the cache, or once its store has been silent for too long.
        while file.write_at(&block, at).await.is_ok() {
            at += block.len() as u64;
            written.fetch_add(BLOCK_PAGES, Ordering::Relaxed);
        }
    }
}

#[test]
fn of_two_stores_one_stops_and_the_other_keeps_its_rate() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt.clone(), 256);
        let stops = Target::new(&bench, PAGES_PER_S, 0, 1);
        let steady = Target::new(&bench, PAGES_PER_S, 100, 1);
        rt.sleep(Span::from_secs(5)).await;
        stops.medium.set_rate(Rate::bytes(0));
        let kept = steady.pages_in(&rt, Span::from_secs(10)).await;
        assert!(kept >= 9 * PAGES_PER_S, "{kept} pages in 10 s");
    });
}

#[test]
fn a_fast_store_that_starts_beside_a_slow_one_has_its_rate_at_once() {
    simulate(3, |rt| async move {
        let bench = Bench::plain(rt.clone(), 256);
        let slow = Target::new(&bench, 1_221, 0, 4);
        rt.sleep(Span::from_secs(5)).await;
        let fast = Target::new(&bench, PAGES_PER_S, 100, 1);
        rt.sleep(Span::from_secs(1)).await;
        let before = slow.pages();
        let kept = fast.pages_in(&rt, Span::from_secs(4)).await;
        assert!(kept * 100 >= 4 * 95 * PAGES_PER_S, "{kept} pages in 4 s");
        // It is slowed and not stopped, because it has more than its part now.
        assert!(slow.pages() > before);
    });
}

/// The rate of a store is known at once, although the writers of another store came first and use
/// up the limit.
#[test]
fn one_writer_beside_sixteen_on_an_equal_store_has_its_rate_at_once() {
    for seconds_late in [0, 1, 5] {
        simulate(5, move |rt| async move {
            let bench = Bench::plain(rt.clone(), 256);
            let many = Target::new(&bench, PAGES_PER_S, 0, 16);
            rt.sleep(Span::from_secs(seconds_late)).await;
            let one = Target::new(&bench, PAGES_PER_S, 100, 1);
            rt.sleep(Span::from_secs(1)).await;
            let before = many.pages();
            for second in 1..10 {
                let kept = one.pages_in(&rt, Span::from_secs(1)).await;
                let least = PAGES_PER_S * 95 / 100;
                assert!(
                    kept >= least,
                    "{kept} pages in second {second}, {seconds_late} s late"
                );
            }
            let kept = many.pages() - before;
            assert!(kept >= 9 * PAGES_PER_S * 95 / 100, "{kept} pages in 9 s");
        });
    }
}

/// The first requests of a store with a cache of its own end at once. As soon as that cache is
/// full, the rate that the store can keep up is known.
#[test]
fn a_store_with_a_cache_of_its_own_is_known_once_that_is_full() {
    simulate(6, |rt| async move {
        const SLOW_PAGES_PER_S: u64 = 1_221;
        let bench = Bench::plain(rt.clone(), 256);
        let fills = Target::new(&bench, PAGES_PER_S, 0, 1);
        rt.sleep(Span::from_secs(2)).await;
        let stick = Target::new(&bench, 1 << 24, 100, 1);
        while stick.pages() < 1_000 {
            rt.sleep(Span::from_millis(1)).await;
        }
        stick
            .medium
            .set_rate(Rate::bytes(SLOW_PAGES_PER_S * PAGE as u64));
        rt.sleep(Span::from_secs(2)).await;
        let known = bench.cache.statistics().backings[2].write_bandwidth;
        assert!(
            known.abs_diff(SLOW_PAGES_PER_S) * 4 <= SLOW_PAGES_PER_S,
            "{known} pages/s"
        );
        let kept = fills.pages_in(&rt, Span::from_secs(4)).await;
        assert!(kept * 100 >= 4 * 90 * PAGES_PER_S, "{kept} pages in 4 s");
    });
}

#[test]
fn a_store_is_not_idle_while_its_writers_are_throttled() {
    simulate(4, |rt| async move {
        let bench = Bench::plain(rt.clone(), 256);
        let target = Target::new(&bench, PAGES_PER_S, 0, 4);
        rt.sleep(Span::from_secs(10)).await;
        let statistics = bench.cache.statistics();
        let backing = &statistics.backings[1];
        assert!(backing.throttled_us > 1_000_000, "{backing:?}");
        let idle = backing.idle_while_throttled_us;
        assert!(idle * 100 <= backing.throttled_us, "{backing:?}");
        // The medium is stalled: its writers are throttled, and its requests are under way.
        target.medium.set_rate(Rate::bytes(0));
        rt.sleep(Span::from_secs(1)).await;
        let later = bench.cache.statistics().backings[1];
        assert!(later.throttled_us > backing.throttled_us);
        assert_eq!(later.idle_while_throttled_us, idle);
        drop(target.tasks);
    });
}

/// Its writers are held at its own share of the limit. A store that is new or was idle for long has
/// none, so whatever they dirty has to be written at once: nothing else would let them go on.
#[test]
fn a_strict_store_without_a_share_is_written_to_at_once() {
    simulate(12, |rt| async move {
        let bench = paced(rt.clone(), 64, 2_000);
        let strict = StoreChanges {
            strict_limit: Some(true),
            max_ratio_percent: Some(40),
            ..StoreChanges::of_store(StoreKey::numbered(0))
        };
        let strict = Changes {
            stores: vec![strict],
            ..Changes::default()
        };
        bench.cache.retune(&strict).expect("it is allowed");
        let file = open_for(&bench, &bench.store, 1, "log");
        let bytes = vec![1; 1_500 * PAGE];
        for (turn, rest_s) in [2, 60, 600, 1].into_iter().enumerate() {
            let began = rt.now();
            let at = (turn * bytes.len()) as u64;
            file.write_at(&bytes, at).await.expect("there is room");
            let took = rt.now().since(began);
            // The store takes them in 750 ms.
            assert!(took < Span::from_secs(1), "turn {turn} took {took}");
            rt.sleep(Span::from_secs(rest_s)).await;
        }
    });
}
