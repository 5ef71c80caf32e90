//! What a caller or a store does wrong: a typed error in bounded time, and the next call works.

use crate::support::{
    Bench, FILE, OfSize, PAGE, has_page, memory_of, page_of, pages, simulate, write_pages,
};
use forebay_base::{Instant, Span};
use forebay_engine::event::{Event, EventSink};
use forebay_engine::lab::LabCache;
use forebay_engine::lab::LabFile;
use forebay_engine::settings::{
    BackingSettings, DirtyKnobs, NodeSettings, Watermarks, ZoneSettings,
};
use forebay_engine::{AccessError, BuildError, Cache, Counter, Parts, Settings, SyncError};
use forebay_store::{
    Durability, Failure, Fault, FaultAction, FaultWhen, Geometry, Io, IoKind, MemoryStore,
    ObjectId, Store,
};
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The longest that a call may wait for an event that never comes: the two timeouts of the usual
/// settings, 30 s and 5 s, one after the other.
const BOUND: Span = Span::from_secs(36);

fn refusal(settings: Settings) -> BuildError {
    Cache::new(settings).expect_err("the settings are refused")
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_one_that_works() {
    for nodes in [1, 3] {
        let settings = |memory_bytes| Settings {
            memory_bytes,
            nodes: vec![NodeSettings::default(); nodes],
            prefault: false,
            ..Settings::default()
        };
        let BuildError::BudgetTooSmall { needed_bytes, .. } = refusal(settings(300_000)) else {
            panic!("300 kB are too small");
        };
        let built = Cache::new(settings(needed_bytes));
        assert!(built.is_ok(), "{nodes} nodes: {built:?}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let name = |change: fn(&mut Settings)| {
        let mut settings = Settings::of_mib(8);
        change(&mut settings);
        match refusal(settings) {
            BuildError::BadSetting { setting, .. } => setting,
            other => panic!("{other}"),
        }
    };
    let knobs = |dirty_ratio_percent, dirty_bytes| DirtyKnobs {
        dirty_ratio_percent,
        dirty_bytes,
        ..DirtyKnobs::default()
    };
    assert_eq!(name(|settings| settings.nodes.clear()), "nodes");
    assert_eq!(name(|settings| settings.nodes[0].zones.clear()), "nodes");
    assert_eq!(
        name(|settings| settings.nodes = vec![NodeSettings::default(); 17]),
        "nodes"
    );
    assert_eq!(
        name(|settings| settings.nodes[0].zones[0].weight = 0),
        "weight"
    );
    assert_eq!(
        name(|settings| {
            settings.nodes[0].zones[0].lowmem_reserve_pages = Some(vec![u64::MAX]);
        }),
        "lowmem_reserve_pages"
    );
    assert_eq!(
        name(|settings| {
            let (min, low, high) = (1, 2, u64::MAX);
            settings.nodes[0].zones[0].marks = Some(Watermarks { min, low, high });
        }),
        "marks"
    );
    assert_eq!(name(|settings| settings.swappiness = 201), "swappiness");
    assert_eq!(
        name(|settings| settings.watermark_scale_factor = 1_001),
        "watermark_scale_factor"
    );
    assert_eq!(name(|settings| settings.tick = Span::ZERO), "tick");
    assert_eq!(
        name(|settings| settings.answer_timeout = Span::ZERO),
        "answer_timeout"
    );
    assert_eq!(name(|settings| settings.objects_limit = 0), "objects_limit");
    for (dirty, setting) in [
        (knobs(101, 0), "dirty_ratio"),
        (knobs(20, 4_096), "dirty_bytes"),
    ] {
        let refused = refusal(Settings {
            dirty,
            ..Settings::of_mib(8)
        });
        assert!(
            matches!(refused, BuildError::BadSetting { setting: named, .. } if named == setting),
            "{refused}"
        );
    }
}

#[test]
fn weights_of_zones_may_be_as_large_as_can_be_said() {
    let weighed = |weights: [u64; 2]| {
        let zone = |weight| ZoneSettings {
            weight,
            ..ZoneSettings::default()
        };
        let zones = weights.map(zone).to_vec();
        Cache::new(Settings {
            nodes: vec![NodeSettings { zones }],
            ..Settings::of_mib(8)
        })
    };
    assert!(weighed([u64::MAX, u64::MAX]).is_ok(), "half of it each");
    let refused = weighed([u64::MAX, 1]).map(drop);
    assert!(
        matches!(refused, Err(BuildError::BudgetTooSmall { .. })),
        "{refused:?}"
    );
}

#[test]
fn what_cannot_be_attached_or_opened_is_refused() {
    let limited = Settings {
        objects_limit: 2,
        ..Settings::of_mib(8)
    };
    let cache = Cache::new(limited).expect("the settings are good");
    let ratios = |min_ratio_percent, max_ratio_percent| BackingSettings {
        min_ratio_percent,
        max_ratio_percent,
        ..BackingSettings::default()
    };
    let no_queue = BackingSettings {
        queue_requests: 0,
        ..BackingSettings::default()
    };
    for bad in [ratios(60, 50), ratios(0, 101), ratios(100, 100), no_queue] {
        let refused = cache.attach_with(Arc::new(MemoryStore::new()), bad);
        assert!(matches!(refused, Err(BuildError::BadSetting { .. })));
    }
    let store = cache
        .attach(Arc::new(MemoryStore::new()))
        .expect("the usual part is good");
    let long = cache.open(&store, FILE, u64::MAX).map(drop);
    assert!(matches!(long, Err(BuildError::TooLong { .. })), "{long:?}");
    let anonymous = cache.anonymous(4_096).map(drop);
    assert_eq!(anonymous, Err(BuildError::NoSwap { pages: 1 }));
    let swap = |bytes| cache.set_swap(&store, ObjectId(9), bytes);
    assert!(matches!(swap(4_096), Err(BuildError::BadSetting { .. })));
    assert_eq!(swap(1 << 20), Ok(()));
    assert!(matches!(swap(1 << 20), Err(BuildError::BadSetting { .. })));
    assert!(cache.anonymous(2 << 20).is_ok(), "memory holds the rest");
    let too_much = cache.anonymous(1 << 40).map(drop);
    assert_eq!(too_much, Err(BuildError::NoSwap { pages: 1 << 28 }));
    let open = |number| cache.open(&store, ObjectId(number), 0);
    let kept = (open(1).expect("one"), open(2).expect("two"));
    let third = open(3).map(drop);
    assert_eq!(third, Err(BuildError::TooManyObjects { limit: 2 }));
    drop(kept);
    assert!(open(3).is_ok(), "closed objects make room");
}

/// A file that was written and is durable owes nothing, and makes room too.
#[test]
fn written_objects_make_room_once_they_are_durable() {
    for (durability, is_durable) in [
        (Durability::OnFinish, true),
        (Durability::OnCommit, false),
        (Durability::Unstable, true),
    ] {
        simulate(1, |rt| async move {
            let settings = Settings {
                objects_limit: 2,
                ..Settings::of_mib(8)
            };
            let memory = Arc::new(memory_of(durability));
            let bench = Bench::around(rt.clone(), settings, memory.clone(), memory);
            for number in [1, 2] {
                let file = bench.open_object(ObjectId(number), 0);
                write_pages(&file, 0..4).await.expect("memory takes it");
            }
            // The flusher writes them, and commits if they would be unstable.
            rt.sleep(Span::from_secs(60)).await;
            let third = || bench.cache.open(&bench.store, ObjectId(3), 0).map(drop);
            let full = Err(BuildError::TooManyObjects { limit: 2 });
            assert_eq!(third(), if is_durable { Ok(()) } else { full });
            assert_eq!(bench.cache.sync().await, Ok(()));
            assert_eq!(third(), Ok(()), "{durability:?}");
            bench.assert_consistent();
        });
    }
}

/// A call that reads a page with the most guards that it may have fails, and so does a sync that
/// cannot hold it.
#[test]
fn a_page_has_a_limit_of_guards() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..1).await.expect("memory takes it");
        let mut guards = Vec::new();
        for _ in 0..65_280 {
            guards.push(file.page(0).await.expect("there is room for guards"));
        }
        let waited = Span::from_secs(5);
        let began = rt.now();
        let refused = AccessError::Held {
            object: FILE.0,
            page_index: 0,
            waited,
        };
        assert_eq!(file.page(0).await.map(drop), Err(refused));
        assert_eq!(rt.now().since(began), waited);
        assert_eq!(has_page(&file, 0).await, Err(refused));
        let synced = file.sync().await;
        assert!(matches!(synced, Err(SyncError::NotAnswering { .. })));
        guards.pop();
        assert_eq!(file.page(0).await.map(drop), Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        drop(guards);
        bench.assert_consistent();
    });
}

