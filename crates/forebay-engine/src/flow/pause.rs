//! A writer that dirties too fast pauses until its rate meets the store's bandwidth.
//!
//! Spec/writeback.md 5. One snapshot of every number, the laws, one sleep. The writer never starts
//! I/O and holds nothing while it sleeps. The record of a pause carries the snapshot. What writers
//! did in older kernels is in `forebay-kernels`.

use crate::accounting::rates::RateView;
use crate::caller::CallerKey;
use crate::counters::Counter;
use crate::event::{Event, PauseRecord, PauseView};
use crate::marks::Mark;
use crate::parts::Throttle;
use crate::state::activity::{Part, STANDS_STILL};
use crate::state::backing::Backing;
use crate::state::dirtier::Dirtier;
use crate::state::payer::{DirtiedPages, Payer};
use crate::state::waits::Waits;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::{Instant, Span};
use forebay_law::blame::{Cause, PauseFacts, cause_of_pause};
use forebay_law::decision::{Decision, DecisionInputs, DirtierState, PauseLimit, decide};
use forebay_law::limits::DirtyLimits;
use forebay_law::pace::LONGEST_US;
use forebay_law::pause::{self, PauseSizing, Tick, freerun_clock, may_leave};
use forebay_law::position::{Position, PositionInputs, position};
use forebay_law::rate::strict_setpoint;
use forebay_law::share::answerable_pages;
use forebay_rt::Work;

/// Every number that one evaluation uses.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    now: Instant,
    limits: DirtyLimits,
    inputs: PositionInputs,
    position: Position,
    /// The store's dirty pages that are not on their way to swap.
    store_file_pages: u64,
    exceeded: bool,
    /// The store has a promise in seconds, and its writers are judged by its own pages.
    has_promise: bool,
    is_measured: bool,
    tick: Tick,
}

impl Snapshot {
    /// The dirty pages by which the writer is judged, and their threshold.
    fn judged(&self) -> (u64, u64) {
        let inputs = &self.inputs;
        if self.has_promise {
            (inputs.store_dirty, inputs.store_thresh)
        } else {
            (inputs.dirty, inputs.thresh)
        }
    }
}

impl Throttle {
    /// Notes that a writer made clean pages dirty. True if it has to be evaluated.
    pub fn note_dirtied(&self, dirtied: &DirtiedPages<'_>) -> bool {
        let &DirtiedPages {
            backing,
            dirtier,
            pages,
            call_ends,
        } = dirtied;
        let mut own = lock(&dirtier.state);
        own.clock.nr_dirtied += pages;
        let left = dirtier.note_left(&own.clock, backing.writers.exceeded.load(Ordering::Relaxed));
        let quota = own.call_quota_pages;
        let pays_for_itself = call_ends && quota.is_some_and(|quota| own.clock.nr_dirtied >= quota);
        drop(own);
        // At the hard limit every writer is evaluated: the first quotas of many writers together
        // are more than what is left.
        let due = left == 0 || pays_for_itself || self.dirty.global.is_full();
        // Writers that never reach their own quota are caught by a common one: together they cannot
        // dirty more than a small part of the limit without an evaluation.
        let unseen = self
            .dirty
            .global
            .unevaluated
            .fetch_add(pages, Ordering::Relaxed)
            + pages;
        let common_due = unseen >= self.dirty.global.ratelimit_pages.load(Ordering::Relaxed);
        if due || common_due {
            self.dirty.global.unevaluated.store(0, Ordering::Relaxed);
        }
        due || common_due
    }

    /// A writer of `caller` is gone: the pages that it dirtied without an evaluation are left to
    /// the others.
    pub(crate) fn dirtier_gone(&self, caller: CallerKey, backing: &Backing, dirtier: &Dirtier) {
        self.accounts.note_dirtied_by(caller, backing, dirtier);
        let left = lock(&dirtier.state).clock.nr_dirtied;
        self.dirty
            .global
            .unevaluated
            .fetch_add(left, Ordering::Relaxed);
    }

