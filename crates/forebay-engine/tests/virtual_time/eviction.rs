//! The rules of eviction from outside: which pages they keep, and that nothing else depends on
//! them.

use crate::support::model::{Plan, run};
use crate::support::scan::{endless, touch, void};
use crate::support::{Bench, OfSize, PAGE, Setup, has_page, pages, simulate, write_pages};
use forebay_base::{Prng, Span};
use forebay_engine::{Counter, File, Settings};
use forebay_kernels::Policy;
use forebay_kernels::policy::{Choice, Eviction};
use forebay_store::{Durability, ObjectId, Rate, RateStore};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

fn settings(mib: u64, eviction: Eviction) -> Setup {
    Settings::of_mib(mib).under(Policy {
        eviction,
        ..Policy::default()
    })
}

/// Draws pages by Zipf's law: rank `r` in proportion to `1 / r^skew`.
struct Zipf {
    cumulated: Vec<f64>,
    chance: Prng,
}

impl Zipf {
    fn new(pages: u64, skew: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let cumulated = (1..=pages).map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        });
        Zipf {
            cumulated: cumulated.collect(),
            chance: Prng::from_seed(seed),
        }
    }

    fn draw(&mut self) -> u64 {
        let total = self.cumulated.last().expect("there are pages");
        let drawn = self.chance.fraction() * total;
        self.cumulated.partition_point(|&sum| sum < drawn) as u64
    }
}

/// Reads of popular pages, and whether a page that is never read again follows each of them.
const READS: u64 = 60_000;
const POPULAR_PAGES: u64 = 8_000;

fn reads() -> impl Iterator<Item = (u64, Option<u64>)> {
    let mut zipf = Zipf::new(POPULAR_PAGES, 0.99, 7);
    (0..READS).map(move |turn| {
        let passing = (turn % 2 == 0).then_some(1_000_000 + turn);
        (zipf.draw(), passing)
    })
}

/// How many reads of popular pages a list in the order of use would have served with `pages` pages.
fn hits_of_least_recently_used(pages: u64) -> u64 {
    let (mut used_at, mut by_use) = (BTreeMap::new(), BTreeMap::new());
    let (mut now, mut hits) = (0, 0);
    let mut use_page = |page: u64| {
        now += 1;
        let before: Option<u64> = used_at.insert(page, now);
        if let Some(before) = before {
            by_use.remove(&before);
        } else if used_at.len() as u64 > pages {
            let (_, oldest) = by_use.pop_first().expect("pages were used");
            used_at.remove(&oldest);
        }
        by_use.insert(now, page);
        before.is_some()
    };
    for (popular, passing) in reads() {
        hits += u64::from(use_page(popular));
        if let Some(passing) = passing {
            use_page(passing);
        }
    }
    hits
}

/// The queues and ghosts of the paper for `pages` pages, written page by page and without the law.
#[derive(Default)]
struct Queues {
    pages: usize,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghosts: VecDeque<u64>,
    /// Of the resident pages.
    frequency: BTreeMap<u64, u32>,
}

impl Queues {
    /// Returns whether the page was there.
    fn touch(&mut self, page: u64) -> bool {
        if let Some(frequency) = self.frequency.get_mut(&page) {
            *frequency = (*frequency + 1).min(3);
            return true;
        }
        while self.frequency.len() >= self.pages {
            if self.small.len() * 10 >= self.pages {
                self.evict_from_small();
            } else {
                self.evict_from_main();
            }
        }
        if let Some(at) = self.ghosts.iter().position(|&ghost| ghost == page) {
            self.ghosts.remove(at);
            self.main.push_back(page);
        } else {
            self.small.push_back(page);
        }
        self.frequency.insert(page, 0);
        false
    }

    fn evict_from_small(&mut self) {
        let page = self.small.pop_front().expect("it is a tenth of them");
        if self.frequency[&page] > 1 {
            self.frequency.insert(page, 0);
            self.main.push_back(page);
            return;
        }
        self.frequency.remove(&page);
        self.ghosts.push_back(page);
        if self.ghosts.len() > self.pages - self.pages / 10 {
            self.ghosts.pop_front();
        }
    }

    fn evict_from_main(&mut self) {
        let page = self.main.pop_front().expect("the others are here");
        match self.frequency[&page] {
            0 => {
                self.frequency.remove(&page);
            }
            frequency => {
                self.frequency.insert(page, frequency - 1);
                self.main.push_back(page);
            }
        }
    }
}

fn hits_of_three_queues(pages: u64) -> u64 {
    let mut queues = Queues {
        pages: pages as usize,
        ..Queues::default()
    };
    let mut hits = 0;
    for (popular, passing) in reads() {
        hits += u64::from(queues.touch(popular));
        if let Some(passing) = passing {
            queues.touch(passing);
        }
    }
    hits
}

/// The same under a rule of the cache, and the number of pages that the cache has.
fn hits_under(eviction: Eviction) -> (u64, u64) {
    let (mut hits, mut has_pages) = (0, 0);
    let out = (&mut hits, &mut has_pages);
    simulate(1, |rt| async move {
        let bench = void(rt, settings(8, eviction));
        let file = endless(&bench).await;
        let mut passed = 0;
        for (popular, passing) in reads() {
            touch(&file, popular..popular + 1).await;
            if let Some(passing) = passing {
                touch(&file, passing..passing + 1).await;
                passed += 1;
            }
        }
        *out.0 = READS + passed - bench.count(Counter::Pgpgin);
        let zones = bench.cache.statistics().zones;
        *out.1 = zones.iter().map(|zone| zone.managed).sum();
        bench.assert_consistent();
    });
    (hits, has_pages)
}