#[test]
fn nothing_is_read_past_the_end() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        bench.memory.fill(FILE, &[7; 5_000]);
        let file = bench.open(5_000);
        let mut bytes = [0; 4_096];
        assert_eq!(file.read_at(&mut bytes, 4_096).await, Ok(904));
        assert_eq!(file.read_at(&mut bytes, 5_000).await, Ok(0));
        assert_eq!(file.read_at(&mut bytes, u64::MAX).await, Ok(0));
        let mut more = [0; 9];
        let mut both = [IoSliceMut::new(&mut bytes), IoSliceMut::new(&mut more)];
        assert_eq!(file.read_vectored_at(&mut both, u64::MAX).await, Ok(0));
        let read = file.blocking().read_vectored_at(&mut both, u64::MAX);
        assert_eq!(read, Ok(0));
        let behind = file.page(2).await.map(drop);
        let Err(behind @ AccessError::TooFar { .. }) = behind else {
            panic!("{behind:?}");
        };
        assert_eq!(
            behind.to_string(),
            "byte 8192 is past the end of the object, 5000 bytes; ask for its length first"
        );
        let far = file.write_at(&bytes, u64::MAX - 5).await;
        assert!(matches!(far, Err(AccessError::TooFar { .. })));
        let far = file.truncate(u64::MAX).await;
        assert!(matches!(far, Err(AccessError::TooFar { .. })));
        assert_eq!(file.discard(9_000..u64::MAX).await, Ok(()));
        let read_only = bench
            .cache
            .open_read_only(&bench.store, ObjectId(2), 0)
            .expect("it opens");
        let refused = read_only.write_at(b"x", 0).await;
        assert_eq!(refused, Err(AccessError::ReadOnly { object: 2 }));
        bench.assert_consistent();
    });
}