    /// What an evaluation of a writer begins with.
    pub async fn enter(&self, payer: Payer<'_>) {
        self.rt.charge(Work::ThrottleCheck).await;
        self.accounts
            .note_dirtied_by(payer.waits.caller, payer.backing, payer.dirtier);
    }

    /// Lets a writer pause as long as the laws say.
    pub async fn balance_dirty_pages(&self, payer: Payer<'_>) {
        let (backing, dirtier) = (payer.backing, payer.dirtier);
        self.enter(payer).await;
        let entered = self.rt.now();
        loop {
            let snapshot = self.snapshot(backing);
            self.wake_flusher_if_over(backing, &snapshot);
            if self.dirty.store_is_lost(backing, snapshot.limits.thresh) {
                // No pause makes room if nothing can be written: the writer is refused.
                self.accounts.mark(Mark::PauseUseless);
                return;
            }
            if is_free_run(&snapshot) {
                let (dirty, thresh) = snapshot.judged();
                dirtier.renew(free_run(snapshot.now, dirty, thresh, snapshot.tick), false);
                // Otherwise quotas would stay short until a writer is evaluated above the free run.
                backing.writers.exceeded.store(false, Ordering::Relaxed);
                return;
            }
            backing.flushing.requests.ask_for_background();
            self.dirty.wake_for_commits();
            backing
                .writers
                .exceeded
                .store(snapshot.exceeded, Ordering::Relaxed);
            count_writer(backing, dirtier);
            if !snapshot.is_measured {
                if self.pause_unmeasured(payer, &snapshot, entered).await {
                    return;
                }
                continue;
            }
            self.dirty.global.advance_limit(
                snapshot.inputs.thresh,
                snapshot.inputs.dirty,
                snapshot.now.as_millis(),
            );
            self.dirty.update_rates(backing, rate_view(&snapshot));
            let may_go = self.pause_measured(payer, &snapshot);
            if may_go.await || self.accounts.is_closing() {
                return;
            }
        }
    }

    /// One decision of the laws. True if the writer may go on.
    async fn pause_measured(&self, payer: Payer<'_>, snapshot: &Snapshot) -> bool {
        let (backing, dirtier) = (payer.backing, payer.dirtier);
        let before = *lock(&dirtier.state);
        let dirty_ratelimit = lock(&backing.rates).rate.ratelimit;
        let inputs = self.decision_inputs(before, snapshot, dirty_ratelimit);
        let decision = decide(&inputs);
        dirtier.renew(decision.after, snapshot.exceeded);
        if decision.pause_us == 0 {
            return true;
        }
        self.record_pause(payer, &inputs, &decision);
        let cause = self.blame_pause(payer, snapshot, &inputs, &decision);
        let paused = self.dirty.at_work(backing, Part::Pause);
        let pause = Span::from_micros(decision.pause_us);
        self.accounts.sleep_counted(payer.waits, cause, pause).await;
        drop(paused);
        !decision.asks_again && may_leave(decision.task_ratelimit, snapshot.store_file_pages, 1)
    }

    fn decision_inputs(
        &self,
        before: DirtierState,
        snapshot: &Snapshot,
        dirty_ratelimit: u64,
    ) -> DecisionInputs {
        DecisionInputs {
            position: snapshot.inputs,
            dirty_ratelimit,
            before,
            now_us: snapshot.now.as_micros(),
            tick: snapshot.tick,
            is_paced: self.kernel.values.is_paced,
        }
    }

