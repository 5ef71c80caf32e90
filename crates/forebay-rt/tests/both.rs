//! What both bodies promise: each test runs in real time once and in virtual time under several
//! seeds. Nothing here asserts how long anything takes, only the order of events.

use forebay_base::sync::lock;
use forebay_base::{Instant, Span};
use forebay_rt::wait::{Gate, Permits, Slot, WaitQueue};
use forebay_rt::{Elapsed, Rt, Virtual, VirtualSettings, Work, block_on};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Virtual runs of each test.
const SEEDS: u64 = 20;

macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod real {
            $(#[test] fn $name() { super::on_real(super::$name); })*
        }
        mod virtual_time {
            $(#[test] fn $name() { super::on_virtual(super::$name); })*
        }
    };
}

on_both!(
    a_sleep_ends_at_its_time_and_not_before,
    timers_end_in_the_order_of_their_times,
    a_sleep_that_is_dropped_wakes_nobody,
    a_timeout_asks_the_work_first,
    a_timeout_drops_what_takes_too_long,
    tasks_run_and_are_joined,
    a_task_goes_on_when_its_handle_is_dropped,
    the_panic_of_a_task_comes_out_at_its_join,
    turns_are_never_lost,
    a_wake_up_before_the_first_poll_counts,
    waking_all_wakes_those_who_listen_now,
    a_wake_up_goes_on_when_its_listener_goes,
    permits_bound_what_runs_together,
    a_large_request_is_not_overtaken,
    a_request_that_is_dropped_makes_way,
    a_gate_lets_through_whoever_waited,
    a_slot_hands_over_one_value_after_another,
    yielding_lets_the_others_run,
    a_stream_is_known_by_its_name,
    work_ends,
);

fn on_real<F: Future<Output = ()>>(body: fn(Rt) -> F) {
    block_on(body(Rt::real()));
}

