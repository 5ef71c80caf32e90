//! Reclaim as older kernels did it: which reclaimers write file pages, and which of them nap.

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, page_of, simulated};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::kernel::{PastFileSystem, ReclaimWrites};
use forebay_engine::lab::LabCache;
use forebay_engine::settings::BackingSettings;
use forebay_engine::{Counter, Settings};
use forebay_kernels::Policy;
use forebay_law::limits::DirtyKnobs;
use forebay_rt::Rt;
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Run {
    policy: Policy,
    reclaim_writes: ReclaimWrites,
    queue_requests: u32,
    congested: bool,
}

impl Run {
    /// A preset with few writes of the flusher under way: a full queue would hold all 8 MiB, and
    /// reclaim would find every dirty page already under writeback.
    fn of(name: &str) -> Run {
        let run = Run {
            policy: Policy::preset(name).expect("a preset of this name"),
            reclaim_writes: ReclaimWrites::Always,
            queue_requests: BackingSettings::default().queue_requests,
            congested: false,
        };
        run.with("write_depth=fifth")
    }

    /// The same with one knob changed.
    fn with(mut self, setting: &str) -> Run {
        assert_eq!(self.policy.set(setting), Ok(()));
        self
    }

    /// One writer to a slow store and one reader compete for 8 MiB of memory.
    fn go(self) -> Seen {
        let seen = Arc::new(std::sync::Mutex::new(None));
        let reported = seen.clone();
        let hash = simulated(5, |rt| async move {
            let bench = press(rt, self).await;
            *reported.lock().expect("nobody panicked") = Some(bench);
        });
        let bench = seen.lock().expect("nobody panicked").take();
        Seen {
            bench: bench.expect("the simulation has ended"),
            hash,
        }
    }
}

struct Seen {
    bench: Bench,
    hash: u64,
}

impl Seen {
    fn count(&self, counter: Counter) -> u64 {
        self.bench.count(counter)
    }

    fn kswapd_file_writes(&self) -> u64 {
        self.count(Counter::NrVmscanWriteFile) - self.count(Counter::NrVmscanWriteFileDirect)
    }
}

async fn press(rt: Rt, run: Run) -> Bench {
    let settings = Settings {
        dirty: DirtyKnobs {
            dirty_ratio_percent: 75,
            background_ratio_percent: 60,
            ..DirtyKnobs::default()
        },
        ..Settings::of_mib(8)
    }
    .under(run.policy);
    let bench = Bench::with(rt.clone(), settings, |_, _| Arc::new(Void));
    let slow = RateStore::new(rt.clone(), Arc::new(Void), Rate::bytes(2 << 20));
    let stick = BackingSettings {
        queue_requests: run.queue_requests,
        ..BackingSettings::default()
    };
    let past = PastFileSystem {
        reclaim_writes: run.reclaim_writes,
        congestion: Some(Arc::new(move || run.congested)),
        ..PastFileSystem::default()
    };
    let attached = bench
        .cache
        .attach_past(Arc::new(slow), stick, past)
        .expect("a store is attached");
    let written = bench
        .cache
        .open(&attached, ObjectId(2), 0)
        .expect("it opens");
    let read = bench.open(1 << 40);
    let (clock, reader) = (rt.clone(), read.clone());
    let reading = rt.spawn("reader", async move {
        let mut buffer = vec![0; PAGE];
        for number in 0..20_000 {
            let done = reader.read_at(&mut buffer, number * PAGE as u64).await;
            assert_eq!(done, Ok(PAGE));
            if number % 8 == 0 {
                clock.sleep(Span::from_millis(1)).await;
            }
        }
    });
    for number in 0..3_000 {
        let done = written
            .write_at(&page_of(number), number * PAGE as u64)
            .await;
        assert_eq!(done, Ok(()));
    }
    reading.join().await;
    assert_eq!(written.sync().await, Ok(()));
    bench.assert_consistent();
    bench
}

