//! What a call waits for, and what its end records: the ledger, the stalls and an event.
//!
//! A call that finds everything in memory never comes here. A call that has to wait is recorded
//! from its first wait to its end, even if it is dropped in the middle of a wait.

use crate::counters::Counter;
use crate::event::{CallKind, Event};
use crate::handle::Handle;
use crate::parts::{Accounts, Dirty};
use crate::state::ledger::Moment;
use crate::state::open_calls::{CallerAtStore, Wait};
use crate::state::pause_turn::{PauseTurn, TurnNumber};
use crate::state::waits::{CallOf, Waits};
use forebay_base::sync::lock;
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;

/// A call that may have to wait. Its end records its waits, if there were any.
pub struct Call<'a> {
    dirty: &'a Dirty,
    pub(crate) waits: Waits,
}

/// What a call reads or writes.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) kind: CallKind,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.dirty.accounts.open_calls.leaves(&self.waits.place);
        if self.waits.all_us() > 0 {
            self.dirty.record_waits(&self.waits);
        }
    }
}

impl<'a> Call<'a> {
    /// The call in `place`. It is made when it is first needed, so that a call that finds
    /// everything in memory makes none.
    pub(crate) fn in_place<'p>(
        place: &'p mut Option<Call<'a>>,
        dirty: &'a Dirty,
        handle: &Handle,
        access: Access,
    ) -> &'p Call<'a> {
        let Access {
            kind,
            offset_bytes,
            bytes,
        } = access;
        place.get_or_insert_with(|| dirty.call(handle, kind, offset_bytes, bytes))
    }
}

/// A wait for one cause that is under way. Time that the call waits for another cause meanwhile
/// counts for that cause alone.
pub struct Waiting<'a> {
    accounts: &'a Accounts,
    waits: &'a Waits,
    reason: Reason<'a>,
    /// Counts the whole wait, including waits for other causes meanwhile.
    counter: Option<Counter>,
    began: Instant,
    before_us: u64,
    /// The wait that this one is a part of, if its call has a place.
    outer: Option<Wait>,
}

/// What a wait is for.
enum Reason<'a> {
    /// A cause that is known from the start.
    Known(Cause),
    /// Whatever the writer pauses for in this turn: the call that has it may not have decided yet.
    PauseOf(&'a PauseTurn, TurnNumber),
}

impl Reason<'_> {
    /// The cause that is known while the wait goes on.
    fn shown(&self) -> Cause {
        match self {
            Reason::Known(cause) => *cause,
            Reason::PauseOf(..) => Cause::Along,
        }
    }
}

impl Waiting<'_> {
    /// The same wait, which `counter` counts too.
    pub(crate) fn counted(mut self, counter: Counter) -> Self {
        self.counter = Some(counter);
        self
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.accounts.rt.now();
        let us = now.since(self.began).as_micros();
        let meanwhile_us = self.waits.all_us() - self.before_us;
        let cause = match self.reason {
            Reason::Known(cause) => cause,
            Reason::PauseOf(turn, number) => turn.cause_of(number).unwrap_or(Cause::Along),
        };
        self.waits.add(cause, us.saturating_sub(meanwhile_us));
        let place = &self.waits.place;
        let shown = Wait::of(self.reason.shown(), self.began);
        if self.accounts.open_calls.ends(place, shown, self.outer, now) {
            self.accounts.long_wait(cause, Span::from_micros(us));
        }
        if let Some(counter) = self.counter {
            self.accounts.count(counter, us);
        }
    }
}

impl Dirty {
    /// A call of `handle`.
    pub(crate) fn call(
        &self,
        handle: &Handle,
        kind: CallKind,
        offset_bytes: u64,
        bytes: u64,
    ) -> Call<'_> {
        self.call_of(CallOf {
            caller: handle.caller,
            bdi: Some(handle.backing.number),
            kind,
            offset_bytes,
            bytes,
        })
    }

    /// The call that `of` describes.
    pub(crate) fn call_of(&self, of: CallOf) -> Call<'_> {
        Call {
            dirty: self,
            waits: Waits::new(of),
        }
    }

    fn record_waits(&self, waits: &Waits) {
        let now = self.rt.now();
        let Some(call) = waits.waited_call(now) else {
            return;
        };
        let threshold = self.knobs.stall_threshold();
        let is_moment = self
            .accounts
            .ledger
            .note(&call, waits.by_cause(), threshold, now);
        if is_moment {
            self.accounts.ledger.remember_moment(self.moment());
        }
        self.accounts
            .times
            .note(call.kind, call.took, waits.by_cause());
        self.accounts.record(&Event::CallWaited { call });
    }

    /// The limits and the rates of stores now.
    pub(crate) fn moment(&self) -> Moment {
        let mut moment = Moment {
            at: self.rt.now(),
            memory_bytes: self.pages.memory_bytes(),
            limit_pages: self.dirty_limits().thresh,
            ..Moment::default()
        };
        self.stores.for_each(|backing| {
            let rates = *lock(&backing.rates);
            if rates.is_measured() {
                moment.note_rate(backing.number, rates.bandwidth.average_pages_per_s);
            }
        });
        moment
    }
}

impl Accounts {
    /// The call of `waits` waits for `cause` until the result is dropped.
    pub fn waiting<'a>(&'a self, waits: &'a Waits, cause: Cause) -> Waiting<'a> {
        self.waiting_for(waits, Reason::Known(cause))
    }

    /// The call of `waits` waits for the pause of another call of the same writer, in turn
    /// `number`, until the result is dropped. Its cause is that of the pause (invariant P3).
    pub(crate) fn waiting_along<'a>(
        &'a self,
        waits: &'a Waits,
        turn: &'a PauseTurn,
        number: TurnNumber,
    ) -> Waiting<'a> {
        let waiting = self.waiting_for(waits, Reason::PauseOf(turn, number));
        waiting.counted(Counter::BalanceAlongUs)
    }

    fn waiting_for<'a>(&'a self, waits: &'a Waits, reason: Reason<'a>) -> Waiting<'a> {
        let began = self.rt.now();
        waits.begin(began);
        let of = CallerAtStore {
            caller: waits.caller,
            bdi: waits.bdi,
        };
        let shown = reason.shown();
        let outer = self.open_calls.begins(&waits.place, of, shown, began);
        Waiting {
            outer,
            accounts: self,
            waits,
            reason,
            counter: None,
            began,
            before_us: waits.all_us(),
        }
    }

    /// A wait has gone on for very long, or did until now.
    fn long_wait(&self, cause: Cause, waited: Span) {
        self.count(Counter::WaitsOverdue, 1);
        let (what, bound) = (cause.name(), waited);
        self.record(&Event::WaitOverdue { what, bound });
    }

    /// Counts the waits that go on and are overdue by now.
    pub(crate) fn note_overdue(&self) {
        for (cause, waited) in self.open_calls.take_overdue(self.rt.now()) {
            self.long_wait(cause, waited);
        }
    }

    /// What a caller gets from a call of `kind`: an error is counted.
    pub(crate) fn told<T, E>(&self, kind: CallKind, outcome: Result<T, E>) -> Result<T, E> {
        if outcome.is_err() {
            let counter = match kind {
                CallKind::Read => Counter::ReadErrors,
                CallKind::Write => Counter::WriteErrors,
                CallKind::Sync => Counter::SyncErrors,
                _ => Counter::OtherErrors,
            };
            self.count(counter, 1);
        }
        outcome
    }
}
