//! What only the virtual body promises: the same seed gives the same run, the clock jumps, the
//! processors are shared, and a run that cannot go on names the tasks that wait.

use forebay_base::sync::lock;
use forebay_base::{Instant, Span};
use forebay_rt::virt::TaskState;
use forebay_rt::wait::WaitQueue;
use forebay_rt::{Rt, Virtual, VirtualSettings, Work, WorkCosts};
use std::collections::BTreeSet;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

fn machine(seed: u64, processors: usize) -> Virtual {
    Virtual::new(VirtualSettings {
        seed,
        processors,
        costs: WorkCosts {
            copy_page_ns: 250,
            ..WorkCosts::default()
        },
        ..VirtualSettings::default()
    })
}

fn at_millis(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// Tasks that sleep, work, yield and wake each other by chance; returns the order in which they
/// moved.
fn busy_run(seed: u64) -> (u64, Vec<u64>) {
    let machine = machine(seed, 2);
    let order = Arc::new(Mutex::new(Vec::new()));
    let bell = Arc::new(WaitQueue::new());
    for number in 0..20 {
        let (rt, order, bell) = (machine.rt(), Arc::clone(&order), Arc::clone(&bell));
        machine.rt().spawn("actor", async move {
            let mut chance = rt.stream(&format!("actor {number}"));
            for _ in 0..50 {
                lock(&order).push(number);
                match chance.below(4) {
                    0 => rt.sleep(Span::from_micros(chance.below(50))).await,
                    1 => {
                        rt.charge(Work::Copy {
                            pages: chance.below(9),
                        })
                        .await;
                    }
                    2 => rt.yield_now().await,
                    _ => {
                        bell.wake_one();
                        let _heard = rt.timeout(Span::from_micros(3), bell.listen()).await;
                    }
                }
            }
        });
    }
    machine.run_for(Span::from_secs(1));
    assert!(machine.tasks().is_empty(), "{:?}", machine.tasks());
    let order = std::mem::take(&mut *lock(&order));
    (machine.trace_hash(), order)
}

#[test]
fn one_seed_gives_one_run_and_another_seed_another() {
    let (hash, order) = busy_run(7);
    let again = busy_run(7);
    assert_eq!((hash, &order), (again.0, &again.1));
    let hashes: BTreeSet<u64> = (0..50).map(|seed| busy_run(seed).0).collect();
    assert_eq!(hashes.len(), 50);
    assert_ne!(order, busy_run(8).1);
}

#[test]
fn every_order_of_three_ready_tasks_comes() {
    let mut orders = BTreeSet::new();
    for seed in 0..100 {
        let machine = machine(seed, 1);
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..3 {
            let order = Arc::clone(&order);
            machine
                .rt()
                .spawn("ready", async move { lock(&order).push(number) });
        }
        machine.run_for(Span::ZERO);
        orders.insert(lock(&order).clone());
    }
    assert_eq!(orders.len(), 6);
}

#[test]
fn a_run_for_a_time_ends_exactly_there_and_goes_on_later() {
    let machine = machine(0, 1);
    let rt = machine.rt();
    let log = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&log);
    machine.rt().spawn("clock", async move {
        loop {
            rt.sleep(Span::from_millis(10)).await;
            lock(&times).push(rt.now().as_millis());
        }
    });
    machine.run_for(Span::from_millis(30));
    assert_eq!(machine.now(), at_millis(30));
    assert_eq!(*lock(&log), [10, 20, 30]);
    machine.run_until(at_millis(45));
    assert_eq!(machine.now(), at_millis(45));
    let answer = machine.run(async { 42 });
    assert_eq!((answer, machine.now()), (42, at_millis(45)));
    machine.run(machine.rt().sleep_until(at_millis(60)));
    assert_eq!(lock(&log)[..4], [10, 20, 30, 40]);
}

#[test]
fn two_tasks_on_one_processor_take_twice_the_time() {
    for (processors, together_ms) in [(1, 200), (2, 100)] {
        let machine = machine(3, processors);
        let ends = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (rt, ends) = (machine.rt(), Arc::clone(&ends));
            machine.rt().spawn("worker", async move {
                rt.charge(Work::Spend(Span::from_millis(100))).await;
                lock(&ends).push(rt.now());
            });
        }
        machine.run_for(Span::from_secs(1));
        // Slices of 4 ms: on one processor the first ends one slice before the second.
        let first_ms = if processors == 1 { 196 } else { 100 };
        assert_eq!(*lock(&ends), [at_millis(first_ms), at_millis(together_ms)]);
        let busy: u64 = machine
            .processor_busy()
            .iter()
            .map(|it| it.as_millis())
            .sum();
        assert_eq!(busy, 200);
    }
}

