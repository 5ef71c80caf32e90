//! What each wrapper adds, in virtual time.

mod support;

use forebay_base::{Instant, Span};
use forebay_rt::{Rt, Virtual, VirtualSettings};
use forebay_store::{
    CountStore, DelayStore, Delays, Failure, Fault, FaultAction, FaultStore, FaultWhen, Finish,
    Geometry, Io, IoKind, Memory, MemoryStore, ObjectId, Rate, RateStore, Request, Store,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::Driver;
use support::arena::Arena;
use support::fixtures::WRAPPERS;

const OBJECT: ObjectId = ObjectId(1);

fn world() -> (Virtual, Rt) {
    let world = Virtual::new(VirtualSettings::default());
    let rt = world.rt();
    (world, rt)
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// Submits `count` writes of `length` bytes at once and returns when each was finished.
fn finish_times(world: &Virtual, driver: &Driver, count: u64, length: usize) -> Vec<Instant> {
    let tokens: Vec<u64> = (0..count)
        .map(|index| driver.submit_write(OBJECT, index * 65_536, &vec![7; length]))
        .collect();
    tokens
        .into_iter()
        .map(|token| {
            world.run(driver.finish(token)).expect("it is written");
            world.now()
        })
        .collect()
}

#[test]
fn delays_overlap() {
    let (world, rt) = world();
    let delays = Delays {
        write: Span::from_millis(3),
        ..Delays::default()
    };
    let driver = Driver::new(Arc::new(DelayStore::new(rt, memory(), delays)), 64);
    let times = finish_times(&world, &driver, 5, 4096);
    assert_eq!(times, [Instant::from_nanos(3_000_000); 5]);
    let token = driver.submit_read(OBJECT, 0, 4096);
    let at_once = driver.desk.try_take(token);
    assert!(at_once.is_some(), "a kind without a delay is not delayed");
}

#[test]
fn a_medium_passes_one_after_the_other() {
    let (world, rt) = world();
    let store = RateStore::new(rt, memory(), Rate::bytes(4_096_000));
    let driver = Driver::new(Arc::new(store), 64);
    let times = finish_times(&world, &driver, 4, 4096);
    let expected = [1, 2, 3, 4].map(|millis| Instant::ZERO + Span::from_millis(millis));
    assert_eq!(times, expected);
}

#[test]
fn a_medium_holds_30_megabytes_a_second() {
    let (world, rt) = world();
    let store = RateStore::new(rt, memory(), Rate::bytes(30_000_000));
    let driver = Driver::new(Arc::new(store), 2048);
    let times = finish_times(&world, &driver, 120, 65_536);
    let bytes = 120 * 65_536;
    let expected_ns = bytes * 1_000_000_000 / 30_000_000;
    let measured_ns = times.last().expect("there were writes").as_nanos();
    assert!(
        measured_ns.abs_diff(expected_ns) < 1_000,
        "{measured_ns} ns for {bytes} bytes"
    );
}

#[test]
fn operations_are_limited_as_well() {
    let (world, rt) = world();
    let rate = Rate {
        operations_per_s: 100,
        ..Rate::UNLIMITED
    };
    let driver = Driver::new(Arc::new(RateStore::new(rt, memory(), rate)), 64);
    let times = finish_times(&world, &driver, 3, 4096);
    assert_eq!(times[2], Instant::ZERO + Span::from_millis(30));
}

#[test]
fn an_idle_time_pays_for_one_burst() {
    let (world, rt) = world();
    let rate = Rate {
        burst_bytes: 3 * 4096,
        ..Rate::bytes(4_096_000)
    };
    let driver = Driver::new(Arc::new(RateStore::new(rt, memory(), rate)), 64);
    world.run_for(Span::from_secs(1));
    let start = world.now();
    let times = finish_times(&world, &driver, 5, 4096);
    let waited = times.iter().map(|&time| (time - start).as_millis());
    assert_eq!(waited.collect::<Vec<_>>(), [0, 0, 0, 1, 2]);
}

#[test]
fn a_changed_rate_is_that_of_the_rest() {
    let (world, rt) = world();
    let store = Arc::new(RateStore::new(rt, memory(), Rate::bytes(4_096)));
    let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 64);
    let first = driver.submit_write(OBJECT, 0, &[7; 4096]);
    let second = driver.submit_write(OBJECT, 4096, &[8; 4096]);
    world.run_for(Span::from_millis(250));
    assert_eq!(store.waiting(), 1, "the first is passing");
    store.set_rate(Rate::bytes(0));
    world.run_for(Span::from_secs(5));
    assert!(
        driver.desk.try_take(first).is_none(),
        "a stopped medium waits"
    );
    let started_again = world.now();
    store.set_rate(Rate::bytes(8_192));
    world.run(driver.finish(first)).expect("it is written");
    // Three quarters were left, at double speed.
    let waited = world.now() - started_again;
    assert!(waited.as_nanos().abs_diff(375_000_000) < 1_000, "{waited}");
    world.run(driver.finish(second)).expect("it is written");
    let waited = world.now() - started_again;
    assert!(waited.as_nanos().abs_diff(875_000_000) < 1_000, "{waited}");
}

#[test]
fn a_wrapper_dropped_with_requests_in_it_fails_them() {
    let (world, rt) = world();
    let store = RateStore::new(rt.clone(), memory(), Rate::bytes(1));
    let driver = Driver::new(Arc::new(store), 64);
    let tokens = [0, 4096].map(|offset| driver.submit_write(OBJECT, offset, &[7; 4096]));
    let held = FaultStore::new(rt, memory());
    held.inject(Fault::each(IoKind::Write, FaultAction::NeverAnswer));
    let held_driver = Driver::new(Arc::new(held), 64);
    let held_token = held_driver.submit_write(OBJECT, 0, &[7; 4096]);
    world.run_for(Span::from_secs(1));
    let Driver { store, desk, .. } = driver;
    drop(store);
    drop(held_driver.store);
    drop(world);
    for (desk, token) in [
        (&desk, tokens[0]),
        (&desk, tokens[1]),
        (&held_driver.desk, held_token),
    ] {
        let finished = desk.try_take(token).expect("it is finished");
        let error = finished.result.expect_err("it was not carried out");
        assert_eq!(error.failure, Failure::NoAnswer);
    }
}

fn faulty() -> (Virtual, Arc<MemoryStore>, Arc<FaultStore>, Driver) {
    let (world, rt) = world();
    let memory = memory();
    let store = Arc::new(FaultStore::new(rt, Arc::clone(&memory) as Arc<dyn Store>));
    let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 256);
    (world, memory, store, driver)
}

