//! A budget that follows the memory of the machine (docs/decisions/reclaim-and-memory.md).

use crate::support::{Bench, PAGE, simulate};
use forebay_base::units::byte_of;
use forebay_base::{Instant, Span};
use forebay_engine::elastic::{Cause, MemorySeen, MemoryStep, Scarce};
use forebay_engine::event::Event;
use forebay_engine::settings::{Elastic, PageMemory};
use forebay_engine::{BuildError, Cache, Counter, Settings};
use forebay_store::{Rate, RateStore};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const FLOOR_BYTES: u64 = 256 * MIB;
const CEILING_BYTES: u64 = 1_536 * MIB;
const GROUP_BYTES: u64 = 2_048 * MIB;
const FILE_BYTES: u64 = 2 << 30;
/// Frames that the cache has beyond its zones' whole pages.
const SLACK_BYTES: u64 = MIB;

fn settings() -> Settings {
    Settings {
        memory_bytes: CEILING_BYTES,
        elastic: Some(Elastic {
            floor_bytes: FLOOR_BYTES,
        }),
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    }
}

/// A full cache in a group in which a hog takes memory, and its watcher.
struct Group {
    bench: Bench,
    /// The least headroom at any look.
    least_bytes: u64,
    steps: Vec<(Instant, MemoryStep)>,
}

impl Group {
    fn frames_bytes(&self) -> u64 {
        byte_of(self.bench.cache.statistics().frames)
    }

    /// Watches until `end`, while others have `hog` at each second.
    async fn watch(&mut self, end: Span, hog: impl Fn(u64) -> u64) {
        let rt = self.bench.rt.clone();
        let began = rt.now();
        while rt.now().since(began) < end {
            let taken = hog(rt.now().since(began).as_millis());
            // As after a fall: a frame that came back takes nothing before a page is in it.
            let statistics = self.bench.cache.statistics();
            let used = byte_of(statistics.frames - statistics.free());
            let left = GROUP_BYTES.saturating_sub(taken + used);
            self.least_bytes = self.least_bytes.min(left);
            let seen = MemorySeen {
                headroom_bytes: left,
                free_bytes: left,
                is_pressed: false,
                scarce: Scarce::Group,
            };
            let look = self.bench.cache.memory_seen(&seen).expect("it is elastic");
            self.steps.extend(look.step.map(|step| (rt.now(), step)));
            rt.sleep(look.next_look).await;
        }
    }

    /// What was done is counted and recorded.
    fn assert_counted(&self) {
        let count = |counter| byte_of(self.bench.count(counter));
        let sum = |is_fall: bool| -> u64 {
            let steps = self.steps.iter().map(|(_, step)| step);
            let steps = steps.filter(|step| (step.to_bytes < step.from_bytes) == is_fall);
            steps
                .map(|step| step.from_bytes.abs_diff(step.to_bytes))
                .sum()
        };
        assert!(count(Counter::MemoryGivenRoom).abs_diff(sum(true)) < SLACK_BYTES);
        assert!(count(Counter::MemoryTaken).abs_diff(sum(false)) < SLACK_BYTES);
        assert_eq!(self.bench.count(Counter::MemoryGivenPressure), 0);
        let recorded = self.bench.ring.latest().into_iter();
        let recorded: Vec<_> = recorded
            .filter_map(|(at, event)| match event {
                Event::MemoryTarget { step } => Some((at, step)),
                _ => None,
            })
            .collect();
        assert!(self.steps.ends_with(&recorded) && !recorded.is_empty());
    }

    /// Reads as much as the cache holds.
    async fn fill(&self) {
        let file = self.bench.open(FILE_BYTES);
        let mut page = vec![0; 64 * PAGE];
        for at in (0..FILE_BYTES).step_by(page.len()) {
            file.read_at(&mut page, at).await.expect("it is read");
        }
    }
}

/// One GiB in 5 s, for a minute.
fn hog(now_ms: u64) -> u64 {
    if now_ms < 60_000 {
        1_024 * MIB * now_ms.min(5_000) / 5_000
    } else {
        0
    }
}

#[test]
fn a_hog_gets_memory_from_clean_pages_at_once_and_they_come_back() {
    simulate(1, |rt| async move {
        let bench = Bench::with(rt, settings(), |_, memory| memory);
        let mut group = Group {
            bench,
            least_bytes: u64::MAX,
            steps: Vec::new(),
        };
        group.fill().await;
        group.watch(Span::from_secs(60), hog).await;
        assert!(group.least_bytes > 0, "the group was never full");
        assert!(group.frames_bytes() <= GROUP_BYTES - 1_024 * MIB);
        assert_eq!(group.steps[0].1.cause, Cause::Room);
        group.watch(Span::from_secs(60), |_| 0).await;
        assert!(group.frames_bytes() * 100 >= CEILING_BYTES * 95);
        let elastic = group.bench.cache.statistics().elastic;
        assert_eq!(elastic.map(|it| it.turns), Some(1));
        group.bench.assert_consistent();
        group.assert_counted();
    });
}

