//! The picture of each law.

use forebay_law::at_risk::{drain_ms, due_ms};
use forebay_law::bandwidth::{BANDWIDTH_INTERVAL_MS, Bandwidth, Sample};
use forebay_law::blame::{BlameInputs, Cause, Suspect, shares_us};
use forebay_law::chunk::write_chunk;
use forebay_law::decision::{DecisionInputs, DirtierState, decide};
use forebay_law::drain::{DrainInputs, DrainLimit, MEASURED_MS};
use forebay_law::elastic::{Elastic, ElasticInputs, next_look_ms};
use forebay_law::limits::{DirtyLimits, LIMIT_INTERVAL_MS, SmoothedLimit, setpoint};
use forebay_law::line::Line;
use forebay_law::pace::{PaceInputs, pace as paced};
use forebay_law::pause::{DirtierClock, PauseSizing, Tick, size_pause};
use forebay_law::plot::{alone, closed_loop, sampled};
use forebay_law::position::polynomial;
use forebay_law::reach::{Probe, ReachInputs, ReadPace, reach as reach_after};
use forebay_law::readahead::next_size;
use forebay_law::refault::{WorkingsetSizes, activates};
use forebay_law::s3_fifo::{Fate, MOST_FREQUENT, Queue, fate};
use forebay_law::scan::{ReclaimCost, fractions};
use forebay_law::share::{GlobalCompletions, StoreCompletions, complete, share as share_of};
use forebay_law::shrink::{ShrinkInputs, demand};
use forebay_law::steady::Steady;
use forebay_law::swapahead::{SwapaheadInputs, window_pages};
use forebay_law::throttle::wakes_writeback_waiters;
use forebay_law::watermark::{MarkSpacing, Watermarks, min_free_kib, watermarks};

use crate::commits::group_commit;
use crate::picture::{Axis, Curve, Mark, Picture};

/// A law: its file and its picture.
pub(crate) struct Law {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) picture: fn() -> Picture,
}

macro_rules! laws {
    ($($name:ident),* $(,)?) => {
        [$(Law {
            name: stringify!($name),
            source: include_str!(concat!("../../../forebay-law/src/", stringify!($name), ".rs")),
            picture: $name,
        }),*]
    };
}

/// All laws, reclaim first.
pub(crate) const LAWS: [Law; 25] = laws! {
    watermark, scan, shrink, elastic, refault, s3_fifo, readahead, reach, swapahead, throttle,
    limits, share, drain, at_risk, bandwidth, steady, position, rate, pause, pace, decision, chunk,
    group_commit, line, blame,
};

fn curve(name: &str, points: impl IntoIterator<Item = (u64, u64)>) -> Curve {
    Curve {
        name: name.to_owned(),
        points: points.into_iter().collect(),
    }
}

/// A law asked at evenly spaced places.
fn even(name: &str, range: (u64, u64), steps: u64, law: impl Fn(u64) -> u64) -> Curve {
    let rows = sampled(range.0, range.1, steps, law);
    curve(name, rows.map(|row| (row.x, row.y)))
}

fn watermark() -> Picture {
    let marks = |mib: u64| {
        let pages = mib * 256;
        watermarks(
            min_free_kib(mib * 1024, 262_144),
            pages,
            pages,
            MarkSpacing::default(),
        )
    };
    let of =
        |name, mark: fn(Watermarks) -> u64| even(name, (0, 4_096), 256, |mib| mark(marks(mib)));
    Picture {
        title: "Marks of a zone that is alone",
        x: Axis::even("size of the zone (MiB)", (0, 4_096), 1),
        y: Axis::even("free pages", (0, 4_500), 1),
        curves: vec![
            of("high", |marks| marks.high),
            of("low", |marks| marks.low),
            of("min", |marks| marks.min),
        ],
        marks: vec![Mark::Upright("managed / 1000 = min / 4", 977)],
    }
}

fn scan() -> Picture {
    let part = |name, swappiness| {
        even(name, (0, 10_000), 400, move |anon| {
            let parts = fractions(ReclaimCost { anon, file: 1_000 }, swappiness);
            parts.anon * 1_000 / parts.denominator
        })
    };
    Picture {
        title: "What a pass takes from anonymous pages",
        x: Axis::even("cost of anonymous pages", (0, 10_000), 1),
        y: Axis::even("part of the pass (percent)", (0, 1_000), 10),
        curves: vec![
            part("swappiness 140", 140),
            part("swappiness 100", 100),
            part("swappiness 60", 60),
        ],
        marks: vec![Mark::Upright("cost of file pages", 1_000)],
    }
}

