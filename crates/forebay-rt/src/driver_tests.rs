use super::*;
use crate::block_on;
use crate::wait::{Slot, WaitQueue, either};
use forebay_base::sync::{Mutex, lock};
use std::future::poll_fn;
#[allow(
    clippy::disallowed_types,
    reason = "a device in which a thread sleeps without the runtime"
)]
use std::sync::Condvar;
use std::task::Poll;

/// A driver that another thread gives work to.
#[derive(Default)]
struct Work {
    state: Mutex<State>,
    #[allow(clippy::disallowed_types, reason = "see above")]
    changed: Condvar,
}

#[derive(Default)]
struct State {
    under_way: usize,
    answers: Vec<Arc<Slot<u32>>>,
    is_rung: bool,
    given_back: usize,
    timed_out: usize,
}

impl Work {
    fn lend(under_way: usize) -> &'static Work {
        let work: &'static Work = Box::leak(Box::default());
        lock(&work.state).under_way = under_way;
        work.lend_again();
        work
    }

    fn lend_again(&'static self) {
        assert!(is_wanted());
        lend(self, Arc::new(BellOf(self)));
        assert!(!is_wanted(), "it has one");
    }

    fn answer(&self, slot: &Arc<Slot<u32>>) {
        lock(&self.state).answers.push(Arc::clone(slot));
        self.changed.notify_all();
    }
}

struct BellOf(&'static Work);

impl DriverWaker for BellOf {
    fn wake(&self) {
        lock(&self.0.state).is_rung = true;
        self.0.changed.notify_all();
    }
}

impl Driver for Work {
    fn turn(&self) -> Turn {
        let mut state = lock(&self.state);
        let answers = std::mem::take(&mut state.answers);
        state.under_way -= answers.len();
        let turn = Turn {
            is_at_work: state.under_way > 0,
            has_done: !answers.is_empty(),
        };
        drop(state);
        for slot in answers {
            slot.set(7);
        }
        turn
    }

    fn sleep(&self, longest: Option<Span>) {
        let mut state = lock(&self.state);
        while !state.is_rung && state.answers.is_empty() {
            if longest.is_some() {
                // Whatever the span, it has passed.
                state.timed_out += 1;
                return;
            }
            state = self.changed.wait(state).expect("nothing panics with it");
        }
        state.is_rung = false;
    }

    fn give_back(&self) {
        lock(&self.state).given_back += 1;
    }
}

#[test]
fn nobody_wants_a_driver_outside_of_a_call_that_blocks() {
    assert!(!is_wanted());
    assert!(block_on(async { is_wanted() }));
    assert!(!is_wanted());
    let rt = crate::Rt::real();
    let answer = Arc::new(Slot::new());
    let asked = Arc::clone(&answer);
    rt.spawn("asks", async move {
        asked.set(block_on(async { is_wanted() }));
    });
    assert!(!block_on(answer.take()), "it may not sleep");
}

#[test]
fn what_comes_in_the_driver_ends_the_wait_and_the_driver_is_given_back_idle() {
    let (slot, inner) = (Arc::new(Slot::new()), Slot::new());
    let taken = Arc::clone(&slot);
    let work = block_on(async {
        let work = Work::lend(1);
        let joiner = crate::thread::spawn("device", move || work.answer(&slot)).unwrap();
        assert_eq!(taken.take().await, 7);
        joiner.join();
        // The last answer left nothing under way: this wait does without it.
        let setter = crate::thread::spawn("setter", || ()).unwrap();
        setter.join();
        inner.set(3);
        assert_eq!(inner.take().await, 3);
        work
    });
    assert_eq!(lock(&work.state).given_back, 1);
}

#[test]
fn invariant_y2_the_token_reaches_a_thread_that_sleeps_in_its_driver() {
    let slot = Arc::new(Slot::new());
    let setter = Arc::clone(&slot);
    let work = block_on(async {
        let work = Work::lend(1);
        let joiner = crate::thread::spawn("setter", move || setter.set(5)).unwrap();
        assert_eq!(slot.take().await, 5);
        joiner.join();
        work
    });
    let state = lock(&work.state);
    assert_eq!((state.given_back, state.under_way), (1, 1));
}

#[test]
fn invariant_y3_what_is_under_way_at_the_end_is_given_back() {
    let work = block_on(async { Work::lend(2) });
    assert_eq!(lock(&work.state).given_back, 1);
    let panicked = std::panic::catch_unwind(|| {
        block_on(async {
            work.lend_again();
            panic!("as a caller does");
        });
    });
    assert!(panicked.is_err());
    assert_eq!(lock(&work.state).given_back, 2);
}

#[test]
fn the_driver_of_an_outer_call_works_for_an_inner_one() {
    let slot = Arc::new(Slot::new());
    let (taken, of_driver) = (Arc::clone(&slot), Arc::clone(&slot));
    let work = block_on(async {
        let work = Work::lend(2);
        let joiner = crate::thread::spawn("device", move || work.answer(&of_driver)).unwrap();
        assert_eq!(block_on(taken.take()), 7);
        joiner.join();
        assert_eq!(lock(&work.state).given_back, 0, "the outer has it");
        work
    });
    assert_eq!(lock(&work.state).given_back, 1);
}

#[test]
fn a_sleep_in_a_driver_ends_in_time() {
    let rt = crate::Rt::real();
    let never = Slot::<u32>::new();
    let work = block_on(async {
        let work = Work::lend(1);
        let bounded = rt.timeout(Span::from_millis(1), never.take());
        assert!(bounded.await.is_err());
        work
    });
    assert!(lock(&work.state).timed_out > 0);
}

#[test]
fn a_future_that_is_woken_at_once_lets_the_driver_turn_all_the_same() {
    let slot = Arc::new(Slot::new());
    let taken = Arc::clone(&slot);
    block_on(async {
        let work = Work::lend(2);
        work.answer(&slot);
        let busy = poll_fn(|context| {
            if slot.is_set() {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        busy.await;
        assert_eq!(taken.take().await, 7);
    });
}

/// Two answers are under way, and the one that comes first is not the one that is awaited.
#[test]
fn a_future_is_polled_when_another_answer_comes_in() {
    let (awaited, other) = (WaitQueue::new(), Arc::new(Slot::new()));
    let answered = Arc::clone(&other);
    let work = block_on(async {
        let work = Work::lend(2);
        let joiner = crate::thread::spawn("device", move || work.answer(&answered)).unwrap();
        either(awaited.listen(), NextTurn::default()).await;
        assert_eq!(other.try_take(), Some(7));
        joiner.join();
        work
    });
    assert_eq!(lock(&work.state).under_way, 1);
}

/// After it nothing is under way in the driver, so the thread would sleep elsewhere.
#[test]
fn a_future_is_polled_when_the_last_answer_comes_in() {
    let (awaited, other) = (WaitQueue::new(), Arc::new(Slot::new()));
    let answered = Arc::clone(&other);
    block_on(async {
        Work::lend(1).answer(&answered);
        either(awaited.listen(), NextTurn::default()).await;
        assert_eq!(other.try_take(), Some(7));
    });
}
