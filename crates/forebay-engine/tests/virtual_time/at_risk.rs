//! A limit on the age of bytes that are not durable (docs/decisions/writeback-and-throttling.md).

use crate::support::{Bench, PAGE, simulate};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use forebay_engine::settings::BackingSettings;
use forebay_engine::statistics::AtRiskStatistics;
use forebay_engine::{AttachedStore, BuildError, Changes};
use forebay_rt::{Rt, Task};
use forebay_store::{
    Durability, Fault, FaultAction, FaultStore, Geometry, Io, IoKind, MemoryStore, ObjectId, Rate,
    RateStore, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const AT_RISK: Span = Span::from_secs(2);

/// Since when a page is newer than its store, and since when what the store has of it is not
/// durable.
#[derive(Clone, Copy, Debug, Default)]
struct PageAtRisk {
    dirty: Option<Instant>,
    written: Option<Instant>,
}

impl PageAtRisk {
    fn oldest(&self) -> Option<Instant> {
        self.dirty.into_iter().chain(self.written).min()
    }

    /// The store takes what the cache has.
    fn is_written(&mut self) {
        let dirty = self.dirty.take();
        self.written = self.written.into_iter().chain(dirty).min();
    }
}

/// A store that keeps no bytes, only since when which pages are not durable.
struct Witness {
    durability: Durability,
    pages: Mutex<BTreeMap<(u64, u64), PageAtRisk>>,
}

impl Witness {
    fn wrote(&self, object: u64, pages: std::ops::Range<u64>, now: Instant) {
        let mut at_risk = lock(&self.pages);
        for page in pages {
            let page = at_risk.entry((object, page)).or_default();
            page.dirty.get_or_insert(now);
        }
    }

    fn oldest(&self, now: Instant) -> Span {
        let at_risk = lock(&self.pages);
        let since = at_risk.values().filter_map(PageAtRisk::oldest).min();
        since.map_or(Span::ZERO, |since| now.since(since))
    }
}

impl Store for Witness {
    fn geometry(&self) -> Geometry {
        Geometry {
            durability: self.durability,
            ..MemoryStore::new().geometry()
        }
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let object = request.object.0;
        let first = request.offset_bytes / PAGE as u64;
        let is_at_once = self.durability == Durability::OnFinish;
        let mut at_risk = lock(&self.pages);
        match request.kind {
            IoKind::Write => {
                for page in first..first + io.page_count() as u64 {
                    if is_at_once {
                        at_risk.remove(&(object, page));
                    } else if let Some(page) = at_risk.get_mut(&(object, page)) {
                        page.is_written();
                    }
                }
            }
            IoKind::Commit => {
                let own = at_risk.range_mut((object, 0)..(object + 1, 0));
                own.for_each(|(_, page)| page.written = None);
                at_risk.retain(|_, page| page.oldest().is_some());
            }
            _ => {}
        }
        drop(at_risk);
        io.succeed();
    }
}

/// What writers do: how many there are, pages of a call, and how long each rests after it.
#[derive(Clone, Copy, Debug)]
struct Load {
    writers: u64,
    call_pages: u64,
    rests: Span,
    is_random: bool,
}

struct Scene {
    bench: Bench,
    witness: Arc<Witness>,
    medium: Arc<RateStore>,
    store: AttachedStore,
    stop: Arc<AtomicBool>,
}

impl Scene {
    fn new(rt: Rt, durability: Durability, pages_per_s: u64) -> Scene {
        let bench = Bench::plain(rt.clone(), 256);
        let witness = Arc::new(Witness {
            durability,
            pages: Mutex::default(),
        });
        let rate = Rate::bytes(pages_per_s * PAGE as u64);
        let medium = Arc::new(RateStore::new(rt, witness.clone(), rate));
        let attached = bench
            .cache
            .attach_with(medium.clone(), BackingSettings::default());
        Scene {
            store: attached.expect("a new cache takes a store"),
            bench,
            witness,
            medium,
            stop: Arc::default(),
        }
    }

    fn at_risk(&self, limit: Option<Span>) -> Result<Changes, BuildError> {
        self.bench.cache.retune(&Changes {
            at_risk: Some(limit),
            ..Changes::default()
        })
    }

    fn start(&self, load: Load) -> Vec<Task> {
        let start = |number: u64| {
            let object = ObjectId(number);
            let opened = self.bench.cache.open(&self.store, object, 1 << 30);
            let file = opened.expect("the object opens");
            let (rt, stop) = (self.bench.rt.clone(), self.stop.clone());
            let witness = self.witness.clone();
            self.bench.rt.spawn("writer", async move {
                let bytes = vec![1; load.call_pages as usize * PAGE];
                let mut chance = Prng::from_seed(number);
                let mut page = 0;
                while !stop.load(Ordering::Relaxed) {
                    if load.is_random {
                        page = chance.below(8_000);
                    }
                    witness.wrote(number, page..page + load.call_pages, rt.now());
                    let written = file.write_at(&bytes, page * PAGE as u64).await;
                    written.expect("the store is well");
                    page = (page + load.call_pages) % 200_000;
                    if load.rests > Span::ZERO {
                        rt.sleep(load.rests).await;
                    }
                }
            })
        };
        (1..=load.writers).map(start).collect()
    }

    fn statistics(&self) -> AtRiskStatistics {
        let statistics = self.bench.cache.statistics_with_ages();
        statistics.backings[1].at_risk.expect("there is a limit")
    }

    /// The oldest byte that was not durable within `length`, as seen every 40 ms by the store, and
    /// as the cache reports it.
    async fn oldest(&self, length: Span) -> (Span, Span) {
        let (rt, mut seen, mut reported) = (&self.bench.rt, Span::ZERO, Span::ZERO);
        let end = rt.now() + length;
        while rt.now() < end {
            rt.sleep(Span::from_millis(40)).await;
            let (truth, report) = (self.witness.oldest(rt.now()), self.statistics().oldest);
            // A call may pause for 200 ms before its last pages become dirty.
            assert!(
                report + Span::from_millis(300) >= truth,
                "{report} and {truth}"
            );
            (seen, reported) = (seen.max(truth), reported.max(report));
        }
        (seen, reported)
    }

    async fn end(&self, writers: Vec<Task>) {
        self.stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().await;
        }
        self.bench.assert_consistent();
    }
}