fn shrink() -> Picture {
    let asked = |name, seeks| {
        curve(
            name,
            (0..=12).rev().map(move |priority| {
                let inputs = ShrinkInputs {
                    freeable: 1_000_000,
                    deferred: 0,
                    seeks,
                    priority,
                };
                (u64::from(12 - priority), demand(&inputs).rest() / 1_000)
            }),
        )
    };
    Picture {
        title: "What a pass asks back of a cache of objects",
        x: Axis::even("how pressing it is (12 - priority)", (0, 12), 1),
        y: Axis::even("part of the cache (percent)", (0, 2_000), 10),
        curves: vec![
            asked("2 seeks", 2),
            asked("4 seeks", 4),
            asked("no seeks", 0),
        ],
        marks: vec![],
    }
}

fn refault() -> Picture {
    let longest = |active_file, swap_has_room| {
        let sizes = WorkingsetSizes {
            active_file,
            inactive_file: 100_000,
            active_anon: 60_000,
            inactive_anon: 40_000,
            swap_has_room,
        };
        (0..=600_000)
            .step_by(100)
            .take_while(|&distance| activates(distance, true, &sizes))
            .last()
            .unwrap_or(0)
    };
    let range = (0, 400_000);
    Picture {
        title: "The longest absence after which a file page is activated at once",
        x: Axis::even("active file pages (thousands)", (0, 400_000), 1_000),
        y: Axis::even("refault distance (thousands)", (0, 500_000), 1_000),
        curves: vec![
            even("with swap", range, 80, |active| longest(active, true)),
            even("without swap", range, 80, |active| longest(active, false)),
        ],
        marks: vec![Mark::Level("active anon + inactive anon", 100_000)],
    }
}

fn s3_fifo() -> Picture {
    let looks = |queue: Queue, touches: u64| {
        let (mut queue, mut frequency) = (queue, touches.min(MOST_FREQUENT));
        let mut looks = 1;
        loop {
            match fate(queue, frequency) {
                Fate::Evicted => return looks,
                Fate::ToMain => (queue, frequency) = (Queue::Main, 0),
                Fate::Round => frequency -= 1,
            }
            looks += 1;
        }
    };
    let of = |name, queue| {
        curve(
            name,
            (0..=6).map(|touches| (touches, looks(queue, touches))),
        )
    };
    Picture {
        title: "Looks before a page is evicted",
        x: Axis::even("touches after the first", (0, 6), 1),
        y: Axis::even("looks", (0, 5), 1),
        curves: vec![
            of("a page of main", Queue::Main),
            of("a page of the small queue", Queue::Small),
        ],
        marks: vec![Mark::Upright("most that are counted", MOST_FREQUENT)],
    }
}

fn readahead() -> Picture {
    let sizes = |name, max| {
        curve(
            name,
            (1..=max).map(move |size| (size, next_size(size, max))),
        )
    };
    Picture {
        title: "The window that follows",
        x: Axis::even("last window (pages)", (0, 128), 1),
        y: Axis::even("next window (pages)", (0, 128), 1),
        curves: vec![sizes("max 128", 128), sizes("max 32", 32)],
        marks: vec![Mark::Upright("max / 16", 8), Mark::Upright("max / 2", 64)],
    }
}

fn reach() -> Picture {
    const PAGES_PER_S: u64 = 25_600;
    let of = |name, latency_us: u64| {
        let known = ReadPace::default().observed(Probe {
            took_us: latency_us,
            ended_pages: 1,
            own_pages: 1,
            was_alone: true,
        });
        let windows = (0..=12).scan((known, 32), move |(pace, pages), window| {
            let drawn = (window, *pages);
            *pace = pace.observed(Probe {
                took_us: latency_us.max(*pages * 1_000_000 / PAGES_PER_S),
                ended_pages: *pages,
                own_pages: *pages,
                was_alone: false,
            });
            let inputs = ReachInputs {
                has_waited: true,
                pace: *pace,
                request_pages: 256,
                least_pages: 32,
                room_pages: u64::MAX,
                ..ReachInputs::default()
            };
            *pages = reach_after(*pages, &inputs);
            Some(drawn)
        });
        curve(name, windows)
    };
    Picture {
        title: "The reach of a reader that waits",
        x: Axis::even("windows read", (0, 12), 1),
        y: Axis::even("pages", (0, 4_000), 1),
        curves: vec![
            of("100 ms away", 100_000),
            of("20 ms away", 20_000),
            of("1 ms away", 1_000),
        ],
        marks: vec![],
    }
}

