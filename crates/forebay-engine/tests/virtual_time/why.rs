//! Who waited, for what, and who is to blame: the sums are exact, nobody waits without a cause, and
//! a planted culprit is named in the first line.

use crate::support::void::Void;
use crate::support::writers::{Writer, first_line, medium, open_for, paced};
use crate::support::{Bench, OfSize, PAGE, page_of, simulate};
use forebay_base::Span;
use forebay_engine::event::{CallKind, Event, WaitedCall};
use forebay_engine::histogram::BOUNDS_US;
use forebay_engine::why::{Cause, Suspect, WhyLine};
use forebay_engine::{Caller, Changes, Counter, Settings, StoreChanges, StoreKey};
use forebay_rt::{Rt, Task};
use forebay_store::{
    DelayStore, Delays, Durability, Failure, Fault, FaultAction, FaultStore, Geometry, IoKind,
    MemoryStore, Rate, RateStore, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The microseconds of the ledger for some causes.
fn ledger_us(bench: &Bench, causes: &[Cause]) -> u64 {
    let rows = bench.cache.wait_rows(None);
    rows.iter()
        .filter(|row| causes.contains(&row.cause))
        .map(|row| row.waited.as_micros())
        .sum()
}

const PAUSES: [Cause; 6] = [
    Cause::SilentStore,
    Cause::OwnRate,
    Cause::OthersDirty,
    Cause::Unmeasured,
    Cause::FailedPages,
    Cause::Along,
];

const FRAMES: [Cause; 6] = [
    Cause::NoFrames,
    Cause::ReclaimWriteback,
    Cause::ReclaimIsolated,
    Cause::ReclaimNoProgress,
    Cause::ReclaimCongested,
    Cause::DirectReclaim,
];

/// The histograms agree with the ledger, and the ledger with the counters.
fn assert_sums(bench: &Bench) {
    assert_histograms(bench);
    let pairs = [
        (
            &PAUSES[..],
            &[Counter::BalancePausedUs, Counter::BalanceAlongUs][..],
        ),
        (&FRAMES[..], &[Counter::AllocstallUs]),
        (
            &[Cause::SyncWrites, Cause::Commit],
            &[Counter::SyncWaitedUs],
        ),
    ];
    for (causes, counters) in pairs {
        let counted_us: u64 = counters.iter().map(|counter| bench.count(*counter)).sum();
        assert_eq!(ledger_us(bench, causes), counted_us, "{counters:?}");
    }
}

/// Invariant HT1, seen from outside.
fn assert_histograms(bench: &Bench) {
    let mut sums: BTreeMap<Cause, (u64, u64)> = BTreeMap::new();
    for row in bench.cache.wait_rows(None) {
        let sum = sums.entry(row.cause).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.waited.as_micros());
    }
    let histograms = bench.cache.histograms();
    let waits = histograms.waits.iter();
    let counted = waits.map(|(cause, times)| (*cause, (times.count(), times.sum_us)));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), sums);
    let calls: u64 = histograms.calls.iter().map(|(_, it)| it.count()).sum();
    assert!(sums.is_empty() || calls > 0);
}

#[test]
fn a_pause_is_in_the_ledger_with_its_caller_and_cause() {
    simulate(1, async |rt| {
        let bench = paced(rt.clone(), 32, 2_000);
        let writer = Writer::start(&rt, open_for(&bench, &bench.store, 1, "log"), 4, Span::ZERO);
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        assert_sums(&bench);
        let line = first_line(&bench);
        assert_eq!(line.caller.name(), "log");
        assert_eq!(line.verdict.first, Suspect::OwnRate);
        assert!(line.verdict.is_clear());
        assert!(line.savings.store_helps() && !line.savings.memory_helps());
        // Most of 30 s: the store takes far less than a writer without rest offers.
        assert!(line.waited > Span::from_secs(15), "{:?}", line.waited);
        let text = bench.cache.why(None).to_string();
        assert!(text.contains("1  log"), "{text}");
    });
}

