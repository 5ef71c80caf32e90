//! Sleeps of threads that block.

use super::BLOCKED;
use crate::{Rt, block_on};
use forebay_base::{Instant, Span};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const SHORT: Span = Span::from_millis(2);
const LONG: Span = Span::from_secs(3_600);

fn alarms() -> usize {
    BLOCKED.with_borrow(|blocked| blocked.alarms.len())
}

#[test]
fn a_thread_that_blocks_sleeps_without_the_thread_of_the_timers() {
    let rt = Rt::real();
    let began = rt.now();
    block_on(rt.sleep(SHORT));
    assert!(rt.now() >= began + SHORT);
    assert!(!rt.has_timer_thread());
    assert_eq!(alarms(), 0, "invariant Y1");
}

#[test]
fn a_bound_that_is_not_reached_leaves_no_alarm() {
    let rt = Rt::real();
    block_on(async {
        for _ in 0..100 {
            let mut polls = 0;
            let twice = poll_fn(|context| {
                polls += 1;
                context.waker().wake_by_ref();
                if polls == 2 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            assert_eq!(rt.timeout(LONG, twice).await, Ok(()));
        }
        assert_eq!(alarms(), 0);
    });
}

#[test]
fn the_earliest_of_several_comes_first() {
    let rt = Rt::real();
    block_on(async {
        let bounded = rt.timeout(LONG, rt.timeout(SHORT, std::future::pending::<()>()));
        assert!(bounded.await.is_ok_and(|inner| inner.is_err()));
    });
    assert!(!rt.has_timer_thread());
}

#[test]
fn a_sleep_that_outlives_its_call_is_ended_by_the_next() {
    let rt = Rt::real();
    let mut sleep = pin!(rt.sleep(SHORT));
    let mut once = true;
    block_on(poll_fn(|context| {
        if std::mem::take(&mut once) {
            assert!(sleep.as_mut().poll(context).is_pending());
            assert_eq!(alarms(), 1);
        }
        Poll::Ready(())
    }));
    assert_eq!(alarms(), 0, "invariant Y1");
    block_on(sleep);
}

#[test]
fn a_sleep_that_goes_to_another_thread_ends_there() {
    let rt = Rt::real();
    let mut sleep = Box::pin(rt.sleep(SHORT));
    block_on(poll_fn(|context| {
        assert!(sleep.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
    let joiner = crate::thread::spawn("sleeper", move || block_on(sleep)).expect("a thread");
    joiner.join();
}

/// Otherwise the thread would poll for ever, for an alarm that nobody takes back.
#[test]
fn an_alarm_wakes_once() {
    let rt = Rt::real();
    let (mut forgotten, mut last) = (pin!(rt.sleep(SHORT)), pin!(rt.sleep(Span::from_millis(9))));
    let mut polls = 0;
    block_on(poll_fn(|context| {
        polls += 1;
        if polls == 1 {
            assert!(forgotten.as_mut().poll(context).is_pending());
        }
        last.as_mut().poll(context)
    }));
    assert!(polls < 20, "{polls}");
}

#[test]
fn a_call_inside_another_has_alarms_of_its_own() {
    let rt = Rt::real();
    block_on(async {
        let mut outer = pin!(rt.sleep(LONG));
        poll_fn(|context| {
            assert!(outer.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        // It would never end if the outer one's were waited for first.
        block_on(rt.sleep(SHORT));
        assert_eq!(alarms(), 1, "the outer one's");
    });
    assert_eq!(alarms(), 0);
}

/// Wakes another waker, as futures do that poll some of many futures.
struct Counted {
    inner: Waker,
    wakes: AtomicUsize,
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.inner.wake_by_ref();
    }
}

#[test]
fn a_sleep_under_another_waker_is_ended_by_the_thread_of_the_timers() {
    let rt = Rt::real();
    let mut sleep = pin!(rt.sleep(SHORT));
    let mut counted: Option<Arc<Counted>> = None;
    block_on(poll_fn(|context| {
        let waker = counted.get_or_insert_with(|| {
            Arc::new(Counted {
                inner: context.waker().clone(),
                wakes: AtomicUsize::new(0),
            })
        });
        let waker = Waker::from(Arc::clone(waker));
        sleep.as_mut().poll(&mut Context::from_waker(&waker))
    }));
    assert!(rt.has_timer_thread());
    let wakes = counted.map(|counted| counted.wakes.load(Ordering::Relaxed));
    assert_eq!(wakes, Some(1));
}

#[test]
fn a_task_that_sleeps_is_ended_by_the_thread_of_the_timers() {
    let rt = Rt::real();
    let sleeper = rt.clone();
    let task = rt.spawn("sleeps", async move {
        sleeper.sleep(SHORT).await;
    });
    block_on(task.join());
    assert!(rt.has_timer_thread());
}

#[test]
fn a_sleep_for_ever_is_no_alarm() {
    let rt = Rt::real();
    let mut never = pin!(rt.sleep_until(Instant::NEVER));
    block_on(poll_fn(|context| {
        assert!(never.as_mut().poll(context).is_pending());
        assert_eq!(alarms(), 0);
        Poll::Ready(())
    }));
}
