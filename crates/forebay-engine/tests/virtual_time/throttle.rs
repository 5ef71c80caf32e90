//! Many writers on slow stores: the limits hold, pauses are short, shares are equal, and every
//! pause can be computed again (promises 5 and 6; spec/writeback.md 13).

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, Setup, simulate};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_engine::event::{Event, PauseLimit, PauseRecord};
use forebay_engine::lab::LabCache;
use forebay_engine::settings::BackingSettings;
use forebay_engine::{Counter, Mark, Settings};
use forebay_kernels::Policy;
use forebay_kernels::policy::DirtyThrottle;
use forebay_law::pause::Tick;
use forebay_rt::{Rt, Task, Virtual, VirtualSettings, WorkCosts};
use forebay_store::{CountStore, IoKind, ObjectId, Rate, RateStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most pages that one writer may dirty between two evaluations.
const POLL_PAGES: u64 = 32;

/// Writers that write as fast as they may, each to its own object, and what each has written.
struct Writers {
    tasks: Vec<Task>,
    written: Vec<Arc<AtomicU64>>,
    stop: Arc<AtomicBool>,
}

impl Writers {
    /// `count` writers, each of `pages` pages at a time, on the bench's first store.
    fn start(bench: &Bench, count: u64, pages: u64) -> Writers {
        Writers::start_on(bench, &bench.store, 0, count, pages)
    }

    fn start_on(
        bench: &Bench,
        store: &forebay_engine::AttachedStore,
        first: u64,
        count: u64,
        pages: u64,
    ) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = Writers {
            tasks: Vec::new(),
            written: Vec::new(),
            stop: stop.clone(),
        };
        for number in first..first + count {
            let file = bench
                .cache
                .open(store, ObjectId(number), 0)
                .expect("the object opens");
            let written = Arc::new(AtomicU64::new(0));
            writers.written.push(written.clone());
            let stop = stop.clone();
            writers.tasks.push(bench.rt.spawn("writer", async move {
                let bytes = vec![number as u8; pages as usize * PAGE];
                let mut at = 0;
                while !stop.load(Ordering::Relaxed) {
                    file.write_at(&bytes, at).await.expect("the store is well");
                    at += bytes.len() as u64;
                    written.fetch_add(pages, Ordering::Relaxed);
                }
            }));
        }
        writers
    }

    fn pages(&self) -> Vec<u64> {
        self.written
            .iter()
            .map(|written| written.load(Ordering::Relaxed))
            .collect()
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.join().await;
        }
    }
}

fn paced(rt: Rt, mib: u64, pages_per_s: u64) -> Bench {
    Bench::new(rt, mib, |rt, _| medium(rt, pages_per_s))
}

fn medium(rt: Rt, pages_per_s: u64) -> Arc<RateStore> {
    let rate = Rate::bytes(pages_per_s * PAGE as u64);
    Arc::new(RateStore::new(rt, Arc::new(Void), rate))
}

/// The pauses whose records are kept, with the times of their decisions.
fn pauses(bench: &Bench) -> Vec<(u64, usize, PauseRecord)> {
    let of_event = |(at_ms, event)| match event {
        Event::BalanceDirtyPages { bdi, record, .. } => Some((at_ms, bdi, record)),
        _ => None,
    };
    bench.events().into_iter().filter_map(of_event).collect()
}

/// Whether the largest and the smallest of `counts` lie within `percent` of their mean.
fn are_equal_within(percent: u64, counts: &[u64]) -> bool {
    let mean = counts.iter().sum::<u64>() / counts.len() as u64;
    counts
        .iter()
        .all(|&count| count.abs_diff(mean) * 100 <= mean * percent)
}

fn difference(later: &[u64], earlier: &[u64]) -> Vec<u64> {
    later.iter().zip(earlier).map(|(a, b)| a - b).collect()
}

#[test]
fn a_thousand_writers_stay_within_the_limit_and_share_alike() {
    simulate(1, |rt| async move {
        let bench = paced(rt.clone(), 256, 5_120);
        let writers = Writers::start(&bench, 1_000, 1);
        let allowed_over = 1_000 * POLL_PAGES;
        for _ in 0..60 * 20 {
            rt.sleep(Span::from_millis(50)).await;
            let statistics = bench.cache.statistics();
            let most = statistics.dirty_limit.max(statistics.nr_dirty_threshold) + allowed_over;
            let dirty = statistics.dirty();
            assert!(dirty <= most, "{dirty} of {most} at {:?}", rt.now());
        }
        let settled = writers.pages();
        // Shares differ by chance: by 5 % over two minutes, by 4 % over three.
        rt.sleep(Span::from_secs(180)).await;
        let shares = difference(&writers.pages(), &settled);
        let (least, most) = (shares.iter().min(), shares.iter().max());
        assert!(are_equal_within(5, &shares), "{least:?} to {most:?}");
        let kept = pauses(&bench);
        assert!(kept.len() > 1_000);
        assert!(kept.iter().all(|(_, _, record)| record.pause_us <= 200_000));
        writers.end().await;
        bench.assert_consistent();
    });
}