#[test]
fn dirty_pages_follow_as_fast_as_their_store_takes_them() {
    simulate(2, |rt| async move {
        let rate = Rate {
            bytes_per_s: 100 << 20,
            ..Rate::UNLIMITED
        };
        let bench = Bench::with(rt, settings(), |rt, memory| {
            Arc::new(RateStore::new(rt, memory, rate))
        });
        let mut group = Group {
            bench,
            least_bytes: u64::MAX,
            steps: Vec::new(),
        };
        let file = group.bench.open(FILE_BYTES);
        let bytes = vec![1; 64 * PAGE];
        for at in 0..800 {
            file.write_at(&bytes, at * bytes.len() as u64)
                .await
                .expect("it is written");
        }
        group.watch(Span::from_secs(20), |_| 1_600 * MIB).await;
        let statistics = group.bench.cache.statistics();
        assert_eq!(statistics.pages_over, 0);
        assert!(group.frames_bytes() <= GROUP_BYTES - 1_600 * MIB + SLACK_BYTES);
        let text = group.bench.cache.why(None).to_string();
        let said = "elastic memory: the budget is ";
        let line = text.lines().find(|line| line.starts_with(said));
        assert!(
            line.is_some_and(|line| line.ends_with("were left in the group")),
            "{text}"
        );
        file.sync().await.expect("nothing is lost");
        group.bench.assert_consistent();
    });
}

/// Nothing is written up to the background limit or the age of 30 s. A store that is not known by
/// then holds its writers up as soon as the limits fall.
#[test]
fn a_store_is_measured_long_before_the_limits_can_fall() {
    for elastic in [None, settings().elastic] {
        let settings = Settings {
            elastic,
            ..settings()
        };
        simulate(3, move |rt| async move {
            let rate = Rate {
                bytes_per_s: 100 << 20,
                ..Rate::UNLIMITED
            };
            let bench = Bench::with(rt.clone(), settings, |rt, memory| {
                Arc::new(RateStore::new(rt, memory, rate))
            });
            let file = bench.open(FILE_BYTES);
            let bytes = vec![1; 64 * PAGE];
            for at in 0..160 {
                file.write_at(&bytes, at * bytes.len() as u64)
                    .await
                    .expect("it is written");
                rt.sleep(Span::from_millis(10)).await;
            }
            let store = &bench.cache.statistics().backings[0];
            let (rate, dirty) = (byte_of(store.write_bandwidth), byte_of(store.reclaimable));
            if elastic.is_none() {
                assert_eq!(dirty, 40 * MIB, "the background limit is not reached");
            } else {
                assert!(dirty < 40 * MIB, "{dirty}");
                assert!(rate.abs_diff(100 * MIB) <= 20 * MIB, "{rate}");
            }
            file.sync().await.expect("nothing is lost");
            bench.assert_consistent();
        });
    }
}

#[test]
fn pressure_takes_an_eighth_where_little_is_free() {
    simulate(3, |rt| async move {
        let bench = Bench::with(rt, settings(), |_, memory| memory);
        let mut seen = MemorySeen {
            headroom_bytes: CEILING_BYTES + 4 * MIB * 64,
            free_bytes: 10 * MIB,
            is_pressed: true,
            scarce: Scarce::Machine,
        };
        assert_eq!(
            bench.cache.memory_seen(&seen).and_then(|look| look.step),
            None
        );
        let step = bench.cache.memory_seen(&seen).and_then(|look| look.step);
        let step = step.expect("it gives");
        assert_eq!(
            (step.to_bytes, step.cause),
            (CEILING_BYTES / 8 * 7, Cause::Pressure)
        );
        assert!(step.to_string().ends_with(": programs waited for memory"));
        seen.free_bytes = GROUP_BYTES;
        bench.rt.sleep(Span::from_secs(3)).await;
        assert_eq!(
            bench.cache.memory_seen(&seen).and_then(|look| look.step),
            None
        );
        assert_eq!(bench.count(Counter::MemoryPressure), 3);
        assert!(bench.count(Counter::MemoryGivenPressure) > 0);
    });
}

#[test]
fn a_floor_has_to_be_a_budget() {
    let refused = |floor_bytes| {
        let elastic = Some(Elastic { floor_bytes });
        let refused = Cache::new(Settings {
            elastic,
            ..settings()
        });
        refused.map(drop).expect_err("it is no floor")
    };
    assert!(matches!(
        refused(CEILING_BYTES + 1),
        BuildError::BadSetting {
            setting: "elastic",
            ..
        }
    ));
    let BuildError::FloorTooSmall { needed_bytes, .. } = refused(0) else {
        panic!("it is too small");
    };
    let least = Cache::new(Settings {
        elastic: Some(Elastic {
            floor_bytes: needed_bytes,
        }),
        ..settings()
    });
    least.expect("what is named is enough");
    let fixed = Cache::new(Settings {
        elastic: None,
        ..settings()
    });
    let fixed = fixed.expect("the settings are good");
    assert_eq!(fixed.memory_seen(&MemorySeen::default()), None);
    assert_eq!(fixed.statistics().elastic, None);
}
