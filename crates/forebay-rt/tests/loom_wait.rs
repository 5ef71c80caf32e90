//! Every order of the steps of a few threads around each thing that waits. Run by
//! `RUSTFLAGS="--cfg loom" cargo test -p forebay-rt --test loom_wait --release`.
#![cfg(loom)]

use forebay_base::Span;
use forebay_rt::block_on;
use forebay_rt::driver::{self, Driver, DriverWaker, Turn};
use forebay_rt::wait::{Gate, Permits, Slot, WaitQueue};
use loom::sync::Arc as LoomArc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};

/// One more than a lost wake-up needs; all orders there are of three threads take hours.
const PREEMPTIONS: usize = 3;

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(body);
}

async fn until(done: &AtomicBool, changed: &WaitQueue) {
    loop {
        let listener = changed.listen();
        if done.load(Ordering::Relaxed) {
            return;
        }
        listener.await;
    }
}

#[test]
fn a_wake_up_between_look_and_sleep_is_not_lost() {
    explore(|| {
        let shared = LoomArc::new((AtomicBool::new(false), WaitQueue::new()));
        let other = shared.clone();
        let setter = thread::spawn(move || {
            other.0.store(true, Ordering::Relaxed);
            other.1.wake_all();
        });
        block_on(until(&shared.0, &shared.1));
        setter.join().unwrap();
        assert_eq!(shared.1.waiters(), 0);
    });
}

#[test]
fn waking_all_reaches_both_sleepers() {
    explore(|| {
        let shared = LoomArc::new((AtomicBool::new(false), WaitQueue::new()));
        let (second, third) = (shared.clone(), shared.clone());
        let sleeper = thread::spawn(move || block_on(until(&second.0, &second.1)));
        let setter = thread::spawn(move || {
            third.0.store(true, Ordering::Relaxed);
            third.1.wake_all();
        });
        block_on(until(&shared.0, &shared.1));
        sleeper.join().unwrap();
        setter.join().unwrap();
    });
}

#[test]
fn a_single_wake_up_survives_the_listener_that_goes() {
    explore(|| {
        let shared = LoomArc::new(WaitQueue::new());
        let other = shared.clone();
        let mut first = Box::pin(shared.listen());
        let second = shared.listen();
        let _unready = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let waker = thread::spawn(move || assert_eq!(other.wake_one(), 1));
        drop(first);
        block_on(second);
        waker.join().unwrap();
    });
}

#[test]
fn permits_are_never_more_than_there_are() {
    explore(|| {
        let permits = Arc::new(Permits::new(1));
        let inside = LoomArc::new(AtomicUsize::new(0));
        let (other, also_inside) = (permits.clone(), inside.clone());
        let hold = |permits: &Permits, inside: &AtomicUsize| {
            let permit = block_on(permits.acquire(1));
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
            inside.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        };
        let holder = thread::spawn(move || hold(&other, &also_inside));
        hold(&permits, &inside);
        holder.join().unwrap();
        assert_eq!(permits.available(), 1);
    });
}

#[test]
fn a_grant_that_nobody_picks_up_goes_on() {
    explore(|| {
        let permits = Arc::new(Permits::new(1));
        let held = permits.try_acquire_owned(1).unwrap();
        let abandoned = permits.acquire(1);
        let wanted = permits.acquire(1);
        let giver = thread::spawn(move || drop(held));
        drop(abandoned);
        drop(block_on(wanted));
        giver.join().unwrap();
        assert_eq!(permits.available(), 1);
    });
}

#[test]
fn a_gate_that_opens_lets_the_waiter_through() {
    explore(|| {
        let gate = LoomArc::new(Gate::new(false));
        let other = gate.clone();
        let opener = thread::spawn(move || other.open());
        block_on(gate.wait());
        opener.join().unwrap();
    });
}

#[test]
fn a_gate_that_closes_at_once_has_let_the_waiter_through() {
    explore(|| {
        let gate = LoomArc::new(Gate::new(false));
        let other = gate.clone();
        let mut waiting = pin!(gate.wait());
        let polled = waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let opener = thread::spawn(move || {
            assert_eq!(other.open(), 1);
            other.close();
        });
        block_on(waiting);
        opener.join().unwrap();
    });
}

#[test]
fn a_value_reaches_its_taker() {
    explore(|| {
        let slot = LoomArc::new(Slot::new());
        let other = slot.clone();
        let setter = thread::spawn(move || other.set(7));
        assert_eq!(block_on(slot.take()), 7);
        setter.join().unwrap();
    });
}

#[test]
fn a_taker_that_goes_leaves_the_value_and_the_wake_up() {
    explore(|| {
        let slot = LoomArc::new(Slot::new());
        let other = slot.clone();
        let setter = thread::spawn(move || other.set(7));
        {
            let mut first = slot.take();
            let polled = Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop()));
            if polled.is_pending() {
                drop(first);
                assert_eq!(block_on(slot.take()), 7);
            }
        }
        setter.join().unwrap();
    });
}

/// A driver in which one answer is under way, which another thread gives.
struct Device {
    state: loom::sync::Mutex<DeviceState>,
    changed: loom::sync::Condvar,
    slot: Slot<u32>,
}

#[derive(Default)]
struct DeviceState {
    is_answered: bool,
    is_over: bool,
    is_rung: bool,
}

impl Device {
    fn new() -> &'static Device {
        Box::leak(Box::new(Device {
            state: loom::sync::Mutex::new(DeviceState::default()),
            changed: loom::sync::Condvar::new(),
            slot: Slot::new(),
        }))
    }

    fn change(&self, change: impl FnOnce(&mut DeviceState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_one();
    }
}

impl Driver for Device {
    fn turn(&self) -> Turn {
        let mut state = self.state.lock().unwrap();
        let has_answer = state.is_answered && !state.is_over;
        state.is_over |= has_answer;
        let turn = Turn {
            is_at_work: !state.is_over,
            has_done: has_answer,
        };
        drop(state);
        if has_answer {
            self.slot.set(7);
        }
        turn
    }

    fn sleep(&self, _longest: Option<Span>) {
        let mut state = self.state.lock().unwrap();
        while !state.is_rung && !state.is_answered {
            state = self.changed.wait(state).unwrap();
        }
        state.is_rung = false;
    }

    fn give_back(&self) {}
}

struct BellOf(&'static Device);

impl DriverWaker for BellOf {
    fn wake(&self) {
        self.0.change(|state| state.is_rung = true);
    }
}

#[test]
fn invariant_y2_a_token_given_while_a_thread_falls_asleep_in_its_driver_is_not_lost() {
    explore(|| {
        let device = Device::new();
        let slot = Arc::new(Slot::new());
        let setter = Arc::clone(&slot);
        let token = thread::spawn(move || setter.set(5));
        let answers = thread::spawn(move || device.change(|state| state.is_answered = true));
        block_on(async {
            driver::lend(device, Arc::new(BellOf(device)));
            assert_eq!(slot.take().await, 5);
            assert_eq!(device.slot.take().await, 7);
        });
        token.join().unwrap();
        answers.join().unwrap();
    });
}
