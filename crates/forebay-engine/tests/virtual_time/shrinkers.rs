//! What reclaim asks the caches beside the pages for (spec/reclaim.md 2.11 and 8.1).

use crate::support::scan::touch;
use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, page_of, simulate};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::kernel::{GivenUp, InodeCache, PastFileSystem};
use forebay_engine::lab::LabCache;
use forebay_engine::settings::BackingSettings;
use forebay_engine::{Counter, File, Settings, Shrinker};
use forebay_kernels::Policy;
use forebay_rt::wait::Gate;
use forebay_store::{ObjectId, Rate, RateStore};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Objects that can be counted, and how many of them were offered.
struct Objects {
    left: AtomicU64,
    offers: Mutex<Vec<u64>>,
    seeks: u64,
    gives_up: bool,
}

impl Objects {
    fn new(count: u64, seeks: u64, gives_up: bool) -> Arc<Objects> {
        Arc::new(Objects {
            left: AtomicU64::new(count),
            offers: Mutex::default(),
            seeks,
            gives_up,
        })
    }

    fn offers(&self) -> Vec<u64> {
        self.offers.lock().expect("nobody panicked").clone()
    }
}

impl Shrinker for Objects {
    fn freeable(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn shrink(&self, offered: u64) -> ControlFlow<()> {
        self.offers.lock().expect("nobody panicked").push(offered);
        if !self.gives_up {
            return ControlFlow::Break(());
        }
        self.left.fetch_sub(
            offered.min(self.left.load(Ordering::Relaxed)),
            Ordering::Relaxed,
        );
        ControlFlow::Continue(())
    }

    fn seeks(&self) -> u64 {
        self.seeks
    }
}

/// A cache of 32 MiB under a preset: large enough for gentle passes.
fn bench(rt: forebay_rt::Rt, preset: &str) -> Bench {
    let settings = Settings {
        ..Settings::of_mib(32)
    }
    .under(Policy::preset(preset).expect("a preset of this name"));
    Bench::with(rt, settings, |_, memory| memory)
}

/// Reads three times the memory once.
async fn press(bench: &Bench) {
    let large = ObjectId(1_000_000);
    let file = bench.open_object(large, 24_000 * PAGE as u64);
    touch(&file, 0..24_000).await;
}

#[test]
fn each_cache_gives_its_part_by_its_price_and_nothing_once_it_is_gone() {
    simulate(1, |rt| async move {
        let bench = bench(rt, "forebay");
        let cheap = Objects::new(100_000, 2, true);
        let dear = Objects::new(100_000, 16, true);
        bench.cache.add_shrinker(&cheap);
        bench.cache.add_shrinker(&dear);
        press(&bench).await;
        let offered = |objects: &Objects| objects.offers().iter().sum::<u64>();
        assert!(offered(&dear) > 0, "reclaim was never pressing");
        assert!(offered(&cheap) > 2 * offered(&dear));
        assert!(cheap.offers().iter().all(|&batch| batch <= 128));
        let all = offered(&cheap) + offered(&dear);
        assert_eq!(bench.count(Counter::SlabsScanned), all);
        let before = offered(&cheap);
        drop(dear);
        cheap.left.store(100_000, Ordering::Relaxed);
        press(&bench).await;
        let more = offered(&cheap) - before;
        assert!(more > 0);
        assert_eq!(bench.count(Counter::SlabsScanned), all + more);
        bench.assert_consistent();
    });
}

#[test]
fn a_cache_that_can_give_nothing_is_asked_once_in_a_pass() {
    let offers = |gives_up| {
        let objects = Objects::new(1_000_000, 2, gives_up);
        let asked = objects.clone();
        simulate(1, |rt| async move {
            let bench = bench(rt, "forebay");
            bench.cache.add_shrinker(&asked);
            press(&bench).await;
        });
        objects.offers()
    };
    // What it could not give stays and is owed: if the pass did not end at the first refusal, it
    // would be asked for even more.
    let (refused, given) = (offers(false), offers(true));
    assert!(!refused.is_empty());
    assert!(refused.len() * 4 < given.len(), "{refused:?}");
}

/// How many small files there are.
const FILES: u64 = 5_000;

/// Small files, used often enough for their pages to be active, synced, and closed if the test
/// wants that.
async fn small_files(bench: &Bench, stay_open: bool) -> Vec<File> {
    let mut open = Vec::new();
    for number in 1..=FILES {
        let file = bench.open_object(ObjectId(number), 0);
        let written = file.write_at(&page_of(number), 0).await;
        written.expect("memory takes it");
        for _ in 0..3 {
            assert!(has_first_page(&file, number).await);
        }
        if stay_open {
            open.push(file);
        }
    }
    bench.cache.sync().await.expect("the store takes it");
    open
}

fn steals(bench: &Bench) -> u64 {
    bench.count(Counter::Pginodesteal) + bench.count(Counter::KswapdInodesteal)
}

/// All small files still hold what was written.
async fn assert_kept(bench: &Bench) {
    for number in 1..=FILES {
        let file = bench.open_object(ObjectId(number), PAGE as u64);
        assert!(has_first_page(&file, number).await, "{number}");
    }
    bench.assert_consistent();
}

#[test]
fn up_to_5_15_closed_files_go_with_their_pages_and_open_ones_stay() {
    for preset in ["linux-3.0", "linux-4.11", "linux-5.15"] {
        for stay_open in [false, true] {
            simulate(2, |rt| async move {
                let bench = bench(rt, preset);
                let open = small_files(&bench, stay_open).await;
                // A file is spared the first time it is asked.
                for _ in 0..3 {
                    press(&bench).await;
                }
                let stolen = steals(&bench);
                assert_eq!(stolen > 0, !stay_open, "{preset}: {stolen} pages");
                assert!(stolen <= FILES, "{preset}: {stolen} pages of {FILES}");
                drop(open);
                assert_kept(&bench).await;
            });
        }
    }
}

#[test]
fn since_5_16_they_age_like_any_others() {
    for preset in ["linux-5.16", "forebay"] {
        simulate(2, |rt| async move {
            let bench = bench(rt, preset);
            small_files(&bench, false).await;
            press(&bench).await;
            // They are asked, but files with pages keep them.
            assert_eq!(steals(&bench), 0);
            assert_kept(&bench).await;
        });
    }
}

/// Few enough dirty pages that no flusher is woken.
const DIRTY: u64 = 400;

/// A closed file that is still dirty is asked again later, and none of it may go.
#[test]
fn a_closed_file_that_is_dirty_keeps_its_pages() {
    simulate(3, |rt| async move {
        let mut medium = None;
        let settings = Settings {
            ..Settings::of_mib(32)
        }
        .under(Policy::preset("linux-4.11").expect("a preset of this name"));
        let bench = Bench::with(rt.clone(), settings, |rt, memory| {
            let store = Arc::new(RateStore::new(rt, memory, Rate::bytes(0)));
            medium = Some(store.clone());
            store
        });
        for number in 1..=DIRTY {
            let file = bench.open_object(ObjectId(number), 0);
            let written = file.write_at(&page_of(number), 0).await;
            written.expect("memory takes it");
        }
        // A store of its own for the pages that press, because the stalled one serves no request.
        let other = bench.cache.attach(Arc::new(Void)).expect("it is open");
        let large = bench.cache.open(&other, ObjectId(1), 1 << 30);
        touch(&large.expect("it opens"), 0..24_000).await;
        let asked = bench.count(Counter::SlabsScanned);
        assert!(asked > 2 * DIRTY, "asked {asked} times");
        assert_eq!(steals(&bench), 0);
        let pending = bench.cache.statistics();
        assert_eq!(pending.dirty(), DIRTY);
        for number in 1..=DIRTY {
            let file = bench.open_object(ObjectId(number), 0);
            assert!(has_first_page(&file, number).await, "{number}");
        }
        medium
            .expect("the bench asked for it")
            .set_rate(Rate::UNLIMITED);
        rt.sleep(Span::from_secs(60)).await;
        assert_eq!(bench.cache.statistics().dirty(), 0);
        press(&bench).await;
        assert!(steals(&bench) > 0, "what is clean may go");
        bench.assert_consistent();
    });
}

async fn has_first_page(file: &File, number: u64) -> bool {
    let mut page = vec![0; PAGE];
    let read = file.read_at(&mut page, 0).await;
    read == Ok(PAGE) && page == page_of(number)
}

/// Inodes that are written when the gate opens.
struct Inodes {
    retired: AtomicU64,
    given_up: AtomicU64,
    written: Arc<Gate>,
}

impl Inodes {
    fn new() -> Arc<Inodes> {
        Arc::new(Inodes {
            retired: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            written: Arc::new(Gate::new(false)),
        })
    }
}

impl InodeCache for Inodes {
    fn unused(&self) -> u64 {
        self.retired.load(Ordering::Relaxed) - self.given_up.load(Ordering::Relaxed)
    }