    /// Before the store's rate is known, a writer is paced by the writes that end. True if it may
    /// go on.
    async fn pause_unmeasured(
        &self,
        payer: Payer<'_>,
        snapshot: &Snapshot,
        entered: Instant,
    ) -> bool {
        let (backing, dirtier) = (payer.backing, payer.dirtier);
        let longest = Span::from_micros(LONGEST_US);
        let began = self.rt.now();
        let deadline = began + longest;
        let listener = backing.writes.ended.listen();
        self.dirty.update_bandwidth(backing);
        // Its dirty pages may be written by now, and no write may be left that could wake it.
        let ended = if may_leave(0, backing.file_pages(), 1) {
            true
        } else {
            let _paused = self.dirty.at_work(backing, Part::Pause);
            let (inputs, decision) = self.unmeasured(payer, snapshot, Span::ZERO);
            let cause = self.blame_pause(payer, snapshot, &inputs, &decision);
            let _waiting = self
                .accounts
                .waiting(payer.waits, cause)
                .counted(Counter::BalancePausedUs);
            self.accounts.until(deadline, listener).await.is_some()
        };
        self.dirty.update_bandwidth(backing);
        let now = self.rt.now();
        let paused = now.since(began);
        self.accounts.count(Counter::BalancePauses, 1);
        let (inputs, decision) = self.unmeasured(payer, snapshot, paused);
        self.record_pause(payer, &inputs, &decision);
        let limits = self.dirty.dirty_limits();
        let (aside, of_store) = self.dirty.set_aside(backing, limits.thresh);
        let (dirty, setpoint, hard_limit) = if snapshot.has_promise {
            let dirty = backing.dirty_pages().saturating_sub(of_store);
            let setpoint = snapshot.position.store_setpoint;
            (dirty, setpoint, snapshot.inputs.store_thresh)
        } else {
            let all = self.answerable_pages(backing, &limits);
            let setpoint = snapshot.position.setpoint;
            let hard_limit = snapshot.inputs.hard_limit;
            (all.saturating_sub(aside), setpoint, hard_limit)
        };
        // The last condition: a healthy store is written to, however much another store keeps
        // dirty. Its rate can be measured only by writing to it.
        let may_go = dirty < setpoint
            || (!ended && dirty < hard_limit)
            || (now.since(entered) >= longest && dirty < hard_limit)
            || may_leave(0, backing.file_pages().saturating_sub(of_store), 1);
        if may_go {
            let (_, thresh) = snapshot.judged();
            let free = free_run(now, dirty, thresh, snapshot.tick);
            dirtier.renew(free, snapshot.exceeded);
        }
        may_go || self.accounts.is_closing()
    }

    /// A pause that no law computed: its length is what it took, and its rates are unknown.
    fn unmeasured(
        &self,
        payer: Payer<'_>,
        snapshot: &Snapshot,
        paused: Span,
    ) -> (DecisionInputs, Decision) {
        let before = *lock(&payer.dirtier.state);
        let inputs = self.decision_inputs(before, snapshot, 0);
        let decision = Decision {
            limit: PauseLimit::Unmeasured,
            position: snapshot.position,
            task_ratelimit: 0,
            sizing: PauseSizing::default(),
            pause_us: paused.as_micros(),
            asks_again: false,
            after: before,
        };
        (inputs, decision)
    }