const BROKEN: Failure = Failure::Device(5);

#[test]
fn faults_strike_as_often_as_they_say() {
    for (when, expected) in [
        (FaultWhen::Always, [true, true, true, true]),
        (FaultWhen::First(2), [true, true, false, false]),
        (FaultWhen::Nth(3), [false, false, true, false]),
        (
            FaultWhen::Chance {
                numerator: 0,
                denominator: 2,
            },
            [false; 4],
        ),
    ] {
        let (_world, _, store, driver) = faulty();
        store.inject(Fault {
            when,
            ..Fault::each(IoKind::Write, FaultAction::Fail(BROKEN))
        });
        let failed = expected.map(|_| driver.write(OBJECT, 0, &[7; 4096]) == Err(BROKEN));
        assert_eq!(failed, expected, "{when:?}");
        let count = expected.iter().filter(|&&failed| failed).count();
        assert_eq!(store.injected(IoKind::Write), count as u64);
        assert_eq!(store.injected(IoKind::Read), 0);
    }
}

#[test]
fn chance_is_drawn_from_the_seed() {
    let outcomes = |seed| {
        let world = Virtual::new(VirtualSettings {
            seed,
            ..VirtualSettings::default()
        });
        let store = Arc::new(FaultStore::new(world.rt(), memory()));
        let when = FaultWhen::Chance {
            numerator: 1,
            denominator: 2,
        };
        store.inject(Fault {
            when,
            ..Fault::each(IoKind::Write, FaultAction::Fail(BROKEN))
        });
        let driver = Driver::new(store, 8);
        (0..64)
            .map(|_| driver.write(OBJECT, 0, &[7; 4096]).is_err())
            .collect::<Vec<_>>()
    };
    assert_eq!(outcomes(1), outcomes(1));
    assert_ne!(outcomes(1), outcomes(2));
    assert!(outcomes(1).contains(&true) && outcomes(1).contains(&false));
}