#[test]
fn calls_that_wait_along_wait_for_the_cause_of_the_pause() {
    simulate(8, async |rt| {
        let bench = paced(rt.clone(), 32, 2_000);
        let file = Arc::new(open_for(&bench, &bench.store, 1, "log"));
        // Sixteen calls of one handle at a time: one of them pauses for all.
        let tasks = (0..16_u64).map(|part| {
            let file = file.clone();
            rt.spawn("writer", async move {
                for page in 0..1_000 {
                    let at = (page * 16 + part) * PAGE as u64;
                    file.write_at(&page_of(1), at)
                        .await
                        .expect("the store is well");
                }
            })
        });
        for task in tasks.collect::<Vec<Task>>() {
            task.join().await;
        }
        assert_sums(&bench);
        let (paused_us, along_us) = (
            bench.count(Counter::BalancePausedUs),
            bench.count(Counter::BalanceAlongUs),
        );
        assert!(
            along_us > paused_us,
            "{along_us} us along, {paused_us} us paused"
        );
        assert_eq!(ledger_us(&bench, &[Cause::Along]), 0);
        let line = first_line(&bench);
        assert_eq!(accused(&line), ("log", Suspect::OwnRate, true));
        assert_eq!(line.rows[0].cause, Cause::OwnRate);
    });
}

/// The line of `why` for the caller `name`.
fn line_of(bench: &Bench, name: &str) -> Option<WhyLine> {
    let why = bench.cache.why(None);
    why.lines
        .into_iter()
        .find(|line| line.caller.name() == name)
}

fn accused(line: &WhyLine) -> (&str, Suspect, bool) {
    let verdict = &line.verdict;
    (line.caller.name(), verdict.first, verdict.is_clear())
}

/// The records of calls in the events.
fn waited_calls(bench: &Bench) -> Vec<WaitedCall> {
    let of_event = |(_, event)| match event {
        Event::CallWaited { call } => Some(call),
        _ => None,
    };
    bench.events().into_iter().filter_map(of_event).collect()
}

#[test]
fn a_heavy_writer_is_named_first_and_is_the_culprit_of_a_light_one() {
    simulate(2, async |rt| {
        let medium = medium(rt.clone(), 4_000);
        let bench = Bench::new(rt.clone(), 32, |_, _| medium.clone());
        let open = |number, name| open_for(&bench, &bench.store, number, name);
        let heavy = Writer::start(&rt, open(1, "backup"), 16, Span::ZERO);
        let light = Writer::start(&rt, open(2, "log"), 1, Span::from_millis(20));
        rt.sleep(Span::from_secs(40)).await;
        heavy.end().await;
        light.end().await;
        assert_sums(&bench);
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("backup", Suspect::OwnRate, true));
        let log = line_of(&bench, "log").expect("the light one waited at the hard limit");
        assert_eq!(accused(&log), ("log", Suspect::OthersDirty, true));
        let culprit = log
            .culprit
            .expect("somebody else had most of what was dirty");
        assert_eq!(culprit.name(), "backup");
        let dirtiers = bench.cache.heaviest_callers();
        assert_eq!(dirtiers[0].0.name(), "backup");
        assert!(dirtiers[0].1 > 9 * dirtiers[1].1, "{dirtiers:?}");
    });
}

#[test]
fn what_each_caller_makes_dirty_is_counted_once() {
    simulate(16, async |rt| {
        let bench = paced(rt.clone(), 32, 5_000);
        let second = bench.cache.attach(medium(rt.clone(), 5_000));
        let second = second.expect("a store is attached");
        let pages = |of: &Bench| -> BTreeMap<(String, Option<usize>), u64> {
            let rows = of.cache.dirtied_rows(None).into_iter();
            rows.map(|row| {
                (
                    (of.cache.caller(row.caller).to_string(), row.bdi),
                    row.pages,
                )
            })
            .collect()
        };
        let log = open_for(&bench, &bench.store, 1, "log");
        for page in 0..1_000 {
            let at = page * PAGE as u64;
            log.write_at(&page_of(1), at).await.expect("it is well");
        }
        let other = open_for(&bench, &second, 1, "backup");
        let bytes = vec![1; 300 * PAGE];
        other.write_at(&bytes, 0).await.expect("it is well");
        // Dirty already, unless the flusher was faster; then the counter knows too.
        other.write_at(&bytes, 0).await.expect("it is well");
        drop((log, other));
        let stores = bench.cache.statistics().backings;
        let of = |name: &str, bdi: usize| ((name.to_owned(), Some(bdi)), stores[bdi].dirtied);
        let found = pages(&bench);
        assert_eq!(found, BTreeMap::from([of("log", 0), of("backup", 1)]));
        assert_eq!(stores[0].dirtied, 1_000);
        let all: u64 = found.values().sum();
        assert_eq!(all, bench.count(Counter::NrDirtied));
        let why = bench.cache.why(None);
        for line in &why.lines {
            let key = (line.caller.to_string(), line.bdi);
            assert_eq!(line.dirtied_pages, found[&key], "{line}");
            assert!(line.to_string().contains("it made "), "{line}");
        }
    });
}