fn on_virtual<F: Future<Output = ()>>(body: fn(Rt) -> F) {
    for seed in 0..SEEDS {
        let machine = Virtual::new(VirtualSettings {
            seed,
            processors: 2,
            ..VirtualSettings::default()
        });
        machine.run(body(machine.rt()));
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

async fn a_sleep_ends_at_its_time_and_not_before(rt: Rt) {
    let started = rt.now();
    rt.sleep(millis(3)).await;
    assert!(rt.now().since(started) >= millis(3));
    rt.sleep(Span::ZERO).await;
    rt.sleep_until(started).await;
    assert!(poll_once(pin!(rt.sleep_until(Instant::NEVER))).is_pending());
}

async fn timers_end_in_the_order_of_their_times(rt: Rt) {
    let start = rt.now();
    let mut sleeps: Vec<_> = [3, 1, 2, 5, 4]
        .map(|after| rt.sleep_until(start + millis(after)))
        .into();
    sleeps.sort_by_key(|sleep| std::cmp::Reverse(sleep.deadline()));
    poll_fn(|context| {
        // Latest first: if one is over, so are all that are polled after it.
        let over: Vec<bool> = sleeps
            .iter_mut()
            .map(|sleep| Pin::new(sleep).poll(context).is_ready())
            .collect();
        assert!(over.is_sorted(), "{over:?}");
        if over[0] {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

async fn a_sleep_that_is_dropped_wakes_nobody(rt: Rt) {
    for _ in 0..100 {
        let mut sleep = pin!(rt.sleep(millis(50)));
        assert!(poll_once(sleep.as_mut()).is_pending());
    }
    let mut moved = Box::pin(rt.sleep(millis(2)));
    assert!(poll_once(moved.as_mut()).is_pending());
    // The waker of the last poll counts: this would never end with the first.
    rt.spawn("second poller", moved).join().await;
}

async fn a_timeout_asks_the_work_first(rt: Rt) {
    assert_eq!(rt.timeout(Span::ZERO, async { 5 }).await, Ok(5));
    let slow = async {
        rt.sleep(millis(1)).await;
        6
    };
    assert_eq!(rt.timeout(Span::from_secs(600), slow).await, Ok(6));
}

async fn a_timeout_drops_what_takes_too_long(rt: Rt) {
    let permits = Permits::new(1);
    let held = async {
        let _permit = permits.acquire(1).await;
        pending::<()>().await;
    };
    assert_eq!(rt.timeout(millis(1), held).await, Err(Elapsed));
    assert_eq!(permits.available(), 1);
}

async fn tasks_run_and_are_joined(rt: Rt) {
    let sum = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (1..=100)
        .map(|number| {
            let (sum, sleeper) = (Arc::clone(&sum), rt.clone());
            rt.spawn("adder", async move {
                sleeper.sleep(Span::from_micros(number as u64 % 7)).await;
                sum.fetch_add(number, Ordering::Relaxed);
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.name(), "adder");
        task.join().await;
    }
    assert_eq!(sum.load(Ordering::Relaxed), 5050);
}

async fn a_task_goes_on_when_its_handle_is_dropped(rt: Rt) {
    let done = Arc::new(Slot::new());
    let setter = Arc::clone(&done);
    let sleeper = rt.clone();
    drop(rt.spawn("detached", async move {
        sleeper.sleep(millis(1)).await;
        setter.set("done");
    }));
    assert_eq!(done.take().await, "done");
}

async fn the_panic_of_a_task_comes_out_at_its_join(rt: Rt) {
    let task = rt.spawn("unlucky", async { panic!("on purpose") });
    let mut join = pin!(task.join());
    let panic = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| join.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => panic!("the task did not panic"),
            Err(panic) => Poll::Ready(panic),
        }
    })
    .await;
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    rt.spawn("next", async {}).join().await;
}

/// Players that may move only in turn, and sleep while it is another's turn.
async fn turns_are_never_lost(rt: Rt) {
    const PLAYERS: usize = 4;
    const MOVES: usize = 2_000;
    let table = Arc::new((AtomicUsize::new(0), WaitQueue::new()));
    let players: Vec<_> = (0..PLAYERS)
        .map(|player| {
            let table = Arc::clone(&table);
            rt.spawn("player", async move {
                let (turn, moved) = &*table;
                for _ in 0..MOVES {
                    loop {
                        let listener = moved.listen();
                        if turn.load(Ordering::Acquire) % PLAYERS == player {
                            break;
                        }
                        listener.await;
                    }
                    turn.fetch_add(1, Ordering::AcqRel);
                    moved.wake_all();
                }
            })
        })
        .collect();
    for player in players {
        player.join().await;
    }
    assert_eq!(table.0.load(Ordering::Relaxed), PLAYERS * MOVES);
    assert_eq!(table.1.waiters(), 0);
}

async fn a_wake_up_before_the_first_poll_counts(_rt: Rt) {
    let queue = WaitQueue::new();
    let listener = queue.listen();
    assert_eq!(queue.waiters(), 1);
    assert_eq!(queue.wake_all(), 1);
    listener.await;
    assert_eq!(queue.wake_all(), 0);
    assert_eq!(queue.wake_one(), 0);
}

async fn waking_all_wakes_those_who_listen_now(_rt: Rt) {
    // More than are woken under one lock.
    let queue = WaitQueue::new();
    let mut listeners: Vec<_> = (0..50).map(|_| queue.listen()).collect();
    for listener in &mut listeners {
        assert!(poll_once(Pin::new(listener)).is_pending());
    }
    listeners.truncate(40);
    assert_eq!(queue.wake_all(), 40);
    let mut late = pin!(queue.listen());
    for listener in &mut listeners {
        assert!(poll_once(Pin::new(listener)).is_ready());
    }
    assert!(poll_once(late.as_mut()).is_pending());
    assert_eq!(queue.waiters(), 1);
}

async fn a_wake_up_goes_on_when_its_listener_goes(_rt: Rt) {
    let queue = WaitQueue::new();
    let first = queue.listen();
    let mut second = pin!(queue.listen());
    let mut third = pin!(queue.listen());
    assert_eq!(queue.wake_one(), 1);
    assert!(poll_once(second.as_mut()).is_pending());
    drop(first);
    assert!(poll_once(second.as_mut()).is_ready());
    assert!(poll_once(third.as_mut()).is_pending());
    assert_eq!(queue.wake_all(), 1);
    assert!(poll_once(third.as_mut()).is_ready());
}

async fn permits_bound_what_runs_together(rt: Rt) {
    const TOTAL: usize = 5;
    let permits = Arc::new(Permits::new(TOTAL));
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let (permits, inside) = (Arc::clone(&permits), Arc::clone(&inside));
            let worker = rt.clone();
            rt.spawn("holder", async move {
                let permit = permits.acquire_owned(1 + number % TOTAL).await;
                let before = inside.fetch_add(permit.count(), Ordering::AcqRel);
                assert!(before + permit.count() <= TOTAL);
                worker.sleep(Span::from_micros(20)).await;
                inside.fetch_sub(permit.count(), Ordering::AcqRel);
            })
        })
        .collect();
    for task in tasks {
        task.join().await;
    }
    assert_eq!(permits.available(), TOTAL);
    assert_eq!(permits.waiters(), 0);
}

async fn a_large_request_is_not_overtaken(_rt: Rt) {
    let permits = Permits::new(3);
    let one = permits.acquire(1).await;
    let mut all = pin!(permits.acquire(3));
    let mut small = pin!(permits.acquire(1));
    assert!(poll_once(all.as_mut()).is_pending());
    assert!(poll_once(small.as_mut()).is_pending());
    assert!(permits.try_acquire(1).is_none(), "two wait before it");
    drop(one);
    let Poll::Ready(all) = poll_once(all.as_mut()) else {
        panic!("the large request came first");
    };
    assert!(poll_once(small.as_mut()).is_pending());
    drop(all);
    assert!(poll_once(small.as_mut()).is_ready());
    assert_eq!(permits.available(), 3);
}

async fn a_request_that_is_dropped_makes_way(_rt: Rt) {
    let permits = Permits::new(2);
    let held = permits.acquire(1).await;
    let too_large = permits.acquire(2);
    let mut small = pin!(permits.acquire(1));
    assert!(poll_once(small.as_mut()).is_pending());
    drop(too_large);
    assert!(poll_once(small.as_mut()).is_ready());
    let granted = permits.acquire(1);
    let waiting = permits.acquire(1);
    drop(held);
    // Both were granted and never polled: what they got comes back.
    drop(granted);
    drop(waiting);
    assert_eq!(permits.available(), 2);
}

async fn a_gate_lets_through_whoever_waited(rt: Rt) {
    let gate = Arc::new(Gate::new(false));
    let passed = Arc::new(AtomicUsize::new(0));
    let guests: Vec<_> = (0..8)
        .map(|_| {
            let (gate, passed) = (Arc::clone(&gate), Arc::clone(&passed));
            rt.spawn("guest", async move {
                gate.wait().await;
                passed.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let mut waiting = pin!(gate.wait());
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(passed.load(Ordering::Relaxed), 0);
    assert!(gate.open() >= 1);
    for guest in guests {
        guest.join().await;
    }
    gate.close();
    assert!(poll_once(waiting).is_ready(), "it opened meanwhile");
    assert!(poll_once(pin!(gate.wait())).is_pending());
    assert_eq!(passed.load(Ordering::Relaxed), 8);
}

async fn a_slot_hands_over_one_value_after_another(rt: Rt) {
    let there = Arc::new(Slot::new());
    let back = Arc::new(Slot::new());
    let echo = {
        let (there, back) = (Arc::clone(&there), Arc::clone(&back));
        rt.spawn("echo", async move {
            for _ in 0..500 {
                back.set(there.take().await);
            }
        })
    };
    for number in 0..500 {
        there.set(number);
        assert_eq!(back.take().await, number);
    }
    echo.join().await;
    assert!(poll_once(pin!(there.take())).is_pending());
    there.set(7);
    assert!(there.is_set());
    assert_eq!(
        there.try_take(),
        Some(7),
        "the taker that was dropped took nothing"
    );
}

async fn yielding_lets_the_others_run(rt: Rt) {
    let stop = Arc::new(AtomicBool::new(false));
    let log = Arc::new(Mutex::new(Vec::new()));
    let setter = {
        let (stop, log) = (Arc::clone(&stop), Arc::clone(&log));
        let rt = rt.clone();
        rt.clone().spawn("setter", async move {
            rt.yield_now().await;
            lock(&log).push("set");
            stop.store(true, Ordering::Release);
        })
    };
    while !stop.load(Ordering::Acquire) {
        rt.yield_now().await;
    }
    lock(&log).push("seen");
    setter.join().await;
    assert_eq!(*lock(&log), ["set", "seen"]);
}

async fn a_stream_is_known_by_its_name(rt: Rt) {
    let first = rt.stream("disk").next_u64();
    assert_eq!(first, rt.stream("disk").next_u64());
    assert_ne!(first, rt.stream("net").next_u64());
}

async fn work_ends(rt: Rt) {
    rt.charge(Work::Copy { pages: 3 }).await;
    rt.charge(Work::Spend(Span::from_micros(5))).await;
    let mut abandoned = pin!(rt.charge(Work::Spend(Span::from_micros(5))));
    let first = poll_once(abandoned.as_mut());
    assert_eq!(first.is_pending(), rt.is_virtual());
}