#[test]
fn both_rules_keep_more_of_what_is_popular_than_the_order_of_use_does() {
    for &eviction in Eviction::ALL {
        let (hits, has_pages) = hits_under(eviction);
        let plain = hits_of_least_recently_used(has_pages);
        println!("{eviction:?}: {hits} of {READS}, {plain} by the order of use");
        assert!(hits > plain + READS / 50, "{eviction:?}: {hits}, {plain}");
    }
}

/// Reclaim keeps some frames free and works in batches, which costs a percent or two.
#[test]
fn s3_fifo_in_batches_hits_about_as_often_as_page_by_page() {
    let (hits, has_pages) = hits_under(Eviction::S3Fifo);
    let expected = hits_of_three_queues(has_pages);
    println!("{hits} of {READS}, {expected} page by page");
    assert!(
        hits.abs_diff(expected) < READS / 50,
        "{hits}, not {expected}"
    );
}

/// Reads the pages again and returns how many were gone.
async fn missing(bench: &Bench, file: &File, numbers: std::ops::Range<u64>) -> u64 {
    let before = bench.count(Counter::Pgpgin);
    touch(file, numbers).await;
    bench.count(Counter::Pgpgin) - before
}

#[test]
fn a_scan_of_ten_times_the_memory_leaves_the_working_set() {
    for &eviction in Eviction::ALL {
        simulate(2, |rt| async move {
            let bench = void(rt, settings(8, eviction));
            let file = endless(&bench).await;
            for _ in 0..3 {
                touch(&file, 0..900).await;
            }
            touch(&file, 100_000..120_000).await;
            let gone = missing(&bench, &file, 0..900).await;
            assert!(gone <= 90, "{eviction:?}: {gone} of 900 are gone");
            bench.assert_consistent();
        });
    }
}

#[test]
fn a_page_that_came_back_is_kept_while_others_pass_under_s3_fifo() {
    simulate(3, |rt| async move {
        let bench = void(rt, settings(8, Eviction::S3Fifo));
        let file = endless(&bench).await;
        touch(&file, 0..2_500).await;
        // The first pages are gone, but were evicted only lately.
        assert!(missing(&bench, &file, 0..200).await > 150);
        touch(&file, 100_000..104_000).await;
        let gone = missing(&bench, &file, 0..200).await;
        assert!(gone <= 50, "{gone} of 200 are gone");
        assert!(bench.count(Counter::WorkingsetActivateFile) > 150);
        bench.assert_consistent();
    });
}

#[test]
fn what_is_no_longer_touched_makes_room_under_s3_fifo() {
    simulate(4, |rt| async move {
        let bench = void(rt, settings(8, Eviction::S3Fifo));
        let file = endless(&bench).await;
        for _ in 0..6 {
            touch(&file, 0..1_700).await;
        }
        for _ in 0..8 {
            touch(&file, 50_000..51_500).await;
        }
        let last = missing(&bench, &file, 50_000..51_500).await;
        assert!(last <= 150, "{last} of 1 500 still miss");
        bench.assert_consistent();
    });
}

#[test]
fn dirty_pages_are_written_by_flushers_alone_and_are_not_lost_under_s3_fifo() {
    simulate(5, |rt| async move {
        let bench = Bench::with(rt, settings(4, Eviction::S3Fifo), |rt, memory| {
            Arc::new(RateStore::new(rt, memory, Rate::bytes(32 << 20)))
        });
        let file = bench.open(0);
        for turn in 0..3 {
            write_pages(&file, turn * 1_500..(turn + 1) * 1_500)
                .await
                .expect("memory takes it");
            for number in (0..(turn + 1) * 1_500).step_by(7) {
                assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
            }
        }
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..4_500));
        assert_eq!(bench.count(Counter::NrVmscanWriteFile), 0, "promise 4");
        assert!(bench.count(Counter::PgstealKswapd) + bench.count(Counter::PgstealDirect) > 3_000);
        bench.assert_consistent();
    });
}

#[test]
fn anonymous_memory_goes_to_swap_and_back_under_s3_fifo() {
    simulate(6, |rt| async move {
        let bench = Bench::with(rt, settings(4, Eviction::S3Fifo), |_, memory| memory);
        bench.set_swap(ObjectId(9), 16 << 20);
        let memory = bench.cache.anonymous(8 << 20).expect("swap is set");
        bench.memory.fill(crate::support::FILE, &pages(0..2_000));
        let file = bench.open(2_000 * PAGE as u64);
        for turn in 0..3 {
            write_pages(&memory, 0..2_000).await.expect("swap has room");
            touch(&file, 0..2_000).await;
            for number in (turn..2_000).step_by(3) {
                assert_eq!(has_page(&memory, number).await, Ok(true), "page {number}");
            }
        }
        assert!(bench.count(Counter::Pswpout) > 2_000);
        assert!(bench.count(Counter::Pswpin) > 500);
        bench.rt.sleep(Span::from_secs(1)).await;
        bench.assert_consistent();
    });
}

#[test]
fn bytes_are_what_was_written_under_s3_fifo() {
    for seed in 0..60 {
        let plan = Plan {
            eviction: Eviction::S3Fifo,
            memory_bytes: 2 << 20,
            durability: match seed % 3 {
                0 => Durability::OnFinish,
                1 => Durability::OnCommit,
                _ => Durability::Unstable,
            },
            ..Plan::of(1_000 + seed)
        };
        let outcome = std::panic::catch_unwind(|| run(plan));
        assert!(outcome.is_ok(), "{plan:?} failed; see above");
    }
}