const FULL: Load = Load {
    writers: 4,
    call_pages: 16,
    rests: Span::ZERO,
    is_random: false,
};
const RANDOM: Load = Load {
    writers: 2,
    call_pages: 1,
    is_random: true,
    ..FULL
};
const LIGHT: Load = Load {
    writers: 2,
    call_pages: 1,
    rests: Span::from_millis(70),
    is_random: true,
};

#[test]
fn no_byte_is_older_than_the_limit_and_not_durable() {
    use Durability::{OnCommit, OnFinish, Unstable};
    for durability in [OnFinish, OnCommit, Unstable] {
        for load in [FULL, RANDOM, LIGHT] {
            simulate(1, async |rt| {
                let scene = Scene::new(rt.clone(), durability, 7_324);
                scene.at_risk(Some(AT_RISK)).expect("the limit is good");
                let running = scene.start(load);
                let (seen, reported) = scene.oldest(Span::from_secs(5)).await;
                let what = format!("{durability:?} {load:?}: {seen} and {reported}");
                assert!(seen <= AT_RISK && reported <= AT_RISK, "{what}");
                assert_eq!(scene.statistics().overshoots, 0, "{what}");
                // It neither writes at once nor waits for writers that rest.
                assert!(seen.saturating_mul(3) >= AT_RISK, "{what}");
                scene.end(running).await;
            });
        }
    }
}

#[test]
fn without_a_limit_bytes_grow_old_and_with_it_they_are_written() {
    simulate(1, async |rt| {
        let scene = Scene::new(rt.clone(), Durability::OnCommit, 7_324);
        let running = scene.start(LIGHT);
        rt.sleep(Span::from_secs(10)).await;
        assert!(scene.witness.oldest(rt.now()) > Span::from_secs(9));
        let statistics = scene.bench.cache.statistics_with_ages();
        let oldest = statistics.backings[1].oldest_dirty;
        assert!(
            oldest.is_some_and(|age| age > Span::from_secs(9)),
            "{oldest:?}"
        );
        assert_eq!(statistics.backings[1].at_risk, None);
        scene.at_risk(Some(AT_RISK)).expect("the limit is good");
        rt.sleep(Span::from_millis(500)).await;
        let (seen, _) = scene.oldest(Span::from_secs(10)).await;
        assert!(seen <= AT_RISK, "{seen}");
        scene.at_risk(None).expect("it can be taken back");
        rt.sleep(Span::from_secs(10)).await;
        assert!(scene.witness.oldest(rt.now()) > Span::from_secs(5));
        scene.end(running).await;
    });
}

#[test]
fn bytes_that_a_store_refuses_or_does_not_answer_for_are_counted_as_late() {
    for action in [
        FaultAction::NeverAnswer,
        FaultAction::Fail(forebay_store::Failure::Device(5)),
    ] {
        simulate(1, async |rt| {
            let bench = Bench::plain(rt.clone(), 64);
            let mute = Arc::new(FaultStore::new(rt.clone(), Arc::new(MemoryStore::new())));
            mute.inject(Fault::each(IoKind::Write, action));
            let store = bench
                .cache
                .attach_with(mute.clone(), BackingSettings::default())
                .expect("a new cache takes a store");
            let change = Changes {
                at_risk: Some(Some(AT_RISK)),
                ..Changes::default()
            };
            bench.cache.retune(&change).expect("the limit is good");
            let opened = bench.cache.open(&store, ObjectId(1), 0);
            let file = opened.expect("the object opens");
            file.write_at(&[1; PAGE], 0).await.expect("it fits");
            let seen = || {
                bench.cache.statistics_with_ages().backings[1]
                    .at_risk
                    .expect("a limit")
            };
            rt.sleep(Span::from_millis(1_900)).await;
            assert_eq!(seen().overshoots, 0);
            for _ in 0..10 {
                rt.sleep(Span::from_secs(1)).await;
                assert_eq!(seen().overshoots, 1, "it is one time, not many");
            }
            assert!(seen().oldest >= Span::from_secs(11));
            mute.clear();
            mute.release();
            file.sync().await.ok();
            rt.sleep(Span::from_secs(3)).await;
            assert_eq!(seen().oldest, Span::ZERO);
            assert_eq!(seen().overshoots, 1);
        });
    }
}

#[test]
fn a_limit_that_is_too_short_is_refused() {
    simulate(1, async |rt| {
        let scene = Scene::new(rt.clone(), Durability::OnFinish, 930);
        let too_short = scene.at_risk(Some(Span::from_millis(399)));
        let text = too_short.expect_err("it is too short").to_string();
        assert_eq!(text, "setting at_risk cannot be 399 ms: at least 400 ms");
        assert!(scene.at_risk(Some(Span::ZERO)).is_err());
        let running = scene.start(FULL);
        rt.sleep(Span::from_secs(8)).await;
        let slow = scene.at_risk(Some(Span::from_secs(1)));
        assert!(
            matches!(slow, Err(BuildError::AtRiskTooShort { bdi: 1, least, .. })
                if least > Span::from_secs(2) && least < Span::from_secs(5)),
            "{slow:?}"
        );
        let _ = &scene.medium;
        scene.end(running).await;
    });
}