#[test]
fn which_reclaimer_writes_file_pages_changes_from_stage_to_stage() {
    let seen = |stage: &str| {
        Run::of("linux-3.0")
            .with(&format!("reclaim_writeback={stage}"))
            .go()
    };
    let anybody = seen("a");
    assert!(anybody.count(Counter::NrVmscanWriteFileDirect) > 100);
    assert!(anybody.kswapd_file_writes() > 100);
    assert_eq!(anybody.count(Counter::NrVmscanWriteSkip), 0);
    assert_eq!(anybody.count(Counter::NrVmscanImmediateReclaim), 0);
    for stage in ["b", "e", "f2", "g", "h"] {
        let seen = seen(stage);
        assert_eq!(seen.count(Counter::NrVmscanWriteFileDirect), 0, "{stage}");
        let skips = seen.count(Counter::NrVmscanWriteSkip);
        let marks = seen.count(Counter::NrVmscanImmediateReclaim);
        let is_marked = stage != "b";
        assert_eq!((skips == 0, marks > 0), (is_marked, is_marked), "{stage}");
    }
    assert!(seen("b").kswapd_file_writes() > 50);
    assert_eq!(seen("h").kswapd_file_writes(), 0);
}

/// However long a queue claims to be, half as much again does not overflow.
#[test]
fn the_queue_of_a_store_may_be_as_long_as_can_be_said() {
    let endless = Run {
        queue_requests: u32::MAX,
        ..Run::of("linux-3.0").with("reclaim_writeback=a")
    };
    assert!(endless.go().count(Counter::NrVmscanWriteFileDirect) > 100);
}

#[test]
fn kswapd_writes_only_in_trouble_from_stage_e_on() {
    for stage in ["b", "e"] {
        let seen = Run::of("linux-3.0")
            .with(&format!("reclaim_writeback={stage}"))
            .go();
        // The event of a batch comes after the writes of the batch.
        let mut wrote = false;
        let mut gentle_writes = 0;
        for (_, event) in seen.bench.events() {
            match event {
                Event::MmVmscanWriteFolio { is_file, .. } => wrote |= is_file,
                Event::MmVmscanLruShrinkInactive { priority, .. } => {
                    gentle_writes += u32::from(wrote && priority >= 10);
                    wrote = false;
                }
                _ => {}
            }
        }
        assert_eq!(gentle_writes > 0, stage == "b", "{stage}: {gentle_writes}");
    }
}

#[test]
fn a_file_system_may_refuse_what_reclaim_asks_for() {
    let seen = |reclaim_writes| {
        let run = Run::of("linux-3.0");
        Run {
            reclaim_writes,
            ..run
        }
        .go()
    };
    let counts = |seen: &Seen| {
        let asked = seen.count(Counter::NrVmscanWriteFile);
        let asked_directly = seen.count(Counter::NrVmscanWriteFileDirect);
        (
            asked,
            asked_directly,
            seen.count(Counter::NrVmscanWriteRefused),
        )
    };
    let (asked, _, refused) = counts(&seen(ReclaimWrites::Always));
    assert!(asked > 0 && refused == 0);
    let (asked, asked_directly, refused) = counts(&seen(ReclaimWrites::KswapdOnly));
    assert!(asked > asked_directly && asked_directly > 0);
    assert_eq!(refused, asked_directly);
    let (asked, _, refused) = counts(&seen(ReclaimWrites::Never));
    assert_eq!(asked, refused);
    // The file only grows: no dirty page that reclaim meets has a place in the store yet.
    let (asked, _, refused) = counts(&seen(ReclaimWrites::Allocated));
    assert!(
        asked > 0 && refused * 10 > asked * 9,
        "{refused} of {asked}"
    );
}

/// Lengths of the waits for congestion, in ms: those that always sleep and those that may not.
fn naps(seen: &Seen) -> (Vec<u64>, Vec<u64>) {
    let (mut always, mut maybe) = (Vec::new(), Vec::new());
    for (_, event) in seen.bench.events() {
        match event {
            Event::WritebackCongestionWait { usec_delayed, .. } => always.push(usec_delayed / 1000),
            Event::WritebackWaitIffCongested { usec_delayed, .. } => {
                maybe.push(usec_delayed / 1000);
            }
            _ => {}
        }
    }
    (always, maybe)
}