    /// Why the writer pauses. The record of its call gets the inputs of the decision;
    /// the calls that wait along get the cause.
    fn blame_pause(
        &self,
        payer: Payer<'_>,
        snapshot: &Snapshot,
        asked: &DecisionInputs,
        decision: &Decision,
    ) -> Cause {
        let (backing, waits) = (payer.backing, payer.waits);
        let inputs = &snapshot.inputs;
        let part = self
            .accounts
            .top_dirtiers
            .part(waits.caller, snapshot.now.as_millis());
        let dirtied = asked.before.clock.nr_dirtied;
        waits.pauses(PauseView {
            limit: decision.limit,
            dirty: inputs.dirty,
            setpoint: snapshot.position.setpoint,
            hard_limit: inputs.hard_limit,
            pos_ratio: snapshot.position.ratio,
            task_ratelimit: decision.task_ratelimit,
            dirtied,
            own_dirty: part.of(inputs.dirty),
            heaviest_other: part.other.map(|(caller, _)| caller),
        });
        // It has paid up to then; a writer that was never evaluated has not been fast yet.
        let now_us = snapshot.now.as_micros();
        let own_pages_per_s = asked.before.paused_when_us.map_or(0, |since_us| {
            dirtied * 1_000_000 / now_us.saturating_sub(since_us).max(1)
        });
        let cause = cause_of_pause(&PauseFacts {
            // Its own part of the limit is nobody else's business.
            own_pages: if inputs.strict {
                inputs.dirty
            } else {
                part.of(inputs.dirty)
            },
            dirty_pages: inputs.dirty,
            failed_pages: backing.counts.failed_pages.load(Ordering::Relaxed),
            is_store_silent: backing.activity.silent(snapshot.now) > STANDS_STILL,
            is_unmeasured: !snapshot.is_measured,
            is_at_hard_limit: decision.limit == PauseLimit::Hard,
            own_pages_per_s,
            fair_pages_per_s: asked.dirty_ratelimit,
        });
        if let Some(turn) = payer.turn {
            turn.is_for(cause);
        }
        cause
    }

    fn snapshot(&self, backing: &Backing) -> Snapshot {
        let now = self.rt.now();
        let limits = self.dirty.dirty_limits();
        let (aside, of_store) = self.dirty.set_aside(backing, limits.thresh);
        let dirty = self
            .answerable_pages(backing, &limits)
            .saturating_sub(aside);
        let part = self.dirty.store_part(backing, &limits, dirty);
        let rates = *lock(&backing.rates);
        let inputs = PositionInputs {
            thresh: limits.thresh,
            background: limits.background,
            dirty,
            hard_limit: self.dirty.global.smoothed().hard_limit(limits.thresh),
            store_thresh: part.thresh,
            store_dirty: backing.dirty_pages().saturating_sub(of_store),
            average_pages_per_s: rates.bandwidth.average_pages_per_s,
            strict: part.is_strict,
            store_background: part.background,
        };
        let exceeded = pause::dirty_exceeded(
            inputs.store_dirty,
            part.thresh,
            dirty,
            limits.thresh,
            inputs.strict,
        );
        self.dirty.global.note_full(dirty >= inputs.hard_limit);
        // Linux counts for each processor; here all writers share one count.
        let ratelimit = if part.has_promise {
            pause::ratelimit_pages(limits.thresh.min(part.thresh), 1)
        } else {
            pause::ratelimit_pages(limits.thresh, 1)
        };
        self.dirty
            .global
            .ratelimit_pages
            .store(ratelimit, Ordering::Relaxed);
        Snapshot {
            now,
            limits,
            inputs,
            position: position(&inputs),
            store_file_pages: backing.file_pages().saturating_sub(of_store),
            exceeded,
            has_promise: part.has_promise,
            is_measured: rates.is_measured(),
            tick: self.kernel.values.pause_tick,
        }
    }

    /// The dirty pages for which the writers of `backing` answer. The pages of a store that stands
    /// still, above that store's own part of the limit, are left out, within bounds: such a store
    /// must not stop the writers of the others (promise 6).
    fn answerable_pages(&self, backing: &Backing, limits: &DirtyLimits) -> u64 {
        let (all, now) = (self.dirty.global.pages(), self.rt.now());
        let mut excess = 0;
        self.dirty.stores.for_each(|other| {
            if other.number != backing.number && other.activity.silent(now) > self.stands_still {
                let part = self.dirty.store_part(other, limits, all).thresh;
                excess += other.dirty_pages().saturating_sub(part);
            }
        });
        let own = backing.dirty_pages();
        answerable_pages(
            all,
            own,
            excess,
            limits.thresh,
            self.memory.dirtyable_pages(),
        )
    }