#[test]
fn the_writer_of_a_slow_store_is_named_before_that_of_a_fast_one() {
    simulate(3, async |rt| {
        let bench = paced(rt.clone(), 64, 500);
        let fast = bench.cache.attach(medium(rt.clone(), 50_000));
        let fast = fast.expect("a store is attached");
        let slow = open_for(&bench, &bench.store, 1, "tape");
        let slow = Writer::start(&rt, slow, 8, Span::from_millis(5));
        let quick = open_for(&bench, &fast, 1, "flash");
        let quick = Writer::start(&rt, quick, 8, Span::from_millis(5));
        rt.sleep(Span::from_secs(60)).await;
        slow.end().await;
        quick.end().await;
        assert_sums(&bench);
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("tape", Suspect::OwnRate, true));
        assert_eq!(first.bdi, Some(0));
        let flash = line_of(&bench, "flash").map_or(Span::ZERO, |line| line.waited);
        assert!(flash.saturating_mul(10) < first.waited, "{flash}");
    });
}

#[test]
fn a_store_that_slowed_down_is_blamed_and_not_its_writer() {
    simulate(4, async |rt| {
        let medium = medium(rt.clone(), 5_000);
        let bench = Bench::new(rt.clone(), 64, |_, _| medium.clone());
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 4, Span::from_micros(600));
        rt.sleep(Span::from_secs(20)).await;
        assert_eq!(first_line(&bench).verdict.first, Suspect::OwnRate);
        medium.set_rate(Rate::bytes(500 * PAGE as u64));
        rt.sleep(Span::from_secs(40)).await;
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("log", Suspect::Store, true));
        assert_eq!(first.accusation(), "slow store 0");
        writer.end().await;
        assert_sums(&bench);
    });
}

#[test]
fn a_commit_that_is_stuck_is_named() {
    simulate(5, async |rt| {
        let geometry = Geometry {
            durability: Durability::OnCommit,
            ..MemoryStore::new().geometry()
        };
        let memory = MemoryStore::with(geometry);
        let (bench, faults) = Bench::faulty_over(rt.clone(), Settings::of_mib(16), memory);
        let delay = FaultAction::Delay(Span::from_secs(3));
        faults.inject(Fault::each(IoKind::Commit, delay));
        let file = open_for(&bench, &bench.store, 1, "journal");
        file.write_at(&page_of(1), 0).await.expect("there is room");
        file.sync().await.expect("the store is slow and well");
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("journal", Suspect::Commit, true));
        assert_eq!(first.waited.as_micros(), 3_000_000);
        let stalls = bench.cache.stalls(None);
        assert_eq!(stalls.len(), 1);
        assert_eq!(stalls[0].kind, CallKind::Sync);
        assert_eq!(stalls[0].bytes, PAGE as u64);
        assert_sums(&bench);
    });
}

#[test]
fn a_guard_that_is_held_is_named() {
    simulate(6, async |rt| {
        let bench = Bench::plain(rt.clone(), 16);
        let reader = bench.open(0);
        reader
            .write_at(&page_of(0), 0)
            .await
            .expect("there is room");
        let guard = reader.page(0).await.expect("it is there");
        let file = reader.for_caller(&Caller::process(7, "table"));
        let writes = rt.spawn("writer", async move {
            let written = file.write_at(&page_of(1), 0).await;
            written.expect("the guard is dropped in time");
        });
        rt.sleep(Span::from_secs(2)).await;
        drop(guard);
        writes.join().await;
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("table", Suspect::PageHeld, true));
        assert_eq!(first.caller.to_string(), "process 7 (table)");
        assert_eq!(first.waited, Span::from_secs(2));
    });
}