#[test]
fn naps_last_their_whole_time_where_no_store_says_that_it_is_congested() {
    for name in ["linux-3.0", "linux-3.2", "linux-4.11", "linux-5.15"] {
        let (always, maybe) = naps(&Run::of(name).go());
        assert!(
            !always.is_empty() && always.iter().all(|&ms| ms == 100),
            "{name}"
        );
        assert!(
            !maybe.is_empty() && maybe.iter().all(|&ms| ms == 0),
            "{name}"
        );
    }
}

#[test]
fn callers_wait_for_a_store_that_says_that_it_is_congested() {
    let run = Run::of("linux-3.0");
    let congested = Run {
        congested: true,
        ..run
    };
    let (_, maybe) = naps(&congested.go());
    let slept = maybe.iter().filter(|&&ms| ms >= 20).count();
    assert!(slept > 0, "none of {}", maybe.len());
}

#[test]
fn a_caller_does_not_write_to_a_congested_store_that_is_not_its_own() {
    let run = Run::of("linux-3.0");
    let idle = run.go().count(Counter::NrVmscanWriteFileDirect);
    let congested = Run {
        congested: true,
        ..run
    };
    let seen = congested.go();
    // The reader is held back; the writer is not.
    let own = seen.count(Counter::NrVmscanWriteFileDirect);
    assert!(own < idle, "{own} of {idle}");
    assert!(seen.kswapd_file_writes() > 0, "kswapd is never held back");
}

/// The longest that each reason was allowed to wait, in ms.
fn timeouts(seen: &Seen, wanted: forebay_law::throttle::ThrottleReason) -> Vec<u64> {
    let of_event = |(_, event)| match event {
        Event::MmVmscanThrottled {
            usec_timeout,
            reason,
            ..
        } if reason == wanted => Some(usec_timeout / 1_000),
        _ => None,
    };
    seen.bench
        .events()
        .into_iter()
        .filter_map(of_event)
        .collect()
}

#[test]
fn the_first_versions_of_waiting_for_events_waited_longer() {
    use forebay_law::throttle::ThrottleReason::{Congested, NoProgress, Writeback};
    for (name, no_progress) in [("linux-5.15+throttle-v2", 100), ("linux-5.16-rc", 500)] {
        let seen = Run::of(name).go();
        let waits = timeouts(&seen, NoProgress);
        assert!(
            !waits.is_empty() && waits.iter().all(|&ms| ms == no_progress),
            "{name}"
        );
        assert!(
            timeouts(&seen, Writeback).iter().all(|&ms| ms == 100),
            "{name}"
        );
        assert_eq!(
            timeouts(&seen, Congested),
            [],
            "{name}: this reason came later"
        );
        assert_eq!(naps(&seen), (vec![], vec![]), "{name}");
    }
    let merged = Run::of("linux-5.16").go();
    assert!(timeouts(&merged, Congested).iter().all(|&ms| ms == 4));
    assert!(timeouts(&merged, NoProgress).iter().all(|&ms| ms == 4));
}

#[test]
fn callers_in_vain_ask_the_flushers_for_as_many_pages() {
    use forebay_engine::event::WritebackReason::Vmscan;
    let asked = |name| {
        let seen = Run::of(name).go();
        let of_event = |(_, event)| match event {
            Event::WritebackWritten {
                reason: Vmscan,
                pages,
                ..
            } => Some(pages),
            _ => None,
        };
        let all: Vec<u64> = seen
            .bench
            .events()
            .into_iter()
            .filter_map(of_event)
            .collect();
        all
    };
    assert!(!asked("linux-3.2").is_empty());
}

#[test]
fn a_run_under_each_preset_repeats_itself() {
    for name in Policy::presets() {
        let run = Run::of(name);
        assert_eq!(run.go().hash, run.go().hash, "{name}");
    }
}