/// The limit of a promise of one second, every 200 ms. The rate that is known is a second late.
fn drain_of(name: &str, first_pages: u64, rate: impl Fn(u64, u64) -> u64) -> Curve {
    let mut limit = DrainLimit::of(first_pages);
    let mut known = rate(0, first_pages);
    let points = (0..500).map(move |step| {
        let (now_ms, drawn) = (step * LIMIT_INTERVAL_MS, limit.limit_pages);
        known = (known * 4 + rate(now_ms, drawn)) / 5;
        limit = limit.advanced(&DrainInputs {
            promise_ms: 1_000,
            average_pages_per_s: known,
            busy_ms: MEASURED_MS,
            floor_pages: 256,
            most_pages: 100_000,
            dirty_pages: drawn / 2,
            now_ms,
            ..DrainInputs::default()
        });
        (now_ms, drawn)
    });
    curve(name, points)
}

fn drain() -> Picture {
    let halves = |now_ms, _| match now_ms {
        20_000..60_000 => 5_000,
        _ => 10_000,
    };
    let seeks = |_, pages| 6_000 * pages / (pages + 3_000);
    Picture {
        title: "Pages that may be dirty for a promise of 1 s",
        x: Axis::even("time (s)", (0, 100_000), 1_000),
        y: Axis::even("pages", (0, 12_000), 1),
        curves: vec![
            drain_of("a rate that halves", 10_000, halves),
            drain_of("seeks, from above", 6_000, seeks),
            drain_of("seeks, from the floor", 256, seeks),
        ],
        marks: vec![],
    }
}

/// The age of the oldest byte of a store, milliseconds by milliseconds. Its writers want `wanted`
/// pages a millisecond, and it takes `rate`.
fn ages(name: &str, wanted: u64, rate: impl Fn(u64) -> u64) -> Curve {
    const AT_RISK_MS: u64 = 2_000;
    let most = rate(0) * drain_ms(AT_RISK_MS);
    let (mut dirty, mut left) = (0, 0);
    // The first byte of the pass under way, and the first that became dirty since it began.
    let (mut old, mut new): (Option<u64>, Option<u64>) = (None, None);
    let points = (0..10_000).map(move |now_ms| {
        let dirtied = wanted.min(most - dirty);
        dirty += dirtied;
        if dirtied > 0 {
            new.get_or_insert(now_ms);
        }
        let written = rate(now_ms).min(left);
        (dirty, left) = (dirty - written, left - written);
        if left == 0 {
            old = None;
            let is_due = new.is_some_and(|since| now_ms - since >= due_ms(AT_RISK_MS));
            if is_due || dirty > most / 2 {
                (left, old) = (dirty, new.take());
            }
        }
        (now_ms, old.or(new).map_or(0, |since| now_ms - since))
    });
    curve(name, points.step_by(20))
}

fn at_risk() -> Picture {
    let slows = |now_ms| if now_ms < 6_000 { 10 } else { 5 };
    Picture {
        title: "Age of the oldest byte with a limit of 2 s",
        x: Axis::even("time (s)", (0, 10_000), 1_000),
        y: Axis::even("age (ms)", (0, 3_000), 1),
        curves: vec![
            ages("a tenth of the rate", 1, |_| 10),
            ages("more than the rate", 20, |_| 10),
            ages("the same, slower", 20, slows),
        ],
        marks: vec![],
    }
}

/// The budget of a cache in a group of 2 GiB, in which others have `others` at each time, ms.
fn elastic_of(name: &str, others: impl Fn(u64) -> u64) -> Curve {
    const MIB: u64 = 1 << 20;
    let mut inputs = ElasticInputs {
        floor_bytes: 256 * MIB,
        ceiling_bytes: 1_536 * MIB,
        budget_bytes: 1_536 * MIB,
        headroom_bytes: 512 * MIB,
        ..ElasticInputs::default()
    };
    let mut law = Elastic::begun(&inputs);
    let mut points = Vec::new();
    while inputs.now_ms <= 300_000 {
        let used = inputs.budget_bytes + others(inputs.now_ms) * MIB;
        inputs.headroom_bytes = (2_048 * MIB).saturating_sub(used);
        let (next, change) = law.advanced(&inputs);
        law = next;
        points.push((inputs.now_ms, inputs.budget_bytes / MIB));
        if let Some(change) = change {
            inputs.budget_bytes = change.to_bytes;
            points.push((inputs.now_ms, inputs.budget_bytes / MIB));
        }
        inputs.now_ms += next_look_ms(&inputs, &law);
    }
    curve(name, points)
}

