//! What one call has waited for so far.
//!
//! It belongs to one call, and is made when the call may have to wait. Only code that works for
//! the call shares it, so its numbers are atomics without contention.

use crate::caller::CallerKey;
use crate::event::{CallKind, CauseTimes, PauseView, WaitedCall};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_law::blame::{CAUSES, Cause};
// Not the atomics of the schedule explorer: the numbers of a call may be added in any order.
use std::sync::atomic::{AtomicU64, Ordering};

/// A call, and what it waited for.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) caller: CallerKey,
    bdi: Option<usize>,
    kind: CallKind,
    offset_bytes: u64,
    bytes: AtomicU64,
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