#[test]
fn nobody_waits_for_a_disk_that_refuses_every_write() {
    simulate(9, async |rt| {
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(Void)));
        let bench = Bench::new(rt.clone(), 32, |_, _| faults.clone());
        faults.inject(Fault::each(
            IoKind::Write,
            FaultAction::Fail(Failure::Device(5)),
        ));
        let file = open_for(&bench, &bench.store, 1, "log");
        // It offers many times what may be dirty: its writes are refused, and do not wait.
        let writer = Writer::start(&rt, file, 4, Span::from_millis(1));
        rt.sleep(Span::from_secs(20)).await;
        writer.end().await;
        assert!(bench.count(Counter::NrWriteFailed) > 1_000);
        let longest = waited_calls(&bench).iter().map(|call| call.took).max();
        assert!(longest.is_none_or(|took| took < Span::from_millis(500)));
        let line = bench.cache.why(None).lines.into_iter().next();
        assert!(line.is_none_or(|line| line.waited < Span::from_millis(500)));
    });
}

#[test]
fn a_disk_that_stands_still_is_named() {
    simulate(7, async |rt| {
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(Void)));
        let rate = Rate::bytes(2_000 * PAGE as u64);
        let medium = Arc::new(RateStore::new(rt.clone(), faults.clone(), rate));
        let bench = Bench::new(rt.clone(), 64, |_, _| medium);
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 4, Span::from_millis(1));
        rt.sleep(Span::from_secs(4)).await;
        faults.inject(Fault::each(IoKind::Write, FaultAction::NeverAnswer));
        rt.sleep(Span::from_secs(20)).await;
        faults.clear();
        faults.release();
        rt.sleep(Span::from_secs(1)).await;
        writer.end().await;
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("log", Suspect::Store, true), "{first}");
        assert_eq!(first.rows[0].cause, Cause::SilentStore);
        assert_sums(&bench);
    });
}

/// It takes nothing, so that its rate is never known. How much is due to that and how much to its
/// slow answers is a close call, so both are named.
#[test]
fn a_disk_that_fails_slowly_is_suspected() {
    simulate(15, async |rt| {
        let faults = Arc::new(FaultStore::new(rt.clone(), Arc::new(Void)));
        let delays = Delays {
            read: Span::ZERO,
            write: Span::from_secs(2),
            commit: Span::ZERO,
        };
        let slow = Arc::new(DelayStore::new(rt.clone(), faults.clone(), delays));
        let bench = Bench::new(rt.clone(), 16, |_, _| slow);
        let broken = FaultAction::Fail(Failure::Device(5));
        faults.inject(Fault::each(IoKind::Write, broken));
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 4, Span::from_millis(1));
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        let first = first_line(&bench);
        let suspects = [first.verdict.first, first.verdict.second];
        assert!(suspects.contains(&Suspect::Store), "{first}");
        assert!(suspects.contains(&Suspect::Unmeasured), "{first}");
        assert_sums(&bench);
    });
}

#[test]
fn a_sync_behind_a_backlog_says_how_much_was_dirty() {
    simulate(8, async |rt| {
        let bench = paced(rt.clone(), 64, 1_000);
        let file = open_for(&bench, &bench.store, 1, "mail");
        let bytes = vec![1; 1_000 * PAGE];
        file.write_at(&bytes, 0).await.expect("there is room");
        file.sync().await.expect("the store is well");
        let first = first_line(&bench);
        assert_eq!(accused(&first), ("mail", Suspect::Sync, true));
        let calls = waited_calls(&bench);
        let sync = calls.iter().find(|call| call.kind == CallKind::Sync);
        let sync = sync.expect("it waited");
        assert_eq!(sync.bytes, bytes.len() as u64);
        assert_eq!(
            sync.causes.iter().next().map(|it| it.0),
            Some(Cause::SyncWrites)
        );
        assert_sums(&bench);
    });
}

#[test]
fn a_step_of_the_dirty_limit_stops_nobody_for_long() {
    simulate(11, async |rt| {
        let bench = paced(rt.clone(), 64, 5_000);
        let file = open_for(&bench, &bench.store, 1, "log");
        let writer = Writer::start(&rt, file, 4, Span::ZERO);
        rt.sleep(Span::from_secs(30)).await;
        let step = Changes {
            dirty_ratio_percent: Some(1),
            background_ratio_percent: Some(0),
            ..Changes::default()
        };
        bench.cache.retune(&step).expect("it is allowed");
        let stepped = rt.now();
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        let after = waited_calls(&bench)
            .into_iter()
            .filter(|call| call.began >= stepped);
        let longest = after.map(|call| call.took).max().expect("it is slowed");
        assert!(longest <= Span::from_millis(200), "{longest}");
    });
}