fn elastic() -> Picture {
    let taken = |since_ms: u64| 1_024 * since_ms.min(5_000) / 5_000;
    let once = move |now_ms| match now_ms {
        20_000..80_000 => taken(now_ms - 20_000),
        _ => 0,
    };
    let again = move |now_ms: u64| match now_ms % 80_000 {
        at @ 20_000..60_000 => taken(at - 20_000),
        _ => 0,
    };
    Picture {
        title: "Budget in a group of 2 GiB beside a program that takes 1 GiB",
        x: Axis::even("time (s)", (0, 300_000), 1_000),
        y: Axis::even("MiB", (0, 1_600), 1),
        curves: vec![
            elastic_of("once, for a minute", once),
            elastic_of("for 40 s every 80 s", again),
        ],
        marks: vec![],
    }
}

fn swapahead() -> Picture {
    let pages = |name, max_pages| {
        curve(
            name,
            (0..=32).map(move |hits| {
                let inputs = SwapaheadInputs {
                    previous_slot: 100,
                    slot: 500,
                    hits,
                    max_pages,
                    previous_pages: 0,
                };
                (hits, window_pages(&inputs))
            }),
        )
    };
    Picture {
        title: "Slots read with a swapped page",
        x: Axis::even("pages of the last window that were used", (0, 32), 1),
        y: Axis::even("window (pages)", (0, 36), 1),
        curves: vec![pages("max 32", 32), pages("max 8", 8)],
        marks: vec![],
    }
}

fn throttle() -> Picture {
    let needed = |waiters| {
        (0..=10_000)
            .find(|&written| wakes_writeback_waiters(written, waiters))
            .expect("ten thousand pages wake a hundred waiters")
    };
    Picture {
        title: "Pages to be written before the waiters are woken",
        x: Axis::even("waiters", (0, 64), 1),
        y: Axis::even("pages written since the first came", (0, 2_250), 1),
        curves: vec![even("all are woken", (1, 64), 63, needed)],
        marks: vec![],
    }
}

fn limits() -> Picture {
    let start = SmoothedLimit {
        limit: 200_000,
        updated_ms: 0,
    };
    let steps = std::iter::successors(Some(start), |limit| {
        Some(limit.advanced(120_000, 0, limit.updated_ms + LIMIT_INTERVAL_MS))
    });
    Picture {
        title: "The hard limit after the threshold fell",
        x: Axis::even("time (s)", (0, 60_000), 1_000),
        y: Axis::even("pages (thousands)", (100_000, 200_000), 1_000),
        curves: vec![curve(
            "hard limit",
            steps.take(301).map(|limit| (limit.updated_ms, limit.limit)),
        )],
        marks: vec![Mark::Level("thresh", 120_000)],
    }
}

fn share() -> Picture {
    let (mut of_busy, mut of_new) = (Vec::new(), Vec::new());
    let mut global = GlobalCompletions::default();
    let (mut busy, mut new) = (StoreCompletions::default(), StoreCompletions::default());
    for now_ms in (0..80_000).step_by(50) {
        complete(&mut global, &mut busy, 1_280, 1_024, now_ms);
        let Some(since_ms) = now_ms.checked_sub(60_000) else {
            continue;
        };
        let percent = |store: &mut StoreCompletions| {
            let part = share_of(&global, store);
            part.numerator * 1_000 / part.denominator
        };
        of_busy.push((since_ms, percent(&mut busy)));
        of_new.push((since_ms, percent(&mut new)));
        complete(&mut global, &mut new, 1_280, 1_024, now_ms);
    }
    Picture {
        title: "A store begins to write beside another of the same speed",
        x: Axis::even("time (s)", (0, 20_000), 1_000),
        y: Axis::even("share (percent)", (0, 1_000), 10),
        curves: vec![curve("the busy one", of_busy), curve("the new one", of_new)],
        marks: vec![Mark::Upright("one period", 3_000)],
    }
}