#[test]
fn a_short_job_waits_one_slice_and_not_a_whole_long_job() {
    let machine = machine(0, 1);
    let rt = machine.rt();
    let long = machine.rt();
    machine.rt().spawn("long", async move {
        long.charge(Work::Spend(Span::from_secs(1))).await;
    });
    machine.run_for(Span::from_millis(1));
    machine.run(async move {
        rt.charge(Work::Copy { pages: 4 }).await;
        assert_eq!(rt.now(), at_millis(4) + Span::from_micros(1));
    });
}

#[test]
fn a_task_of_small_jobs_has_the_same_share_as_one_of_large_jobs() {
    let machine = machine(1, 1);
    let ends = Arc::new(Mutex::new([Instant::ZERO; 2]));
    // Twelve milliseconds in jobs of 10 us, and as much in one job.
    for (which, job_us, jobs) in [(0, 10, 1_200), (1, 12_000, 1)] {
        let (rt, ends) = (machine.rt(), Arc::clone(&ends));
        machine.rt().spawn("worker", async move {
            for _ in 0..jobs {
                rt.charge(Work::Spend(Span::from_micros(job_us))).await;
            }
            lock(&ends)[which] = rt.now();
        });
    }
    machine.run_for(Span::from_secs(1));
    let mut ends = lock(&ends).map(Instant::as_millis);
    ends.sort_unstable();
    // By turns of 4 ms: the one that begins is one slice ahead.
    assert_eq!(ends, [20, 24]);
}

#[test]
fn a_job_that_is_given_up_frees_its_processor() {
    let machine = machine(0, 1);
    let rt = machine.rt();
    machine.run(async {
        let work = rt.charge(Work::Spend(Span::from_millis(3)));
        assert!(rt.timeout(Span::from_millis(1), work).await.is_err());
        rt.charge(Work::Spend(Span::from_millis(2))).await;
        // In the queue, not on the processor.
        let (first, second) = (rt.clone(), rt.clone());
        let holder = rt.spawn("holder", async move {
            first.charge(Work::Spend(Span::from_millis(2))).await;
        });
        second.sleep(Span::from_millis(1)).await;
        let queued = second.charge(Work::Spend(Span::from_millis(5)));
        assert!(second.timeout(Span::from_micros(1), queued).await.is_err());
        holder.join().await;
    });
    assert_eq!(machine.now(), at_millis(5));
    assert_eq!(machine.processor_busy(), [Span::from_millis(5)]);
}

#[test]
fn work_without_cost_takes_no_turn() {
    let machine = machine(0, 1);
    let before = machine.trace_hash();
    let rt = machine.rt();
    let charge = rt.charge(Work::LockHandover);
    machine.run(charge);
    assert_eq!(machine.now(), Instant::ZERO);
    assert_ne!(
        machine.trace_hash(),
        before,
        "the run itself is in the trace"
    );
}

#[test]
fn a_run_that_cannot_go_on_names_who_waits() {
    let machine = machine(0, 1);
    let rt = machine.rt();
    machine.rt().spawn("flusher", async move {
        rt.sleep(Span::from_millis(20)).await;
        pending::<()>().await;
    });
    let stuck = catch_unwind(AssertUnwindSafe(|| machine.run(pending::<()>())));
    let panic = stuck.expect_err("nothing wakes it");
    let message: &String = panic.downcast_ref().expect("a message");
    assert!(message.contains("at 20 ms"), "{message}");
    assert!(
        message.contains("task 0 'flusher' since 20 ms"),
        "{message}"
    );
    assert!(message.contains("task 1 'main' since 0 ns"), "{message}");
    // The machine can go on, without the future that was given up.
    assert_eq!(machine.run(async { 1 }), 1);
    let tasks = machine.tasks();
    assert_eq!(tasks.len(), 1);
    assert_eq!(
        (tasks[0].name, tasks[0].state),
        ("flusher", TaskState::Waiting)
    );
    assert_eq!(tasks[0].since, at_millis(20));
}

#[test]
fn the_panic_of_a_detached_task_ends_the_run() {
    let machine = machine(0, 1);
    drop(
        machine
            .rt()
            .spawn("unlucky", async { panic!("on purpose") }),
    );
    let run = catch_unwind(AssertUnwindSafe(|| machine.run_for(Span::from_millis(1))));
    let panic = run.expect_err("nobody else would hear of it");
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert!(machine.tasks().is_empty());
    assert_eq!(machine.run(async { 1 }), 1);
}