    fn retire(&self, _file: ObjectId) {
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    fn give_up(&self, count: u64) -> GivenUp {
        if !self.written.is_open() {
            let writing = Some(self.written.clone());
            return GivenUp { gone: 0, writing };
        }
        let gone = count.min(self.unused());
        self.given_up.fetch_add(gone, Ordering::Relaxed);
        GivenUp {
            gone,
            writing: None,
        }
    }
}

/// Presses on closed files whose inodes are written after `written_after`, and returns those and
/// how many waits took too long.
fn press_on_inodes(preset: &'static str, written_after: Span) -> (Arc<Inodes>, u64) {
    let inodes = Inodes::new();
    let (kept, overdue) = (inodes.clone(), Arc::new(AtomicU64::new(0)));
    let noted = overdue.clone();
    simulate(4, |rt| async move {
        let policy = Policy::preset(preset).expect("a preset of this name");
        let settings = Settings {
            answer_timeout: Span::from_secs(20),
            ..Settings::of_mib(32)
        };
        let settings = settings.under(policy);
        let bench = Bench::with(rt.clone(), settings, |_, memory| memory);
        let past = PastFileSystem {
            inodes: Some(inodes.clone()),
            ..PastFileSystem::default()
        };
        let backing = BackingSettings::default();
        let attached = bench
            .cache
            .attach_past(Arc::new(Void), backing, policy.asks(past));
        let attached = attached.expect("it is open");
        for number in 1..=FILES {
            let file = bench.cache.open(&attached, ObjectId(number), PAGE as u64);
            touch(&file.expect("it opens"), 0..1).await;
        }
        let (later, gate) = (rt.clone(), inodes.written.clone());
        let writer = rt.spawn("writer", async move {
            later.sleep(written_after).await;
            gate.open();
        });
        for _ in 0..3 {
            press(&bench).await;
        }
        writer.join().await;
        for _ in 0..3 {
            press(&bench).await;
        }
        bench.assert_consistent();
        let is_overdue = |(_, event): &(u64, Event)| {
            let what = "the write of an inode";
            matches!(event, Event::WaitOverdue { what: found, .. } if *found == what)
        };
        let overdue = bench.events().iter().filter(|it| is_overdue(it)).count();
        noted.store(overdue as u64, Ordering::Relaxed);
    });
    (kept, overdue.load(Ordering::Relaxed))
}

#[test]
fn up_to_5_8_an_inode_is_waited_for_until_it_is_written() {
    for preset in ["linux-3.0", "linux-4.11"] {
        let (inodes, overdue) = press_on_inodes(preset, Span::from_secs(10));
        assert!(inodes.retired.load(Ordering::Relaxed) > 0, "{preset}");
        assert!(inodes.given_up.load(Ordering::Relaxed) > 0, "{preset}");
        assert_eq!(overdue, 0, "{preset}: it came in time");
    }
    for preset in ["linux-5.15", "forebay"] {
        let (inodes, _) = press_on_inodes(preset, Span::from_secs(10));
        assert_eq!(inodes.retired.load(Ordering::Relaxed), 0, "{preset}");
    }
}

#[test]
fn an_inode_that_is_not_written_is_waited_for_as_long_as_for_an_answer() {
    let (inodes, overdue) = press_on_inodes("linux-4.11", Span::from_secs(100));
    assert!(overdue > 0);
    assert!(inodes.given_up.load(Ordering::Relaxed) > 0, "later it is");
}

/// Panics when it is asked, and counts how often.
struct Broken {
    asked: AtomicU64,
    counts: bool,
}

impl Shrinker for Broken {
    fn freeable(&self) -> u64 {
        if self.counts {
            return 100_000;
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        panic!("the count is broken, as this test wants it");
    }

    fn shrink(&self, _offered: u64) -> ControlFlow<()> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        panic!("the cache is broken, as this test wants it");
    }
}

#[test]
fn a_cache_that_panics_is_asked_once_and_reclaim_goes_on() {
    simulate(1, |rt| async move {
        let bench = bench(rt, "forebay");
        let broken = [true, false].map(|counts| {
            let asked = AtomicU64::new(0);
            Arc::new(Broken { asked, counts })
        });
        for broken in &broken {
            bench.cache.add_shrinker(broken);
        }
        let sound = Objects::new(100_000, 2, true);
        bench.cache.add_shrinker(&sound);
        press(&bench).await;
        press(&bench).await;
        for broken in &broken {
            assert_eq!(broken.asked.load(Ordering::Relaxed), 1);
        }
        assert_eq!(bench.count(Counter::ShrinkerPanics), 2);
        assert!(!sound.offers().is_empty());
        let scanned = [Counter::PgscanKswapd, Counter::PgscanDirect].map(|it| bench.count(it));
        let scanned: u64 = scanned.iter().sum();
        assert!(scanned > 30_000, "reclaim goes on: {scanned}");
        bench.assert_consistent();
    });
}