#[test]
fn writers_of_large_blocks_share_alike_and_each_call_takes_about_as_long() {
    // Blocks of many quotas: a writer has 64 pages a second and is checked after 8.
    for pages in [64, 256] {
        simulate(1, |rt| async move {
            let bench = paced(rt.clone(), 128, 5_120);
            let writers = Writers::start(&bench, 80, pages);
            rt.sleep(Span::from_secs(30)).await;
            let settled = writers.pages();
            rt.sleep(Span::from_secs(120)).await;
            let shares = difference(&writers.pages(), &settled);
            // Each is in the middle of a call at both ends.
            let slack = 100 * pages / (120 * 64) + 1;
            assert!(
                are_equal_within(slack, &shares),
                "{pages} pages: {shares:?}"
            );
            writers.end().await;
            bench.assert_consistent();
        });
    }
}

/// A hundred writers of 4 KiB on 30 MB/s: no call pays for seven others.
#[test]
fn calls_of_one_page_among_many_writers_take_about_as_long() {
    const WRITERS: u64 = 100;
    const PAGES_PER_S: u64 = 7_324;
    let settled = Instant::ZERO + Span::from_secs(20);
    simulate(1, |rt| async move {
        let bench = paced(rt.clone(), 256, PAGES_PER_S);
        let times: Arc<Mutex<Vec<u64>>> = Arc::default();
        let write = |number| {
            let file = bench.open_object(ObjectId(number), 0);
            let (rt, times) = (rt.clone(), times.clone());
            rt.clone().spawn("writer", async move {
                let mut page = 0;
                loop {
                    let asked = rt.now();
                    if file.write_at(&[1; PAGE], page * PAGE as u64).await.is_err() {
                        return;
                    }
                    page += 1;
                    if asked > settled {
                        lock(&times).push(rt.now().since(asked).as_micros());
                    }
                }
            })
        };
        let writers: Vec<Task> = (0..WRITERS).map(write).collect();
        rt.sleep(Span::from_secs(30)).await;
        let mut times = lock(&times).clone();
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        let (middle, late) = (at(50), at(99));
        assert!(late <= 2 * middle, "p50 {middle} us, p99 {late} us");
        // Ten seconds of the store's rate.
        let expected = 10 * PAGES_PER_S as usize;
        assert!(
            times.len().abs_diff(expected) * 20 <= expected,
            "{} writes",
            times.len()
        );
        drop(writers);
    });
}

#[test]
fn a_light_writer_beside_writers_of_large_blocks_gets_what_it_asks_for() {
    simulate(7, |rt| async move {
        let bench = paced(rt.clone(), 128, 5_120);
        let heavy = Writers::start(&bench, 16, 256);
        rt.sleep(Span::from_secs(20)).await;
        let light = bench.open_object(ObjectId(1_000), 0);
        let began = rt.now();
        for number in 0..500 {
            rt.sleep(Span::from_millis(20)).await;
            let written = light.write_at(&[1; PAGE], number * PAGE as u64).await;
            assert_eq!(written, Ok(()));
        }
        // 50 pages a second of 5 120, where an equal share is 300.
        let took = rt.now().since(began);
        assert!(took < Span::from_secs(11), "{took} for 500 writes");
        heavy.end().await;
    });
}

#[test]
fn every_pause_can_be_computed_again_from_its_record() {
    for (throttle, tick_ms) in [
        (DirtyThrottle::Paced, 4),
        (DirtyThrottle::IoLess, 1),
        (DirtyThrottle::IoLess, 4),
    ] {
        simulate(2, |rt| async move {
            let policy = Policy {
                dirty_throttle: throttle,
                ..Policy::default()
            };
            let setup = Setup {
                settings: Settings::of_mib(64),
                kernel: policy.kernel_with_tick(Tick::of_ms(tick_ms)),
            };
            let bench = Bench::with(rt.clone(), setup, |rt, _| medium(rt, 2_560));
            let writers = Writers::start(&bench, 10, 4);
            rt.sleep(Span::from_secs(30)).await;
            let kept = pauses(&bench);
            assert!(kept.len() > 500, "{} pauses", kept.len());
            for (at_ms, _, record) in kept {
                if record.limit == PauseLimit::Unmeasured {
                    // It ended when a write did; no law computed it.
                    assert!(record.pause_us <= 200_000);
                    continue;
                }
                assert_eq!(at_ms, record.now_us / 1_000);
                assert_eq!(record.is_paced, throttle == DirtyThrottle::Paced);
                assert!(record.pause_us > 0);
                if throttle == DirtyThrottle::IoLess {
                    assert_eq!(record.pause_us % (tick_ms * 1_000), 0, "{record:?}");
                }
                assert_eq!(record.recomputed(), record);
            }
            writers.end().await;
        });
    }
}