#[test]
fn faults_find_their_range_and_object() {
    let (_world, _, store, driver) = faulty();
    store.inject(Fault {
        object: Some(OBJECT),
        range_bytes: Some(8192..12_288),
        ..Fault::each(IoKind::Write, FaultAction::Fail(BROKEN))
    });
    let write = |object, offset| driver.write(object, offset, &[7; 8192]);
    assert_eq!(write(OBJECT, 0), Ok(()));
    assert_eq!(write(OBJECT, 4096), Err(BROKEN));
    assert_eq!(write(OBJECT, 8192), Err(BROKEN));
    assert_eq!(write(OBJECT, 12_288), Ok(()));
    assert_eq!(write(ObjectId(2), 8192), Ok(()));
    assert_eq!(driver.order(IoKind::Commit, OBJECT, 0, 0), Ok(()));
    store.clear();
    assert_eq!(write(OBJECT, 8192), Ok(()));
}

#[test]
fn a_torn_write_leaves_its_first_pages() {
    let (_world, memory, store, driver) = faulty();
    let torn = FaultAction::Torn {
        pages: 2,
        failure: BROKEN,
    };
    store.inject(Fault::each(IoKind::Write, torn));
    assert_eq!(driver.write(OBJECT, 0, &[7; 4 * 4096]), Err(BROKEN));
    assert!(memory.snapshot(OBJECT) == [7; 2 * 4096]);
    assert_eq!(driver.write(ObjectId(2), 0, &[7; 4096]), Err(BROKEN));
    assert_eq!(
        memory.length_bytes(ObjectId(2)),
        0,
        "the last page never is"
    );
}

#[test]
fn what_writes_no_pages_is_not_torn_and_just_fails() {
    let (_world, rt) = world();
    let counted = Arc::new(CountStore::new(rt.clone(), memory()));
    let store = Arc::new(FaultStore::new(rt, Arc::clone(&counted) as Arc<dyn Store>));
    let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 256);
    for kind in [IoKind::Read, IoKind::Write] {
        let torn = FaultAction::Torn {
            pages: 2,
            failure: BROKEN,
        };
        store.inject(Fault::each(kind, torn));
    }
    assert_eq!(driver.try_read(OBJECT, 0, 4 * 4096), Err(BROKEN));
    assert_eq!(driver.write(OBJECT, 0, &[7; 4096]), Err(BROKEN));
    for kind in [IoKind::Read, IoKind::Write] {
        assert_eq!(counted.counts(kind).requests, 0, "{kind:?}");
    }
}

/// The part that is written is made of pages that have as few bytes as the whole.
#[test]
fn a_torn_write_of_pages_without_bytes_leaves_zeros() {
    let (world, memory, store, driver) = faulty();
    let torn = FaultAction::Torn {
        pages: 1,
        failure: BROKEN,
    };
    store.inject(Fault::each(IoKind::Write, torn));
    let request = Request {
        kind: IoKind::Write,
        object: OBJECT,
        offset_bytes: 0,
        length_bytes: 8192,
    };
    let desk = Arc::clone(&driver.desk) as Arc<dyn Finish>;
    store.submit(Io::phantom(request, desk, 1));
    let finished = world.run(driver.desk.take(1));
    assert_eq!(finished.result, Err(request.error(BROKEN)));
    assert_eq!(memory.snapshot(OBJECT), [0; 4096]);
}

