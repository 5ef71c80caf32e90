//! Alarms: a thread that blocks wakes up in time by itself.
//!
//! A sleep that is polled with the waker of a `block_on` needs no other thread to end it: the
//! blocked thread parks until the earliest of its alarms. The timer thread serves only tasks, and
//! sleeps that are polled under another waker. An alarm saves a blocking caller the trip to the
//! timer thread and back: one switch of threads for each sleep, and a lock that all share for each
//! bound of another wait.
//!
//! invariant Y1: a thread has the alarms of the calls of `block_on` that it is in, and no others. A
//! sleep that is polled elsewhere, or later, does not find its alarm and sets another one.

use crate::thread::Stopwatch;
use forebay_base::{Instant, Span};
#[cfg(shuttle)]
use shuttle::thread_local;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// The name of an alarm, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlarmId(u64);

/// Names that are unique over all threads: a sleep may move from one thread to another.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static BLOCKED: RefCell<Blocked> = const {
        RefCell::new(Blocked {
            present: None,
            alarms: Vec::new(),
        })
    };
}

fn with_blocked<T>(act: impl FnOnce(&mut Blocked) -> T) -> T {
    BLOCKED.with(|blocked| act(&mut blocked.borrow_mut()))
}

/// What a blocked thread knows of its sleeps.
struct Blocked {
    /// The innermost call of `block_on`.
    present: Option<Caller>,
    alarms: Vec<Alarm>,
}

struct Alarm {
    id: AlarmId,
    of: Caller,
    clock: Stopwatch,
    deadline: Instant,
}

impl Alarm {
    fn left(&self) -> Span {
        self.deadline.since(Instant::ZERO + self.clock.elapsed())
    }
}

/// A call of `block_on`, by the waker that it polls with.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Caller {
    data: usize,
    vtable: usize,
}

impl Caller {
    fn of(waker: &Waker) -> Caller {
        Caller {
            data: waker.data().addr(),
            vtable: ptr::from_ref(waker.vtable()).addr(),
        }
    }
}

/// While this exists, its thread is in a `block_on`.
pub(crate) struct Inside {
    caller: Caller,
    outer: Option<Caller>,
}

impl Inside {
    /// Enters the call that polls with `waker`.
    pub(crate) fn enter(waker: &Waker) -> Inside {
        let caller = Caller::of(waker);
        let outer = with_blocked(|blocked| blocked.present.replace(caller));
        Inside { caller, outer }
    }

    /// How long this call may sleep, if it has an alarm.
    pub(crate) fn time_left(&self) -> Option<Span> {
        with_blocked(|blocked| {
            let alarms = blocked.alarms.iter();
            let own = alarms.filter(|alarm| alarm.of == self.caller);
            own.map(Alarm::left).min()
        })
    }

    /// Takes out the alarms that are due, before the poll that they ask for: like a waker, each
    /// wakes once, whether or not its sleep is polled then.
    pub(crate) fn pass_due(&self) {
        with_blocked(|blocked| {
            let is_due = |alarm: &Alarm| alarm.of == self.caller && alarm.left() == Span::ZERO;
            blocked.alarms.retain(|alarm| !is_due(alarm));
        });
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        with_blocked(|blocked| {
            blocked.present = self.outer;
            blocked.alarms.retain(|alarm| alarm.of != self.caller);
        });
    }
}

/// Sets an alarm for a sleep that is polled with `waker`, unless the one called `id` is set.
/// Returns false if the waker is not the one of this thread's `block_on`.
pub(crate) fn set(
    waker: &Waker,
    clock: Stopwatch,
    deadline: Instant,
    id: &mut Option<AlarmId>,
) -> bool {
    // The schedule explorer has no time.
    if cfg!(loom) {
        return false;
    }
    let of = Caller::of(waker);
    with_blocked(|blocked| {
        if blocked.present != Some(of) {
            return false;
        }
        let is_set = |alarm: &Alarm| Some(alarm.id) == *id && alarm.of == of;
        if !blocked.alarms.iter().any(is_set) {
            let new = AlarmId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
            *id = Some(new);
            blocked.alarms.push(Alarm {
                id: new,
                of,
                clock,
                deadline,
            });
        }
        true
    })
}

/// Takes an alarm back, if this thread has it. Another thread that has it wakes up once in vain.
pub(crate) fn cancel(id: AlarmId) {
    // A thread that has ended has no alarms.
    let _ = BLOCKED.try_with(|blocked| {
        let alarms = &mut blocked.borrow_mut().alarms;
        if let Some(at) = alarms.iter().position(|alarm| alarm.id == id) {
            alarms.swap_remove(at);
        }
    });
}

#[cfg(all(test, not(loom)))]
#[path = "alarm_tests.rs"]
mod tests;
