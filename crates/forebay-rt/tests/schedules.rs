//! The explorer itself, and the real runtime under it. Run by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p forebay-rt --test schedules`.
#![cfg(shuttle)]

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::{Instant, Span};
use forebay_rt::explored::{Clock, explore};
use forebay_rt::wait::WaitQueue;
use forebay_rt::{Rt, block_on, thread};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

fn spawn(body: impl FnOnce() + Send + 'static) -> thread::Joiner {
    thread::spawn("other", body).expect("a thread starts")
}

#[test]
fn invariant_j1_time_passes_when_nobody_can_go_on() {
    explore(500, Clock::Waits, |_| {
        let rt = Rt::real();
        let (of_task, of_thread) = (rt.clone(), rt.clone());
        let sleeps = async move { of_task.sleep(Span::from_millis(5)).await };
        let task = rt.spawn("sleeps", sleeps);
        let other = spawn(move || {
            block_on(of_thread.sleep(Span::from_millis(3)));
            assert_eq!(of_thread.now().as_millis(), 3);
        });
        other.join();
        block_on(task.join());
        assert_eq!(rt.now().as_millis(), 5);
    });
}

#[test]
fn a_timer_fires_at_any_step_where_the_clock_jumps() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = seen.clone();
    explore(500, Clock::Jumps(Span::from_secs(1)), move |_| {
        let rt = Rt::real();
        let of_task = rt.clone();
        let sleeps = async move { of_task.sleep(Span::from_millis(5)).await };
        let task = rt.spawn("sleeps", sleeps);
        let steps = AtomicU64::new(0);
        while steps.fetch_add(1, Ordering::Relaxed) < 200 {
            rt.now();
        }
        let is_early = rt.now() > Instant::ZERO;
        noted.lock().expect("nobody panicked").insert(is_early);
        block_on(task.join());
    });
    let seen = seen.lock().expect("nobody panicked").clone();
    assert_eq!(seen, BTreeSet::from([false, true]));
}

/// Whether exploring `body` finds something.
fn is_found(body: impl Fn(u64) + Send + Sync + 'static) -> bool {
    let explored = AssertUnwindSafe(|| explore(500, Clock::Waits, body));
    catch_unwind(explored).is_err()
}

#[test]
fn a_count_that_is_read_and_then_written_is_found() {
    let counts = |adds: fn(&AtomicU64)| {
        move |_| {
            let count = Arc::new(AtomicU64::new(0));
            let of_other = count.clone();
            let other = spawn(move || adds(&of_other));
            adds(&count);
            other.join();
            assert_eq!(count.load(Ordering::Relaxed), 2);
        }
    };
    assert!(!is_found(counts(|count| {
        count.fetch_add(1, Ordering::Relaxed);
    })));
    assert!(is_found(counts(|count| {
        let before = count.load(Ordering::Relaxed);
        count.store(before + 1, Ordering::Relaxed);
    })));
}

#[test]
fn a_listener_that_comes_after_the_look_is_found() {
    let waits = |listens_first: bool| {
        move |_| {
            let shared = Arc::new((AtomicU64::new(0), WaitQueue::new()));
            let of_setter = shared.clone();
            let setter = spawn(move || {
                of_setter.0.store(1, Ordering::Release);
                of_setter.1.wake_all();
            });
            let (done, changed) = &*shared;
            let early = listens_first.then(|| changed.listen());
            if done.load(Ordering::Acquire) == 0 {
                block_on(early.unwrap_or_else(|| changed.listen()));
            }
            setter.join();
        }
    };
    assert!(!is_found(waits(true)));
    assert!(
        is_found(waits(false)),
        "nobody wakes it, and nothing is due"
    );
}

#[test]
fn an_order_is_given_by_its_number() {
    let run = || {
        let values = Arc::new(Mutex::new(Vec::new()));
        let noted = values.clone();
        explore(100, Clock::Waits, move |order| {
            let count = Arc::new(AtomicU64::new(order));
            let of_other = count.clone();
            let other = spawn(move || {
                for _ in 0..8 {
                    let before = of_other.load(Ordering::Relaxed);
                    of_other.store(before * 3 + 1, Ordering::Relaxed);
                }
            });
            for _ in 0..8 {
                let before = count.load(Ordering::Relaxed);
                count.store(before * 5 + 2, Ordering::Relaxed);
            }
            other.join();
            let last = count.load(Ordering::Relaxed);
            noted.lock().expect("nobody panicked").push(last);
        });
        values.lock().expect("nobody panicked").clone()
    };
    let first = run();
    assert_eq!(first, run());
    assert!(
        first.iter().collect::<BTreeSet<_>>().len() > 20,
        "orders differ"
    );
}