/// A change of a knob of the cache and of a knob of a store.
fn of_store(change: StoreChanges) -> Changes {
    Changes {
        swappiness: Some(1),
        stores: vec![change],
        ..Changes::default()
    }
}

/// Values that would take all memory, or all time, and what is allowed in their place.
fn excessive() -> [(Changes, &'static str); 2] {
    let readahead = Changes {
        readahead_pages: Some(u64::MAX),
        ..Changes::default()
    };
    let interval = Changes {
        writeback_interval: Some(Span::from_micros(999)),
        ..Changes::default()
    };
    [
        (readahead, "0 to 1048576"),
        (interval, "0, or at least 1 ms"),
    ]
}

/// Changes that are refused, and what the refusal says is allowed.
fn refused() -> Vec<(Changes, &'static str)> {
    let cache = Changes::default;
    let store = || StoreChanges::of_store(StoreKey::numbered(0));
    let mut refused = vec![
        (
            of_store(StoreChanges::of_store(StoreKey::numbered(1))),
            "that is attached",
        ),
        (
            of_store(StoreChanges {
                max_ratio_percent: Some(101),
                ..store()
            }),
            "min_ratio_percent to 100",
        ),
        (
            of_store(StoreChanges {
                min_ratio_percent: Some(100),
                ..store()
            }),
            "less than 100 over all stores together",
        ),
    ];
    refused.extend([
        (
            Changes {
                swappiness: Some(201),
                ..cache()
            },
            "0 to 200",
        ),
        (
            Changes {
                dirty_ratio_percent: Some(101),
                ..cache()
            },
            "a percentage from 0 to 100",
        ),
        (
            Changes {
                dirty_bytes: Some(1),
                ..cache()
            },
            "0, or at least 8192",
        ),
        (
            Changes {
                memory_bytes: Some(17 << 20),
                ..cache()
            },
            "16777216",
        ),
        (
            Changes {
                memory_bytes: Some(1),
                ..cache()
            },
            "too small",
        ),
    ]);
    refused
}

#[test]
fn knobs_are_turned_together_or_not_at_all() {
    simulate(12, async |rt| {
        let bench = Bench::plain(rt, 16);
        let before = bench.cache.tuned();
        for (changes, allowed) in refused().into_iter().chain(excessive()) {
            let error = bench.cache.retune(&changes);
            let error = error.expect_err("it is not allowed");
            assert!(error.to_string().contains(allowed), "{error}");
            assert_eq!(bench.cache.tuned(), before, "{error}");
        }
        let change = of_store(StoreChanges {
            min_ratio_percent: Some(10),
            strict_limit: Some(true),
            ..StoreChanges::of_store(StoreKey::numbered(0))
        });
        let old = bench.cache.retune(&change).expect("it is allowed");
        let is = bench.cache.tuned();
        assert_eq!(
            (is.swappiness, is.stores[0].strict_limit),
            (Some(1), Some(true))
        );
        assert_eq!(bench.cache.times_tuned(), 1);
        bench.cache.retune(&old).expect("it was allowed before");
        assert_eq!(bench.cache.tuned(), before);
    });
}

#[test]
fn knobs_of_several_stores_need_only_be_allowed_at_the_end() {
    simulate(12, async |rt| {
        let bench = Bench::plain(rt, 16);
        let second = bench.cache.attach(Arc::new(MemoryStore::new()));
        let second = second.expect("a store is attached");
        let keys = [bench.store.key(), second.key()];
        let parts = |of_first, of_second| {
            let of = |key, percent| StoreChanges {
                min_ratio_percent: Some(percent),
                ..StoreChanges::of_store(key)
            };
            Changes {
                stores: vec![of(keys[0], of_first), of(keys[1], of_second)],
                ..Changes::default()
            }
        };
        let retune = |changes: &Changes| bench.cache.retune(changes).map_err(|it| it.to_string());
        assert_eq!(retune(&parts(10, 60)), Ok(parts(0, 0)));
        assert_eq!(retune(&parts(80, 10)), Ok(parts(10, 60)));
        let before = bench.cache.tuned();
        let refused = retune(&parts(20, 80)).expect_err("nothing is left for others");
        assert!(refused.contains("less than 100"), "{refused}");
        assert_eq!(bench.cache.tuned(), before);
        let twice = Changes {
            stores: [parts(5, 5).stores, parts(6, 6).stores].concat(),
            ..Changes::default()
        };
        let old = bench.cache.retune(&twice).expect("it is allowed");
        bench.cache.retune(&old).expect("it was allowed before");
        assert_eq!(bench.cache.tuned(), before);
    });
}

#[test]
fn a_call_that_is_dropped_tells_what_it_waited() {
    simulate(13, async |rt| {
        let (bench, faults) = Bench::faulty(rt.clone(), 16);
        faults.inject(Fault::each(IoKind::Read, FaultAction::NeverAnswer));
        let file = bench.open(PAGE as u64);
        let mut bytes = [0; 8];
        let read = rt.timeout(Span::from_secs(1), file.read_at(&mut bytes, 0));
        assert!(read.await.is_err(), "nobody answers it");
        let line = first_line(&bench);
        assert_eq!(line.verdict.first, Suspect::StoreRead);
        assert_eq!(line.caller.key(), file.caller());
        assert_eq!(line.waited, Span::from_secs(1));
        faults.clear();
        faults.release();
    });
}

#[test]
fn a_call_that_finds_all_in_memory_tells_nothing() {
    simulate(14, async |rt| {
        let bench = Bench::plain(rt, 16);
        let file = bench.open(0);
        let mut bytes = vec![0; 16 * PAGE];
        for _ in 0..100 {
            file.write_at(&bytes, 0).await.expect("there is room");
            file.read_at(&mut bytes, 0).await.expect("it is there");
        }
        assert_eq!(waited_calls(&bench), []);
        assert_eq!(bench.cache.wait_rows(None), []);
        assert_eq!(bench.cache.histograms().waits, []);
    });
}

/// A cache before a store that answers each kind of request after a time of its own.
fn delayed(rt: Rt, durability: Durability) -> Bench {
    Bench::new(rt, 16, |rt, _| {
        let geometry = Geometry {
            durability,
            ..MemoryStore::new().geometry()
        };
        let delays = Delays {
            read: Span::from_micros(80),
            write: Span::from_millis(2),
            commit: Span::from_millis(150),
        };
        let memory = Arc::new(MemoryStore::with(geometry));
        Arc::new(DelayStore::new(rt, memory, delays))
    })
}

#[test]
fn requests_are_counted_by_how_long_the_store_took() {
    for durability in [Durability::OnCommit, Durability::Unstable] {
        simulate(15, async |rt| {
            let bench = delayed(rt, durability);
            let file = bench.open(64 * PAGE as u64);
            let mut byte = [0];
            for page in [40, 40, 20] {
                let read = file.read_at(&mut byte, page * PAGE as u64).await;
                read.expect("it is there");
            }
            for page in [0, 8] {
                let written = file.write_at(&page_of(1), page * PAGE as u64).await;
                written.expect("there is room");
            }
            file.sync().await.expect("the store is well");
            let before = bench.cache.histograms();
            file.read_at(&mut byte, 0).await.expect("it is there");
            assert_eq!(bench.cache.histograms(), before, "a hit counts nothing");
            let all = before.requests.iter();
            let found: Vec<_> = all
                .map(|it| {
                    (
                        it.bdi,
                        it.kind,
                        it.times.buckets.iter().rposition(|&n| n > 0),
                    )
                })
                .collect();
            let bucket = |us| BOUNDS_US.iter().position(|&bound| us <= bound);
            let expected = [
                (0, IoKind::Read, bucket(80)),
                (0, IoKind::Write, bucket(2_000)),
                (0, IoKind::Commit, bucket(150_000)),
            ];
            assert_eq!(found, expected, "{durability:?}");
            let commits = before.requests[2].times;
            assert_eq!((commits.count(), commits.sum_us), (1, 150_000));
            let reads = before.requests[0].times;
            assert_eq!(reads.sum_us, 80 * reads.count());
            assert_histograms(&bench);
        });
    }
}