fn bandwidth() -> Picture {
    let steps = || {
        std::iter::successors(Some((0, Bandwidth::default())), |&(now_ms, bandwidth)| {
            let next = bandwidth.advanced(2_560, BANDWIDTH_INTERVAL_MS);
            Some((now_ms + BANDWIDTH_INTERVAL_MS, next))
        })
        .take(101)
    };
    Picture {
        title: "A store falls to half its speed",
        x: Axis::even("time (s)", (0, 20_000), 1_000),
        y: Axis::even("pages per second", (10_000, 26_000), 1),
        curves: vec![
            curve(
                "average",
                steps().map(|(ms, at)| (ms, at.average_pages_per_s)),
            ),
            curve("write", steps().map(|(ms, at)| (ms, at.write_pages_per_s))),
        ],
        marks: vec![Mark::Level("what the store does", 12_800)],
    }
}

/// The average of a store that falls to half its speed, every 200 ms.
fn halved(name: &str, leaps: bool, pages: impl Fn(u64) -> u64) -> Curve {
    let (mut run, mut known) = (Steady::default(), Bandwidth::default());
    let mut points = vec![(0, known.average_pages_per_s)];
    for step in 0..100 {
        let sample = Sample {
            written_pages: pages(step),
            elapsed_ms: BANDWIDTH_INTERVAL_MS,
            busy_us: BANDWIDTH_INTERVAL_MS * 1_000,
            ..Sample::default()
        };
        let sampled = known.sampled(sample);
        (run, known) = if leaps {
            run.advanced(sampled, sample)
        } else {
            (run, sampled)
        };
        let now_ms = (step + 1) * BANDWIDTH_INTERVAL_MS;
        points.push((now_ms, known.average_pages_per_s));
    }
    curve(name, points)
}

fn steady() -> Picture {
    let scattered = |step: u64| if step.is_multiple_of(2) { 3_840 } else { 1_280 };
    Picture {
        title: "A store falls to half its speed",
        x: Axis::even("time (s)", (0, 20_000), 1_000),
        y: Axis::even("average (pages per second)", (10_000, 26_000), 1),
        curves: vec![
            halved("average", false, |_| 2_560),
            halved("with a leap", true, |_| 2_560),
            halved("with a leap, samples that scatter", true, scattered),
        ],
        marks: vec![Mark::Level("what the store does", 12_800)],
    }
}

fn position() -> Picture {
    let limits = DirtyLimits {
        thresh: 200_000,
        background: 100_000,
    };
    let aim = setpoint(limits.freerun(), limits.thresh);
    let law = |dirty| polynomial(aim, dirty, limits.thresh) * 1_000 / 1_024;
    Picture {
        title: "By how much a writer's rate is scaled",
        x: Axis::even("dirty pages (thousands)", (140_000, 210_000), 1_000),
        y: Axis::even("polynomial (percent)", (0, 2_000), 10),
        curves: vec![even("polynomial", (140_000, 210_000), 280, law)],
        marks: vec![
            Mark::Upright("freerun", limits.freerun()),
            Mark::Upright("setpoint", aim),
            Mark::Upright("limit", limits.thresh),
        ],
    }
}

fn rate() -> Picture {
    let limits = DirtyLimits {
        thresh: 200_000,
        background: 100_000,
    };
    let samples = closed_loop(limits, 10, 25_600).take(151);
    Picture {
        title: "Ten writers find their rate",
        x: Axis::even("time (s)", (0, 30_000), 1_000),
        y: Axis::even("pages per second", (0, 30_000), 1),
        curves: vec![curve(
            "ratelimit",
            samples.map(|sample| (sample.now_ms, sample.ratelimit)),
        )],
        marks: vec![Mark::Level("bandwidth / writers", 2_560)],
    }
}

fn pause() -> Picture {
    let sized = |doublings: u64, tick| {
        let fair = 25_600 >> doublings;
        size_pause(25_600, fair, 100_000, fair, tick)
    };
    let of = |name, tick, value: fn(PauseSizing) -> u64| {
        curve(
            name,
            (0..=10).map(|doublings| (1 << doublings, value(sized(doublings, tick)))),
        )
    };
    Picture {
        title: "How writers that share a store are paused",
        x: Axis::log("writers", (1, 1_024)),
        y: Axis::even("ms, or pages", (0, 250), 1),
        curves: vec![
            of("target (ms)", Tick::FINE, |sizing| sizing.target_ms),
            of("quota (pages)", Tick::FINE, |sizing| {
                sizing.next_quota_pages
            }),
            of("target, tick of 4 ms", Tick::of_ms(4), |sizing| {
                sizing.target_ms
            }),
        ],
        marks: vec![Mark::Level("max_pause", 200)],
    }
}