    fn wake_flusher_if_over(&self, backing: &Backing, snapshot: &Snapshot) {
        let inputs = &snapshot.inputs;
        let store_is_over = snapshot.has_promise && inputs.store_dirty > inputs.store_background;
        if store_is_over
            || self.dirty.global.dirty.load(Ordering::Relaxed) > snapshot.limits.background
        {
            backing.flushing.requests.ask_for_background();
        }
    }

    fn record_pause(&self, payer: Payer<'_>, inputs: &DecisionInputs, decision: &Decision) {
        self.accounts.record(&Event::BalanceDirtyPages {
            bdi: payer.backing.number,
            caller: payer.waits.caller,
            record: PauseRecord::of(inputs, decision),
        });
    }

    /// Waits for the end of a pause that another call of the same writer began. A writer counts as
    /// one, however many calls it makes at once. If only the call that used the quota up paused,
    /// the others would go on at memory speed and each in its turn would pay for all. False if the
    /// pause goes on for longer than a pause may, as it does above the hard limit, or if nobody
    /// polls the other call.
    pub(crate) async fn pause_along(&self, dirtier: &Dirtier, waits: &Waits) -> bool {
        let turn = &dirtier.turn;
        let Some(number) = turn.under_way() else {
            return true;
        };
        let _waiting = self.accounts.waiting_along(waits, turn, number);
        let longest = self.rt.now() + Span::from_micros(LONGEST_US);
        while let Some(listener) = turn.listen(number) {
            if self.accounts.until(longest, listener).await.is_none() {
                return false;
            }
        }
        true
    }
}

fn count_writer(backing: &Backing, dirtier: &Dirtier) {
    if !dirtier.is_counted.swap(true, Ordering::Relaxed) {
        backing.writers.seen.fetch_add(1, Ordering::Relaxed);
    }
}

/// The clock of a writer that is not slowed.
fn free_run(now: Instant, dirty: u64, thresh: u64, tick: Tick) -> DirtierState {
    DirtierState {
        clock: freerun_clock(now.as_millis(), dirty, thresh, tick),
        paused_when_us: Some(now.as_micros()),
        call_quota_pages: None,
    }
}

fn is_free_run(snapshot: &Snapshot) -> bool {
    let inputs = &snapshot.inputs;
    if inputs.strict {
        return inputs.store_dirty <= u64::midpoint(inputs.store_thresh, inputs.store_background);
    }
    inputs.dirty <= snapshot.limits.freerun()
}

fn rate_view(snapshot: &Snapshot) -> RateView {
    let inputs = &snapshot.inputs;
    let (dirty, setpoint) = if inputs.strict {
        let of_store = strict_setpoint(
            inputs.store_dirty,
            inputs.store_thresh,
            inputs.store_background,
        );
        (inputs.store_dirty, of_store)
    } else {
        (inputs.dirty, snapshot.position.setpoint)
    };
    RateView {
        position_ratio: snapshot.position.ratio,
        dirty,
        setpoint,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What the law of rates sees of a store that has 10 of 900 dirty pages.
    fn view_of_a_small_part(strict: bool) -> RateView {
        rate_view(&Snapshot {
            now: Instant::ZERO,
            limits: DirtyLimits::default(),
            inputs: PositionInputs {
                dirty: 900,
                store_dirty: 10,
                store_thresh: 40,
                store_background: 20,
                strict,
                ..PositionInputs::default()
            },
            position: Position {
                setpoint: 800,
                ..Position::default()
            },
            store_file_pages: 10,
            exceeded: false,
            has_promise: false,
            is_measured: true,
            tick: Tick::FINE,
        })
    }

    #[test]
    fn the_base_rate_follows_what_its_setpoint_is_of() {
        let of_all = view_of_a_small_part(false);
        assert_eq!((of_all.dirty, of_all.setpoint), (900, 800));
        let of_store = view_of_a_small_part(true);
        assert_eq!(of_store.dirty, 10);
        assert!((20..=40).contains(&of_store.setpoint), "{of_store:?}");
    }
}