#[test]
fn what_never_answers_answers_when_released() {
    let (world, memory, store, driver) = faulty();
    store.inject(Fault {
        when: FaultWhen::First(1),
        ..Fault::each(IoKind::Write, FaultAction::NeverAnswer)
    });
    let token = driver.submit_write(OBJECT, 0, &[7; 4096]);
    driver
        .write(OBJECT, 4096, &[8; 4096])
        .expect("the next one passes");
    world.run_for(Span::from_secs(60));
    assert_eq!(store.held(), 1);
    assert!(memory.snapshot(OBJECT)[..4096] == [0; 4096]);
    assert_eq!(store.release(), 1);
    world.run(driver.finish(token)).expect("it is written");
    assert!(memory.snapshot(OBJECT)[..4096] == [7; 4096]);
}

#[test]
fn a_delayed_request_is_carried_out_later() {
    let (world, _, store, driver) = faulty();
    let late = FaultAction::Delay(Span::from_millis(40));
    store.inject(Fault {
        when: FaultWhen::Nth(2),
        ..Fault::each(IoKind::Write, late)
    });
    let times = finish_times(&world, &driver, 2, 4096);
    let millis: Vec<u64> = times.iter().map(|time| time.as_millis()).collect();
    assert_eq!(millis, [0, 40]);
}

#[test]
fn counts_add_up() {
    let (world, rt) = world();
    let delays = Delays {
        write: Span::from_millis(2),
        ..Delays::default()
    };
    let slow = Arc::new(DelayStore::new(rt.clone(), memory(), delays));
    let faulty = Arc::new(FaultStore::new(rt.clone(), slow));
    faulty.inject(Fault::each(IoKind::Read, FaultAction::Fail(BROKEN)));
    let store = Arc::new(CountStore::new(rt, faulty));
    let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 64);
    let tokens = [5000, 4096].map(|length| driver.submit_write(OBJECT, 0, &vec![7; length]));
    assert_eq!(store.in_flight(), 2);
    for token in tokens {
        world.run(driver.finish(token)).expect("it is written");
    }
    assert_eq!(driver.try_read(OBJECT, 0, 4096), Err(BROKEN));
    let writes = store.counts(IoKind::Write);
    assert_eq!((writes.requests, writes.bytes, writes.pages), (2, 9096, 3));
    assert_eq!(
        (writes.in_flight, writes.most_in_flight, writes.failed),
        (0, 2, 0)
    );
    assert_eq!(writes.spent, Span::from_millis(4));
    let reads = store.counts(IoKind::Read);
    assert_eq!(
        (reads.requests, reads.failed, reads.spent),
        (1, 1, Span::ZERO)
    );
}

/// A store that adds up which memory it may use.
#[derive(Default)]
struct Registry {
    registered_bytes: AtomicUsize,
    forgotten_bytes: AtomicUsize,
}

impl Store for Registry {
    fn geometry(&self) -> Geometry {
        MemoryStore::new().geometry()
    }

    fn submit(&self, io: Io) {
        io.succeed();
    }

    fn register_memory(&self, memory: &Memory) {
        self.registered_bytes
            .fetch_add(memory.length_bytes(), Ordering::Relaxed);
    }

    fn forget_memory(&self, memory: &Memory) {
        self.forgotten_bytes
            .fetch_add(memory.length_bytes(), Ordering::Relaxed);
    }
}

/// Memory that the kernel has pinned and that nobody forgets stays pinned when it is unmapped.
#[test]
fn each_wrapper_passes_on_which_memory_is_used() {
    let (_world, rt) = world();
    let arena = Arena::new(1);
    let memory = arena.memory();
    for (name, wrap) in WRAPPERS {
        let inner = Arc::new(Registry::default());
        let wrapper = wrap(rt.clone(), inner.clone());
        let seen = || {
            let both = [&inner.registered_bytes, &inner.forgotten_bytes];
            both.map(|bytes| bytes.load(Ordering::Relaxed))
        };
        wrapper.register_memory(memory);
        assert_eq!(seen(), [4096, 0], "{name}");
        wrapper.forget_memory(memory);
        assert_eq!(seen(), [4096, 4096], "{name}");
    }
}

#[test]
fn the_list_of_wrappers_has_each_of_them() {
    let source = include_str!("../src/wrap/mod.rs").lines();
    let files = source.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let listed = WRAPPERS.map(|(name, _)| name);
    assert_eq!(BTreeSet::from(listed), files.collect());
}