fn pace() -> Picture {
    let sleep_us = |task_ratelimit| {
        let inputs = PaceInputs {
            dirtied_pages: 256,
            task_ratelimit,
            paused_when_us: None,
            now_us: 0,
            max_pause_us: 200_000,
        };
        paced(&inputs).sleep_us
    };
    Picture {
        title: "The sleep after a write of 1 MiB",
        x: Axis::even("rate of the writer (MB/s)", (0, 1_000), 256),
        y: Axis::even("ms", (0, 60), 1_000),
        curves: vec![even("sleep", (5_120, 256_000), 250, sleep_us)],
        marks: vec![Mark::Upright("30 MB/s", 7_680)],
    }
}

fn decision() -> Picture {
    let limits = DirtyLimits {
        thresh: 200_000,
        background: 100_000,
    };
    let pause_us = |writers: u64, dirty| {
        let clock = DirtierClock {
            nr_dirtied: 256,
            ..DirtierClock::default()
        };
        let inputs = DecisionInputs {
            position: alone(limits, dirty, 25_600),
            dirty_ratelimit: 25_600 / writers,
            before: DirtierState {
                clock,
                ..DirtierState::default()
            },
            now_us: 0,
            tick: Tick::FINE,
            is_paced: true,
        };
        decide(&inputs).pause_us
    };
    let of = |name, writers| {
        let range = (limits.freerun(), limits.thresh);
        even(name, range, 250, |dirty| pause_us(writers, dirty))
    };
    Picture {
        title: "The pause after a write of 1 MiB",
        x: Axis::even("dirty pages (thousands)", (150_000, 200_000), 1_000),
        y: Axis::even("ms", (0, 200_000), 1_000),
        curves: vec![of("one of ten writers", 10), of("the only writer", 1)],
        marks: vec![Mark::Upright(
            "setpoint",
            setpoint(limits.thresh, limits.freerun()),
        )],
    }
}

fn chunk() -> Picture {
    let law = |average| write_chunk(average, 200_000, u64::MAX);
    Picture {
        title: "Pages of one file in one turn",
        x: Axis::even("bandwidth (thousand pages per second)", (0, 80_000), 1_000),
        y: Axis::even("chunk (pages)", (0, 30_000), 1),
        curves: vec![even("chunk", (0, 80_000), 800, law)],
        marks: vec![Mark::Upright("average / 2 = dirty_limit / 8", 50_000)],
    }
}

fn line() -> Picture {
    // A line that was just measured at this rate.
    let law = |kib_per_s: u64| {
        let mut line = Line::default();
        for _ in 0..100 {
            line = line.sent(kib_per_s << 10, 1_000);
        }
        line.uploads_at_once(1 << 20) as u64
    };
    Picture {
        title: "Uploads of 1 MiB at once",
        x: Axis::even("rate of the line (KiB/s)", (0, 2_000), 1),
        y: Axis::even("uploads", (0, 20), 1),
        curves: vec![even("uploads", (0, 2_000), 500, law)],
        marks: vec![Mark::Upright("two at once", 205)],
    }
}

fn blame() -> Picture {
    let of = |name, suspect: Suspect| {
        even(name, (2, 100), 98, |percent| {
            let mut inputs = BlameInputs {
                store_pages_per_s: percent,
                store_pages_per_s_before: 100,
                ..BlameInputs::default()
            };
            inputs.waited_us[Cause::OwnRate as usize] = 1_000_000;
            shares_us(&inputs)[suspect as usize] / 1_000
        })
    };
    Picture {
        title: "Who is blamed for 1000 ms of pauses",
        x: Axis::even("rate of the store (% of a minute ago)", (0, 100), 1),
        y: Axis::even("blamed for (ms)", (0, 1_000), 1),
        curves: vec![
            of("the writer itself", Suspect::OwnRate),
            of("the store", Suspect::Store),
        ],
        marks: vec![],
    }
}
