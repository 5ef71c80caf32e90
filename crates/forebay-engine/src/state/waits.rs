//! What one call has waited for so far.
//!
//! It belongs to one call, and is made when the call may have to wait. Only code that works for
//! the call shares it, so its numbers are atomics without contention.

use crate::caller::CallerKey;
use crate::event::{CallKind, CauseTimes, PauseView, WaitedCall};
use crate::state::open_calls::OpenPlace;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_law::blame::{CAUSES, Cause};
// Not the atomics of the schedule explorer: the numbers of a call may be added in any order.
use std::sync::atomic::{AtomicU64, Ordering};

/// A call, and what it waited for.
#[derive(Debug)]
pub struct Waits {
    pub caller: CallerKey,
    pub(crate) bdi: Option<usize>,
    kind: CallKind,
    offset_bytes: u64,
    bytes: AtomicU64,
    /// Where it stands among the calls that wait now.
    pub(crate) place: OpenPlace,
    /// When it first waited, ns plus one; 0: not yet.
    began_ns: AtomicU64,
    us: [AtomicU64; CAUSES],
    all_us: AtomicU64,
    /// The last decision that made it pause.
    pause: Mutex<Option<PauseView>>,
}

/// The call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOf {
    pub(crate) caller: CallerKey,
    pub(crate) bdi: Option<usize>,
    pub(crate) kind: CallKind,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
}

impl Waits {
    /// A call that has not waited yet.
    pub(crate) fn new(of: CallOf) -> Waits {
        Waits {
            caller: of.caller,
            bdi: of.bdi,
            kind: of.kind,
            offset_bytes: of.offset_bytes,
            bytes: AtomicU64::new(of.bytes),
            place: OpenPlace::default(),
            began_ns: AtomicU64::new(0),
            us: std::array::from_fn(|_| AtomicU64::new(0)),
            all_us: AtomicU64::new(0),
            pause: Mutex::new(None),
        }
    }

    /// The sum of its waits, us.
    pub(crate) fn all_us(&self) -> u64 {
        self.all_us.load(Ordering::Relaxed)
    }

    /// Notes that it waits from `now` on.
    pub(crate) fn begin(&self, now: Instant) {
        if self.began_ns.load(Ordering::Relaxed) == 0 {
            let ns = now.as_nanos().saturating_add(1);
            self.began_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Notes that it has waited `us` for `cause`.
    pub(crate) fn add(&self, cause: Cause, us: u64) {
        self.us[cause as usize].fetch_add(us, Ordering::Relaxed);
        self.all_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Sets how many bytes the call is about, once this is known.
    pub(crate) fn is_about(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes the decision that makes it pause.
    pub(crate) fn pauses(&self, view: PauseView) {
        *lock(&self.pause) = Some(view);
    }

    /// The record of the call at its end. None if it has not waited at all.
    pub(crate) fn waited_call(&self, now: Instant) -> Option<WaitedCall> {
        if self.all_us() == 0 {
            return None;
        }
        let began_ns = self.began_ns.load(Ordering::Relaxed).saturating_sub(1);
        let began = Instant::ZERO + Span::from_nanos(began_ns);
        let us = |cause: Cause| self.us[cause as usize].load(Ordering::Relaxed);
        Some(WaitedCall {
            caller: self.caller,
            bdi: self.bdi,
            kind: self.kind,
            offset_bytes: self.offset_bytes,
            bytes: self.bytes.load(Ordering::Relaxed),
            began,
            took: now.since(began),
            causes: CauseTimes::of(us),
            pause: *lock(&self.pause),
        })
    }

    /// How long it waited for each cause.
    pub(crate) fn by_cause(&self) -> impl Iterator<Item = (Cause, Span)> + '_ {
        let us = |cause: &Cause| self.us[*cause as usize].load(Ordering::Relaxed);
        let causes = Cause::ALL.into_iter().filter(move |cause| us(cause) > 0);
        causes.map(move |cause| (cause, Span::from_micros(us(&cause))))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::event::PauseLimit;

    #[test]
    fn a_call_took_from_its_first_wait_to_its_end_and_keeps_its_last_decision() {
        let waits = Waits::new(CallOf {
            caller: Caller::named("log").key(),
            bdi: Some(1),
            kind: CallKind::Write,
            offset_bytes: 0,
            bytes: 4096,
        });
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let view = |dirty| PauseView {
            limit: PauseLimit::Global,
            dirty,
            setpoint: 5,
            hard_limit: 9,
            pos_ratio: 1024,
            task_ratelimit: 10,
            dirtied: 4,
            own_dirty: 3,
            heaviest_other: None,
        };
        assert_eq!(waits.waited_call(at(1)), None, "it has not waited");
        waits.begin(at(5_000));
        waits.pauses(view(7));
        waits.add(Cause::Along, 1_000);
        waits.begin(at(5_500));
        waits.pauses(view(8));
        waits.add(Cause::Along, 2_000);
        let call = waits.waited_call(at(7_000)).expect("it has waited");
        assert_eq!(
            (call.began, call.took),
            (at(5_000), Span::from_millis(2_000))
        );
        assert_eq!(call.pause, Some(view(8)));
    }
}