#[test]
fn four_equal_writers_share_alike_at_the_setpoint_and_at_full_rate() {
    simulate(3, |rt| async move {
        let pages_per_s = 7_324;
        let bench = paced(rt.clone(), 256, pages_per_s);
        let writers = Writers::start(&bench, 4, 16);
        rt.sleep(Span::from_secs(10)).await;
        let before = writers.pages();
        let written_before = bench.count(Counter::NrWritten);
        let (mut level, mut setpoint) = (0, 0);
        for _ in 0..400 {
            rt.sleep(Span::from_millis(50)).await;
            let statistics = bench.cache.statistics();
            level += statistics.dirty();
            setpoint += statistics.dirty_setpoint;
            assert!(statistics.dirty() <= statistics.dirty_limit + 4 * POLL_PAGES);
        }
        let shares = difference(&writers.pages(), &before);
        assert!(are_equal_within(5, &shares), "{shares:?}");
        assert!(
            level.abs_diff(setpoint) * 10 <= setpoint,
            "mean level {} against {}",
            level / 400,
            setpoint / 400
        );
        let written = bench.count(Counter::NrWritten) - written_before;
        assert!(written * 100 >= 20 * pages_per_s * 97, "{written} in 20 s");
        writers.end().await;
        bench.assert_consistent();
    });
}

/// A second store of the bench's cache, its medium, and the count of its requests.
fn attach_paced(
    bench: &Bench,
    pages_per_s: u64,
    settings: BackingSettings,
) -> (
    forebay_engine::AttachedStore,
    Arc<RateStore>,
    Arc<CountStore>,
) {
    let medium = medium(bench.rt.clone(), pages_per_s);
    let counted = Arc::new(CountStore::new(bench.rt.clone(), medium.clone()));
    let store = bench
        .cache
        .attach_with(counted.clone(), settings)
        .expect("the ratios are good");
    (store, medium, counted)
}

fn written_pages(counted: &CountStore) -> u64 {
    counted.counts(IoKind::Write).pages
}

#[test]
fn a_fast_store_is_not_held_back_by_a_slow_one() {
    simulate(4, |rt| async move {
        let bench = Bench::plain(rt.clone(), 256);
        let usual = BackingSettings::default();
        let (fast, _, fast_counts) = attach_paced(&bench, 25_600, usual);
        let (slow, _, slow_counts) = attach_paced(&bench, 2_560, usual);
        let on_fast = Writers::start_on(&bench, &fast, 0, 4, 8);
        let on_slow = Writers::start_on(&bench, &slow, 100, 4, 8);
        rt.sleep(Span::from_secs(30)).await;
        let before = (written_pages(&fast_counts), written_pages(&slow_counts));
        let pages_before = (on_fast.pages(), on_slow.pages());
        rt.sleep(Span::from_secs(30)).await;
        let of_fast = written_pages(&fast_counts) - before.0;
        let of_slow = written_pages(&slow_counts) - before.1;
        assert!(of_fast * 100 >= 30 * 25_600 * 99, "fast: {of_fast}");
        assert!(of_slow * 100 >= 30 * 2_560 * 99, "slow: {of_slow}");
        for (writers, before) in [(&on_fast, &pages_before.0), (&on_slow, &pages_before.1)] {
            let shares = difference(&writers.pages(), before);
            assert!(are_equal_within(5, &shares), "{shares:?}");
        }
        on_fast.end().await;
        on_slow.end().await;
    });
}

