//! Writers and flushers as older kernels slowed them.

use crate::support::void::Void;
use crate::support::{Bench, OfSize, PAGE, page_of, simulate, simulated};
use forebay_base::Span;
use forebay_engine::event::Event;
use forebay_engine::{Counter, File, Settings};
use forebay_kernels::Policy;
use forebay_rt::Rt;
use forebay_store::{
    Fault, FaultAction, FaultWhen, Geometry, Io, IoKind, MemoryStore, ObjectId, Rate, RateStore,
    Store,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// 64 MiB in front of a store of 8 MiB/s.
fn slow(rt: Rt, policy: Policy) -> Bench {
    let settings = Settings {
        ..Settings::of_mib(64)
    }
    .under(policy);
    Bench::with(rt, settings, |rt, _| {
        Arc::new(RateStore::new(rt, Arc::new(Void), Rate::bytes(8 << 20)))
    })
}

fn preset(name: &str) -> Policy {
    Policy::preset(name).expect("a preset of this name")
}

async fn append(file: File, pages: u64) {
    for number in 0..pages {
        let written = file.write_at(&page_of(number), number * PAGE as u64).await;
        assert_eq!(written, Ok(()));
    }
}

/// What was seen of several writers after their first seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    foreground_writes: u64,
    /// Dirty pages and pages under writeback in percent of the dirty threshold, lowest and highest.
    lowest_percent: u64,
    highest_percent: u64,
    naps_ms: Vec<u64>,
    /// The most that a writer had written in one evaluation before it napped.
    most_before_nap: u64,
}

/// Four writers, each of its own file, for 20 s. What a store is taken for at first, and that its
/// share starts at nothing, would hide how they are slowed: the lab looks at a whole minute.
fn write_under(mut policy: Policy) -> Seen {
    for known in ["estimate=early", "store_shares=timed"] {
        assert_eq!(policy.set(known), Ok(()));
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let reported = seen.clone();
    let run = move |rt: Rt| async move {
        let bench = slow(rt.clone(), policy);
        let writers: Vec<_> = (1..=4)
            .map(|object| {
                let file = bench.open_object(ObjectId(object), 0);
                rt.spawn("writer", append(file, 12_000))
            })
            .collect();
        rt.sleep(Span::from_secs(5)).await;
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for _ in 0..100 {
            rt.sleep(Span::from_millis(100)).await;
            let now = bench.cache.statistics();
            let percent = now.dirty() * 100 / now.nr_dirty_threshold;
            (lowest, highest) = (lowest.min(percent), highest.max(percent));
        }
        for writer in writers {
            writer.join().await;
        }
        let naps = bench
            .events()
            .into_iter()
            .filter_map(|(_, event)| match event {
                Event::BalanceForeground {
                    nap_us,
                    pages_written,
                    ..
                } => Some((nap_us / 1_000, pages_written)),
                _ => None,
            });
        let (naps_ms, before_naps): (Vec<u64>, Vec<u64>) = naps.unzip();
        *reported.lock().expect("nobody panicked") = Seen {
            foreground_writes: bench.count(Counter::BalanceForegroundWrites),
            lowest_percent: lowest,
            highest_percent: highest,
            naps_ms,
            most_before_nap: before_naps.into_iter().max().unwrap_or_default(),
        };
        bench.cache.sync().await.expect("all is written");
        bench.assert_consistent();
    };
    simulate(3, run);
    seen.lock().expect("nobody panicked").clone()
}

#[test]
fn writers_of_old_write_themselves_just_below_the_limit() {
    for throttle in ["foreground", "foreground-2.6.32"] {
        let mut policy = preset("linux-3.1");
        assert_eq!(policy.set(&format!("dirty_throttle={throttle}")), Ok(()));
        let seen = write_under(policy);
        assert!(seen.foreground_writes > 1_000, "{throttle}");
        // From 7/8 of the limit on (spec/workloads.md 7.4, D1).
        assert!(seen.lowest_percent >= 80, "{throttle}: {seen:?}");
        assert!(seen.highest_percent <= 110, "{throttle}: {seen:?}");
        assert!(seen.naps_ms.iter().all(|&ms| ms <= 100), "{throttle}");
        assert!(
            seen.naps_ms.contains(&1),
            "{throttle}: the first nap is 1 ms"
        );
        // What it wrote counts towards its part, though it naps in between (spec/writeback.md 6.3).
        assert!(seen.most_before_nap > 0, "{throttle}");
    }
}

#[test]
fn since_3_2_writers_never_write() {
    let seen = write_under(preset("linux-3.2+small-chunk"));
    assert_eq!((seen.foreground_writes, seen.naps_ms), (0, vec![]));
    // The setpoint is halfway between 3/4 of the limit and the limit.
    assert!(seen.lowest_percent >= 75 && seen.highest_percent <= 100);
}

#[test]
fn a_writer_that_gives_up_in_the_middle_leaves_its_file_to_the_flusher() {
    simulate(4, |rt| async move {
        let bench = slow(rt.clone(), preset("linux-3.1"));
        let file = bench.open(0);
        let mut given_up = 0;
        for round in 0..200 {
            let bytes = vec![1; 256 * PAGE];
            let at = round * bytes.len() as u64;
            let writing = file.write_at(&bytes, at);
            given_up += u32::from(rt.timeout(Span::from_millis(7), writing).await.is_err());
        }
        assert!(given_up > 50, "{given_up}");
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
        assert_eq!(bench.cache.statistics().dirty(), 0);
    });
}

/// Notes the object of each write.
struct Order {
    inner: RateStore,
    writes: Arc<Mutex<Vec<(ObjectId, usize)>>>,
}

impl Store for Order {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, io: Io) {
        if io.request().kind == IoKind::Write {
            let write = (io.request().object, io.page_count());
            self.writes.lock().expect("nobody panicked").push(write);
        }
        self.inner.submit(io);
    }
}