/// Each handle decides whether its object may be changed, whoever opened the object first.
#[test]
fn handles_for_reading_alone_stand_beside_others() {
    simulate(1, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let open = |number, is_read_only: bool| {
            let (cache, object) = (&bench.cache, ObjectId(number));
            let opened = if is_read_only {
                cache.open_read_only(&bench.store, object, 0)
            } else {
                cache.open(&bench.store, object, 0)
            };
            opened.expect("it opens")
        };
        for (number, reader_is_first) in [(1, true), (2, false)] {
            let first = open(number, reader_is_first);
            let second = open(number, !reader_is_first);
            let (reader, writer) = if reader_is_first {
                (first, second)
            } else {
                (second, first)
            };
            assert_eq!(writer.write_at(b"word", 0).await, Ok(()));
            let refused = Err(AccessError::ReadOnly { object: number });
            for reader in [reader.clone(), reader.on_node(0), reader] {
                assert_eq!(reader.write_at(b"lie", 0).await, refused);
                assert_eq!(reader.truncate(1).await, refused);
                assert_eq!(reader.discard(0..2).await, refused);
                let mut bytes = [0; 4];
                assert_eq!(reader.read_at(&mut bytes, 0).await, Ok(4));
                assert_eq!(&bytes, b"word");
            }
        }
        bench.assert_consistent();
    });
}

#[test]
fn a_store_that_shrinks_reads_as_zeros_and_is_written_again() {
    simulate(2, |rt| async move {
        let bench = Bench::plain(rt, 8);
        bench.memory.fill(FILE, &pages(0..100));
        let file = bench.open(100 * PAGE as u64);
        assert_eq!(has_page(&file, 0).await, Ok(true));
        bench.memory.fill(FILE, &[]);
        let mut bytes = vec![1; PAGE];
        assert_eq!(file.read_at(&mut bytes, 90 * PAGE as u64).await, Ok(PAGE));
        assert_eq!(bytes, vec![0; PAGE]);
        write_pages(&file, 50..60).await.expect("memory takes it");
        file.sync().await.expect("the store takes it");
        assert!(bench.has_stored(50..60));
        bench.assert_consistent();
    });
}