#[test]
fn tasks_end_with_their_machine() {
    let machine = machine(0, 1);
    let held = Arc::new(());
    let (rt, inside) = (machine.rt(), Arc::clone(&held));
    let task = machine.rt().spawn("daemon", async move {
        rt.sleep(Span::from_secs(60)).await;
        drop(inside);
    });
    machine.run_for(Span::from_secs(1));
    let rt = machine.rt();
    assert_eq!(Arc::strong_count(&held), 2);
    drop(machine);
    assert_eq!(Arc::strong_count(&held), 1);
    let late = Arc::clone(&held);
    let after = rt.spawn("late", async move { drop(late) });
    assert_eq!(Arc::strong_count(&held), 1);
    assert!(task.is_finished() && after.is_finished());
}

#[test]
fn a_run_inside_a_run_is_refused() {
    let machine = Arc::new(machine(0, 1));
    let inner = Arc::clone(&machine);
    let run = catch_unwind(AssertUnwindSafe(|| {
        machine.run(async move { inner.run(async {}) });
    }));
    assert!(run.is_err());
    assert_eq!(machine.run(async { 1 }), 1);
}

#[test]
fn an_hour_of_a_thousand_sleepers_is_nothing() {
    let machine = machine(0, 1);
    for _ in 0..1_000 {
        drop(machine.rt().spawn("sleeper", minutes(machine.rt())));
    }
    machine.run_for(Span::from_secs(3_600));
    assert!(machine.tasks().is_empty());
}

async fn minutes(rt: Rt) {
    for _ in 0..60 {
        rt.sleep(Span::from_secs(60)).await;
    }
}

#[test]
fn who_waits_for_a_lock_spins_and_pays() {
    let machine = Virtual::new(VirtualSettings {
        processors: 3,
        costs: WorkCosts {
            lru_lock_ns: 8_000,
            scan_page_ns: 1_000,
            ..WorkCosts::default()
        },
        ..VirtualSettings::default()
    });
    for _ in 0..3 {
        let rt = machine.rt();
        machine.rt().spawn("reclaimer", async move {
            rt.charge(Work::Scan { pages: 2 }).under_lock(0, 1).await;
        });
    }
    machine.run_for(Span::from_millis(1));
    let times = machine.processor_times();
    // 2 us of scanning each under 8 us of the lock; the second waits 8 us, the third 16 us.
    assert_eq!(times.spinning, Span::from_micros(24));
    assert_eq!(times.system, Span::from_micros(3 * 10 + 24));
    assert_eq!(times.by_task_name["reclaimer"], times.system);
    assert_eq!(times.user, Span::ZERO);
}

#[test]
fn a_processor_pays_for_changing_to_another_task_alone() {
    let machine = Virtual::new(VirtualSettings {
        costs: WorkCosts {
            switch_ns: 1_000_000,
            ..WorkCosts::default()
        },
        ..VirtualSettings::default()
    });
    let rt = machine.rt();
    machine.run(async move {
        rt.charge(Work::Spend(Span::from_millis(1))).await;
        rt.charge(Work::Spend(Span::from_millis(1))).await;
        assert_eq!(rt.now(), at_millis(3), "one change for both");
        rt.sleep(Span::from_millis(1)).await;
        rt.charge(Work::Spend(Span::from_millis(1))).await;
        assert_eq!(rt.now(), at_millis(6), "another after idling");
    });
    assert_eq!(machine.processor_times().switches, 2);
}

#[test]
#[should_panic(expected = "time stands still at 5000 us")]
fn tasks_that_go_round_in_one_instant_are_noticed() {
    let machine = machine(1, 1);
    let rt = machine.rt();
    machine.run(async move {
        rt.sleep(Span::from_millis(5)).await;
        loop {
            rt.yield_now().await;
        }
    });
}

/// A clock that went back would report events before they happen.
#[test]
fn a_jump_past_the_end_of_a_run_is_not_taken_back() {
    let machine = machine(1, 1);
    let (rt, clock) = (machine.rt(), machine.clock());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&seen);
    machine.rt().spawn("jumper", async move {
        clock.jump(Span::from_secs(60));
        lock(&times).push(rt.now());
        rt.sleep(Span::from_millis(500)).await;
        lock(&times).push(rt.now());
    });
    machine.run_for(Span::from_secs(1));
    assert_eq!(machine.now(), at_millis(60_000));
    machine.run_for(Span::from_secs(1));
    assert_eq!(machine.now(), at_millis(61_000));
    assert_eq!(*lock(&seen), [at_millis(60_000), at_millis(60_500)]);
}