/// How many pages of one file the flusher usually wrote before it turned to the other.
fn usual_turn(setting: &str) -> usize {
    let writes = Arc::new(Mutex::new(Vec::new()));
    let noted = writes.clone();
    let mut policy = Policy::default();
    assert_eq!(policy.set(setting), Ok(()));
    simulate(5, move |rt| async move {
        let settings = Settings {
            ..Settings::of_mib(256)
        }
        .under(policy);
        let bench = Bench::with(rt.clone(), settings, |rt, _| {
            let inner = RateStore::new(rt, Arc::new(Void), Rate::bytes(64 << 20));
            Arc::new(Order {
                inner,
                writes: noted,
            })
        });
        let writers = [1, 2].map(|object| {
            let file = bench.open_object(ObjectId(object), 0);
            rt.spawn("writer", append(file, 100_000))
        });
        for writer in writers {
            writer.join().await;
        }
        bench.assert_consistent();
    });
    let writes = writes.lock().expect("nobody panicked");
    let turns = writes.chunk_by(|one, next| one.0 == next.0);
    let mut counts = BTreeMap::new();
    for turn in turns {
        let pages: usize = turn.iter().map(|(_, pages)| pages).sum();
        *counts.entry(pages).or_insert(0) += 1;
    }
    let usual = counts.into_iter().max_by_key(|&(_, count)| count);
    usual.map_or(0, |(pages, _)| pages)
}

#[test]
fn a_turn_of_old_is_4_mib() {
    assert_eq!(usual_turn("flush_chunk=1024"), 1_024);
    // Half a second of bandwidth, but not more than an eighth of the limit.
    assert_eq!(usual_turn("flush_chunk=bandwidth"), 2_048);
}

/// The most pages that were under writeback at a time while a writer was faster than its store.
fn most_under_way(setting: &str) -> u64 {
    let most = Arc::new(Mutex::new(0));
    let reported = most.clone();
    let mut policy = Policy::default();
    assert_eq!(policy.set(setting), Ok(()));
    simulate(7, move |rt| async move {
        let bench = slow(rt.clone(), policy);
        let file = bench.open_object(ObjectId(1), 0);
        let writer = rt.spawn("writer", append(file, 12_000));
        // By then the store's rate is known.
        rt.sleep(Span::from_secs(3)).await;
        let mut highest = 0;
        for _ in 0..100 {
            rt.sleep(Span::from_millis(20)).await;
            highest = highest.max(bench.cache.statistics().nr_writeback);
        }
        writer.join().await;
        *reported.lock().expect("nobody panicked") = highest;
    });
    let most = most.lock().expect("nobody panicked");
    *most
}

#[test]
fn a_queue_of_old_runs_full() {
    // A fifth of a second at 8 MiB/s is 410 pages; a full queue holds everything that the flusher
    // has to write.
    let (fifth, full) = (
        most_under_way("write_depth=fifth"),
        most_under_way("write_depth=queue"),
    );
    assert!(fifth < 800 && full > 2 * fifth, "{fifth} and {full} pages");
}

#[test]
fn a_run_of_foreground_writers_repeats_itself() {
    let run = || {
        simulated(6, |rt| async move {
            let bench = slow(rt.clone(), preset("linux-3.1"));
            let writers = [1, 2, 3].map(|object| {
                let file = bench.open_object(ObjectId(object), 0);
                rt.spawn("writer", append(file, 6_000))
            });
            for writer in writers {
                writer.join().await;
            }
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn what_a_writer_leaves_when_it_gives_up_is_written_by_the_flusher() {
    for name in ["linux-2.6.36", "linux-3.0", "linux-3.2+foreground"] {
        simulate(4, |rt| async move {
            let settings = Settings {
                ..Settings::of_mib(8)
            }
            .under(preset(name));
            let geometry = Geometry {
                max_io_pages: 8,
                queue_depth: 1,
                ..MemoryStore::new().geometry()
            };
            let memory = MemoryStore::with(geometry);
            let (bench, faults) = Bench::faulty_over(rt.clone(), settings, memory);
            let file = bench.open(0);
            faults.inject(Fault {
                when: FaultWhen::Nth(6),
                ..Fault::each(IoKind::Write, FaultAction::NeverAnswer)
            });
            let mut gave_up = false;
            for page in 0..600 {
                let written = file.write_at(&page_of(page), page * PAGE as u64).await;
                gave_up |= written.is_err();
            }
            assert!(gave_up, "{name}: a request was never answered");
            faults.clear();
            faults.release();
            rt.sleep(Span::from_secs(120)).await;
            assert_eq!(bench.cache.statistics().dirty(), 0, "{name}");
        });
    }
}