#[test]
fn when_all_frames_are_held_callers_fail_and_are_served_later() {
    simulate(7, |rt| async move {
        let bench = Bench::plain(rt, 2);
        bench.memory.fill(FILE, &pages(0..1_000));
        let file = bench.open(1_000 * PAGE as u64);
        let mut guards = Vec::new();
        let error = loop {
            let began = bench.rt.now();
            let page = file.page(guards.len() as u64).await;
            assert!(bench.rt.now().since(began) <= BOUND);
            match page {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
        };
        let AccessError::NoFrames { held_pages, .. } = error else {
            panic!("{error}");
        };
        assert!(held_pages >= guards.len() as u64);
        assert!(guards.len() > 400, "nearly all of 504 frames");
        let written = bench.open_object(ObjectId(2), 0).write_at(b"x", 0).await;
        assert!(
            matches!(written, Err(AccessError::NoFrames { .. })),
            "{written:?}"
        );
        assert!((0..guards.len()).all(|at| *guards[at] == page_of(at as u64)[..]));
        drop(guards);
        assert_eq!(has_page(&file, 999).await, Ok(true));
        assert_eq!(write_pages(&file, 0..1_000).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

/// A caller for which nothing can be reclaimed looks at all memory again and again. It is a task
/// among others, so each of its polls has a bound.
#[test]
fn a_long_look_at_memory_that_is_held_lets_others_run() {
    /// How many pages a poll may look at, and the batch at whose end it stops.
    const POLL_PAGES: u64 = 32_768 + 4 * 32;
    simulate(7, |rt| async move {
        let bench = Bench::plain(rt, 160);
        let count = 160 << 8;
        bench.memory.fill(FILE, &vec![7; count * PAGE]);
        let file = bench.open((count * PAGE) as u64);
        let mut guards = Vec::new();
        let looked_at = || bench.count(Counter::PgscanDirect);
        loop {
            let before = looked_at();
            let (mut polls, mut call) = (0, pin!(file.page(guards.len() as u64)));
            let page = poll_fn(|context| {
                polls += 1;
                call.as_mut().poll(context)
            });
            let page = page.await;
            let pages = looked_at() - before;
            assert!(
                pages <= polls * POLL_PAGES,
                "{pages} pages in {polls} polls"
            );
            match page {
                Ok(guard) => guards.push(guard),
                Err(AccessError::NoFrames { .. }) => {
                    assert!(pages > 4 * POLL_PAGES, "{pages} show nothing");
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_page_under_a_guard_is_not_written() {
    simulate(8, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..4).await.expect("memory takes it");
        let guard = file.page(2).await.expect("it is there");
        let held = |result| matches!(result, Err(AccessError::Held { page_index: 2, .. }));
        let began = bench.rt.now();
        assert!(held(file.write_at(b"x", 2 * PAGE as u64).await));
        assert!(held(file.truncate(PAGE as u64).await));
        assert!(held(file.discard(0..4 * PAGE as u64).await));
        assert!(bench.rt.now().since(began) <= Span::from_secs(16));
        assert_eq!(*guard, page_of(2)[..]);
        assert_eq!(file.len(), 4 * PAGE as u64, "nothing was cut");
        drop(guard);
        assert_eq!(file.write_at(b"x", 2 * PAGE as u64).await, Ok(()));
        assert_eq!(file.truncate(PAGE as u64).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        bench.assert_consistent();
    });
}

#[test]
fn an_object_with_too_many_failed_pages_takes_no_new_ones() {
    simulate(9, |rt| async move {
        let (bench, faults) = Bench::faulty(rt, 8);
        faults.inject(Fault::each(
            IoKind::Write,
            FaultAction::Fail(Failure::NoSpace),
        ));
        let file = bench.open(0);
        let mut written = 0;
        let error = loop {
            match write_pages(&file, written..written + 1).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            if written % 10 == 0 {
                // It fails, which is what this test is about.
                let _ = file.sync().await;
            }
        };
        assert!(
            matches!(error, AccessError::TooManyFailed { object: 1, .. }),
            "{error}"
        );
        for number in 0..written {
            assert_eq!(has_page(&file, number).await, Ok(true), "page {number}");
        }
        let other = bench.open_object(ObjectId(2), 0);
        assert_eq!(other.write_at(b"x", 0).await, Ok(()), "others still may");
        faults.clear();
        let _ = file.sync().await;
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(write_pages(&file, written..written + 10).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        assert!(bench.has_stored(0..written + 10));
        bench.assert_consistent();
    });
}

#[test]
fn a_closed_cache_serves_what_it_has_and_takes_nothing() {
    simulate(10, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..4).await.expect("memory takes it");
        faults.inject(Fault {
            when: FaultWhen::First(1),
            ..Fault::each(IoKind::Write, FaultAction::Fail(Failure::NoSpace))
        });
        assert!(bench.cache.close().await.is_err(), "not while it is dirty");
        assert_eq!(write_pages(&file, 4..5).await, Ok(()), "it stayed open");
        assert_eq!(bench.cache.close().await, Ok(()));
        assert!(bench.has_stored(0..5));
        assert_eq!(has_page(&file, 1).await, Ok(true));
        assert_eq!(file.write_at(b"x", 0).await, Err(AccessError::Closed));
        assert_eq!(file.truncate(0).await, Err(AccessError::Closed));
        let opened = bench.cache.open(&bench.store, FILE, 0).map(drop);
        assert_eq!(opened, Err(BuildError::Closed));
        let parts = Parts { rt, sink: None };
        let another = Cache::with_parts(Settings::of_mib(8), parts);
        assert!(another.is_ok(), "another one can be built");
        bench.assert_consistent();
    });
}

#[test]
fn a_geometry_out_of_its_ranges_is_refused() {
    simulate(41, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let refused = |change: fn(&mut Geometry)| {
            let mut geometry = MemoryStore::new().geometry();
            change(&mut geometry);
            let attached = bench.cache.attach(Arc::new(MemoryStore::with(geometry)));
            attached.expect_err("it is out of its ranges")
        };
        for (change, setting) in [
            (
                (|it| it.max_io_pages = 0) as fn(&mut Geometry),
                "max_io_pages",
            ),
            (|it| it.write_unit_pages = 0, "write_unit_pages"),
            (|it| it.queue_depth = 0, "queue_depth"),
            (|it| it.block_bytes = 0, "block_bytes"),
            (|it| it.block_bytes = 256, "block_bytes"),
            (|it| it.block_bytes = 8192, "block_bytes"),
            (|it| it.block_bytes = 1536, "block_bytes"),
        ] {
            let refused = refused(change);
            assert!(
                matches!(refused, BuildError::BadSetting { .. }),
                "{refused}"
            );
            assert!(refused.to_string().contains(setting), "{refused}");
        }
    });
}

/// A store whose geometry is another one each time that it is asked.
struct Fickle {
    memory: MemoryStore,
    times_asked: AtomicU32,
}

impl Store for Fickle {
    fn geometry(&self) -> Geometry {
        let times = self.times_asked.fetch_add(1, Ordering::Relaxed);
        let max_io_pages = if times == 0 { 8 } else { 0 };
        Geometry {
            max_io_pages,
            ..self.memory.geometry()
        }
    }

    fn submit(&self, io: Io) {
        self.memory.submit(io);
    }
}

#[test]
fn a_store_is_asked_once_what_it_is_like() {
    simulate(42, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let store = Arc::new(Fickle {
            memory: MemoryStore::new(),
            times_asked: AtomicU32::new(0),
        });
        let attached = bench
            .cache
            .attach(store.clone())
            .expect("it is well at first");
        let file = bench
            .cache
            .open(&attached, ObjectId(5), 0)
            .expect("it is short");
        write_pages(&file, 0..100).await.expect("memory takes it");
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(store.times_asked.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_page_past_the_end_is_not_called_past_the_longest_object() {
    simulate(43, |rt| async move {
        let bench = Bench::plain(rt, 8);
        let file = bench.open(0);
        write_pages(&file, 0..2).await.expect("memory takes it");
        let past = file.page(7).await.map(drop).expect_err("it has two");
        let text = past.to_string();
        assert_eq!(
            text,
            "byte 28672 is past the end of the object, 8192 bytes; ask for its length first"
        );
        let far = file
            .write_at(&[1], u64::MAX - 1)
            .await
            .expect_err("it is far");
        assert!(far.to_string().contains("past the longest object"), "{far}");
    });
}

/// A sink that panics when its countdown of events reaches 0.
struct Panics(AtomicU64);

impl EventSink for Panics {
    fn record(&self, _at: Instant, _event: &Event) {
        assert_ne!(
            self.0.fetch_sub(1, Ordering::Relaxed),
            0,
            "a sink that fails"
        );
    }
}

#[test]
fn a_sink_that_panics_stops_neither_flusher_nor_callers() {
    for events in 0..8 {
        simulate(42, |rt| async move {
            let sink = Arc::new(Panics(AtomicU64::new(events)));
            let parts = Parts {
                rt: rt.clone(),
                sink: Some(sink.clone()),
            };
            let cache = Cache::with_parts(Settings::of_mib(8), parts).expect("it is built");
            let memory = Arc::new(MemoryStore::new());
            let store = cache.attach(memory.clone()).expect("it is attached");
            let file = cache.open(&store, FILE, 0).expect("it opens");
            for round in 0..3 {
                write_pages(&file, 0..100).await.expect("memory takes it");
                rt.sleep(Span::from_secs(60)).await;
                assert!(file.is_written(), "round {round} after {events} events");
            }
            assert_eq!(
                sink.0.load(Ordering::Relaxed),
                u64::MAX,
                "it is no longer called"
            );
            assert_eq!(cache.check(), Vec::<String>::new());
        });
    }
}
