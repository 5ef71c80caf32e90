//! What a call waits for, and what its end tells: the ledger, the stalls and an event.
//!
//! A call that finds all in memory never comes here. One that has to wait is noted from its first
//! wait to its end, also if it is dropped in the middle of a wait.

use crate::books::rates::is_measured;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::event::{CallKind, Event};
use crate::handle::Handle;
use crate::state::ledger::Moment;
use crate::state::waits::{CallOf, Waits};
use forebay_base::Instant;
use forebay_base::sync::lock;
use forebay_law::blame::Cause;

/// A call that may have to wait. Its end tells of its waits, if there were any.
pub(crate) struct Call<'a> {
    engine: &'a Engine,
    pub(crate) waits: Waits,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.waits.all_us() > 0 {
            self.engine.tell_of(&self.waits);
        }
    }
}

impl<'a> Call<'a> {
    /// The call in `place`. It is made when it is needed first, so that calls that find all in
    /// memory do without.
    pub(crate) fn in_place<'p>(
        place: &'p mut Option<Call<'a>>,
        engine: &'a Engine,
        handle: &Handle,
        (kind, offset_bytes, bytes): (CallKind, u64, u64),
    ) -> &'p Call<'a> {
        place.get_or_insert_with(|| engine.call(handle, kind, offset_bytes, bytes))
    }
}

/// A wait for one cause that is under way. What is waited meanwhile for another cause counts for
/// that one alone.
pub(crate) struct Waiting<'a> {
    engine: &'a Engine,
    waits: &'a Waits,
    cause: Cause,
    /// Counts all of it, with what was waited meanwhile.
    counter: Option<Counter>,
    began: Instant,
    before_us: u64,
}

impl Waiting<'_> {
    /// The same, which `counter` counts along.
    pub(crate) fn counted(mut self, counter: Counter) -> Self {
        self.counter = Some(counter);
        self
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let us = self.engine.rt.now().since(self.began).as_micros();
        let meanwhile_us = self.waits.all_us() - self.before_us;
        self.waits.add(self.cause, us.saturating_sub(meanwhile_us));
        if let Some(counter) = self.counter {
            self.engine.count(counter, us);
        }
    }
}

impl Engine {
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

    /// The call that `of` says.
    pub(crate) fn call_of(&self, of: CallOf) -> Call<'_> {
        Call {
            engine: self,
            waits: Waits::new(of),
        }
    }

    /// The call of `waits` waits for `cause` while the result lives.
    pub(crate) fn waiting<'a>(&'a self, waits: &'a Waits, cause: Cause) -> Waiting<'a> {
        let began = self.rt.now();
        waits.begin(began);
        Waiting {
            engine: self,
            waits,
            cause,
            counter: None,
            began,
            before_us: waits.all_us(),
        }
    }

    fn tell_of(&self, waits: &Waits) {
        let now = self.rt.now();
        let Some(call) = waits.told(now) else { return };
        if self.ledger.is_moment(now) {
            self.ledger.remember_moment(self.moment());
        }
        let threshold = self.knobs.stall_threshold();
        self.ledger.note(&call, waits.by_cause(), threshold, now);
        self.record(&Event::CallWaited { call });
    }

    /// What the limits and the stores are now.
    pub(crate) fn moment(&self) -> Moment {
        let mut moment = Moment {
            at: self.rt.now(),
            memory_bytes: self.memory_bytes(),
            limit_pages: self.dirty_limits().thresh,
            ..Moment::default()
        };
        self.stores.for_each(|backing| {
            let rates = *lock(&backing.rates);
            if is_measured(&rates) {
                moment.note_rate(backing.number, rates.bandwidth.average_pages_per_s);
            }
        });
        moment
    }
}