#[test]
fn a_store_that_stalls_for_a_minute_does_not_stop_the_other() {
    simulate(5, |rt| async move {
        let settings = Settings {
            answer_timeout: Span::from_secs(120),
            ..Settings::of_mib(256)
        };
        let bench = Bench::with(rt.clone(), settings, |_, memory| memory);
        let usual = BackingSettings::default();
        let (steady, _, steady_counts) = attach_paced(&bench, 1_600, usual);
        let (stalling, medium, stalling_counts) = attach_paced(&bench, 1_600, usual);
        let on_steady = Writers::start_on(&bench, &steady, 0, 4, 8);
        let on_stalling = Writers::start_on(&bench, &stalling, 100, 4, 8);
        rt.sleep(Span::from_secs(20)).await;
        medium.set_rate(Rate::bytes(0));
        let before = written_pages(&steady_counts);
        for _ in 0..600 {
            rt.sleep(Span::from_millis(100)).await;
            let statistics = bench.cache.statistics();
            let most = statistics.dirty_limit + 8 * POLL_PAGES;
            // What the stalled store has above its part stays with it and is counted once.
            assert!(statistics.dirty() <= 2 * most, "{}", statistics.dirty());
            for backing in &statistics.backings {
                let dirty = backing.reclaimable + backing.writeback;
                assert!(dirty <= most, "{dirty} of one store");
            }
        }
        let of_steady = written_pages(&steady_counts) - before;
        assert!(of_steady * 100 >= 60 * 1_600 * 99, "steady: {of_steady}");
        medium.set_rate(Rate::bytes(1_600 * PAGE as u64));
        rt.sleep(Span::from_secs(2)).await;
        let before = (
            written_pages(&steady_counts),
            written_pages(&stalling_counts),
        );
        rt.sleep(Span::from_secs(10)).await;
        let of_steady = written_pages(&steady_counts) - before.0;
        let of_stalling = written_pages(&stalling_counts) - before.1;
        assert!(of_steady * 100 >= 10 * 1_600 * 97, "steady: {of_steady}");
        assert!(
            of_stalling * 100 >= 10 * 1_600 * 97,
            "stalled: {of_stalling}"
        );
        let kept = pauses(&bench);
        assert!(kept.iter().all(|(_, _, record)| record.pause_us <= 200_000));
        on_steady.end().await;
        on_stalling.end().await;
    });
}

#[test]
fn a_writer_without_a_dirty_block_goes_on_when_another_store_has_written() {
    simulate(10, |rt| async move {
        let mut settings = Settings::of_mib(2);
        settings.dirty.dirty_ratio_percent = 80;
        settings.dirty.background_ratio_percent = 60;
        let bench = Bench::with(rt, settings, |_, memory| memory);
        let (slow, ..) = attach_paced(&bench, 100, BackingSettings::default());
        let opened = bench.cache.open(&slow, ObjectId(1), 0);
        let scattered = opened.expect("the object opens");
        let reached = |mark| bench.cache.times_reached(mark);
        // Pages as far apart as these share no block, and there are three blocks for eight frames.
        for block in 0..bench.cache.statistics().frames * 3 / 8 {
            let written = scattered.write_at(b"x", block * 64 * PAGE as u64).await;
            assert_eq!(written, Ok(()));
        }
        assert_eq!(reached(Mark::NoDirtyBlock), 0);
        let other = bench.open_object(ObjectId(2), 0);
        assert_eq!(other.write_at(b"y", 0).await, Ok(()));
        assert_eq!(reached(Mark::NoDirtyBlock), 1);
        assert_eq!(reached(Mark::NoDirtyBlockInTime), 0);
    });
}

#[test]
fn a_strictly_limited_store_stays_within_its_own_part() {
    simulate(6, |rt| async move {
        let bench = Bench::plain(rt.clone(), 256);
        let strict = BackingSettings {
            max_ratio_percent: 10,
            strict_limit: true,
            ..BackingSettings::default()
        };
        let (stick, _, stick_counts) = attach_paced(&bench, 1_280, strict);
        let writers = Writers::start_on(&bench, &stick, 0, 4, 8);
        rt.sleep(Span::from_secs(20)).await;
        let before = written_pages(&stick_counts);
        for _ in 0..200 {
            rt.sleep(Span::from_millis(100)).await;
            let statistics = bench.cache.statistics();
            let part = statistics.nr_dirty_threshold / 10;
            let dirty = statistics.dirty();
            assert!(dirty <= part + 4 * POLL_PAGES, "{dirty} of {part}");
        }
        let written = written_pages(&stick_counts) - before;
        assert!(written * 100 >= 20 * 1_280 * 95, "{written} in 20 s");
        writers.end().await;
    });
}

#[test]
fn a_light_writer_beside_a_heavy_one_is_hardly_slowed() {
    simulate(7, |rt| async move {
        let bench = paced(rt.clone(), 128, 5_120);
        let heavy = Writers::start(&bench, 4, 16);
        rt.sleep(Span::from_secs(10)).await;
        let light = bench.open_object(ObjectId(1_000), 0);
        let mut waited = Span::ZERO;
        for number in 0..200 {
            rt.sleep(Span::from_millis(50)).await;
            let began = rt.now();
            let written = light.write_at(&[1; PAGE], number * PAGE as u64).await;
            assert_eq!(written, Ok(()));
            waited += rt.now().since(began);
        }
        // 20 pages a second of 5 120, where an equal share is 1 024.
        assert!(waited < Span::from_millis(500), "{waited} in 200 writes");
        heavy.end().await;
    });
}

#[test]
fn an_idle_page_is_written_between_30_and_35_seconds() {
    simulate(8, |rt| async move {
        let bench = paced(rt.clone(), 8, 25_600);
        for wait_ms in [0, 1_300, 4_900] {
            rt.sleep(Span::from_millis(wait_ms)).await;
            let file = bench.open(0);
            let dirtied = rt.now();
            file.write_at(b"x", 0).await.expect("memory takes it");
            while bench.cache.statistics().dirty() > 0 {
                rt.sleep(Span::from_millis(10)).await;
                assert!(rt.now() < Instant::from_nanos(200_000_000_000));
            }
            let took_ms = rt.now().since(dirtied).as_millis();
            assert!((30_000..=35_020).contains(&took_ms), "{took_ms} ms");
        }
    });
}

/// A writer with many calls at once, such as a client of a block server, is one writer: none of its
/// calls goes on at memory speed while another pays for it.
#[test]
fn calls_that_one_writer_makes_at_once_take_about_as_long() {
    const CALLS: u64 = 32;
    const PAGES_PER_S: u64 = 8_192;
    simulate(11, |rt| async move {
        let bench = paced(rt, 64, PAGES_PER_S);
        let opened = bench.cache.open(&bench.store, ObjectId(1), 0);
        let file = Arc::new(opened.expect("the object opens"));
        let times = Arc::new(Mutex::new(Vec::new()));
        let next = Arc::new(AtomicU64::new(0));
        let began = bench.rt.now();
        let calls: Vec<Task> = (0..CALLS)
            .map(|_| {
                let (file, times, next) = (file.clone(), times.clone(), next.clone());
                let rt = bench.rt.clone();
                bench.rt.spawn("call", async move {
                    while rt.now().since(began) < Span::from_secs(20) {
                        let page = next.fetch_add(1, Ordering::Relaxed);
                        let asked = rt.now();
                        let bytes = [1; PAGE];
                        let written = file.write_at(&bytes, page * PAGE as u64).await;
                        written.expect("the store is well");
                        // Until then the rate of the store is being measured.
                        if asked.since(began) > Span::from_secs(10) {
                            lock(&times).push(rt.now().since(asked).as_micros());
                        }
                    }
                })
            })
            .collect();
        for call in calls {
            call.join().await;
        }
        let mut times = lock(&times).clone();
        times.sort_unstable();
        let at = |permille: usize| times[(times.len() - 1) * permille / 1_000];
        let (middle, late) = (at(500), at(999));
        assert!(late <= 10 * middle, "p50 {middle} us, p99.9 {late} us");
        // Ten seconds at the store's rate, not at that of a writer that waits too much.
        let expected = 10 * PAGES_PER_S as usize;
        assert!(times.len() * 10 > expected * 8, "{} writes", times.len());
    });
}

/// A store that was just attached has no part of the limit yet, so it is over it at once.
#[test]
fn a_store_that_was_over_its_limit_once_is_not_asked_about_at_every_piece() {
    const PIECES: u64 = 512;
    let machine = Virtual::new(VirtualSettings {
        costs: WorkCosts {
            throttle_check_ns: 1_000,
            ..WorkCosts::default()
        },
        ..VirtualSettings::default()
    });
    let rt = machine.rt();
    machine.run(async {
        let bench = Bench::plain(rt, 64);
        let strict = BackingSettings {
            max_ratio_percent: 10,
            strict_limit: true,
            ..BackingSettings::default()
        };
        let (stick, ..) = attach_paced(&bench, 1_280, strict);
        let file = bench.cache.open(&stick, ObjectId(1), 0).expect("it opens");
        let bytes = vec![2; 8 * PAGE];
        for piece in 0..PIECES {
            let at = piece % 8 * bytes.len() as u64;
            file.write_at(&bytes, at).await.expect("memory takes it");
            if piece % 8 == 7 {
                file.sync().await.expect("the store is well");
            }
        }
    });
    let busy = machine.processor_busy();
    let checks = busy.iter().map(|busy| busy.as_micros()).sum::<u64>();
    assert!(checks > 0, "no writer is checked");
    assert!(checks < PIECES / 2, "{checks} for {PIECES} pieces");
}
