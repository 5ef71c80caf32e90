//! Balance: a writer that dirties too fast sleeps until its rate meets the store's bandwidth.
//!
//! Spec/writeback.md 5. One snapshot of every number, the laws, one sleep. The writer never
//! starts I/O and holds nothing while it sleeps; the record of a pause carries the snapshot.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::event::{Event, PauseLimit, PauseRecord};
use crate::flow::rates::RateView;
use crate::state::backing::Backing;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use forebay_base::{Instant, Span};
use forebay_law::limits::{DirtyLimits, setpoint};
use forebay_law::pause::{
    self, DirtierClock, MAX_PAUSE_MS, PauseDecision, PauseSizing, decide_pause, freerun_clock,
    may_leave, size_pause,
};
use forebay_law::position::{Position, PositionInputs, position};
use forebay_law::rate::{strict_setpoint, task_ratelimit};
use forebay_law::share::store_background;

/// A writer, as the throttle knows it.
#[derive(Debug, Default)]
pub(crate) struct Dirtier {
    clock: Mutex<DirtierClock>,
    is_counted: AtomicBool,
}

/// Every number that one evaluation judges by.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    now_ms: u64,
    limits: DirtyLimits,
    inputs: PositionInputs,
    position: Position,
    exceeded: bool,
    is_measured: bool,
}

impl Engine {
    /// Notes that a writer made `pages` clean pages dirty. True if it has to be evaluated.
    pub(crate) fn note_dirtied(&self, backing: &Backing, dirtier: &Dirtier, pages: u64) -> bool {
        let mut clock = lock(&dirtier.clock);
        clock.nr_dirtied += pages;
        let due = clock.nr_dirtied >= clock.quota_pages(backing.exceeded.load(Ordering::Relaxed));
        // Writers that never reach their own quota are caught by a common one: together they
        // cannot dirty more than a small part of the limit unseen.
        let unseen = self.global.unevaluated.fetch_add(pages, Ordering::Relaxed) + pages;
        let common_due = unseen >= self.global.ratelimit_pages.load(Ordering::Relaxed);
        if due || common_due {
            self.global.unevaluated.store(0, Ordering::Relaxed);
        }
        due || common_due
    }

    /// A writer is gone: what it dirtied unseen is left to the others.
    pub(crate) fn dirtier_gone(&self, dirtier: &Dirtier) {
        let left = lock(&dirtier.clock).nr_dirtied;
        self.global.unevaluated.fetch_add(left, Ordering::Relaxed);
    }

    /// Lets a writer pause as long as the laws say.
    pub(crate) async fn balance_dirty_pages(&self, backing: &Backing, dirtier: &Dirtier) {
        let entered = self.rt.now();
        loop {
            let snapshot = self.snapshot(backing);
            self.wake_flusher_if_over(backing, &snapshot);
            if snapshot.limits.thresh / 2 < backing.failed_pages.load(Ordering::Relaxed) {
                // No pause makes room where nothing can be written: the writer is refused.
                return;
            }
            if is_free_run(backing, &snapshot) {
                let inputs = &snapshot.inputs;
                *lock(&dirtier.clock) = freerun_clock(snapshot.now_ms, inputs.dirty, inputs.thresh);
                return;
            }
            backing.wake_for_background();
            backing.exceeded.store(snapshot.exceeded, Ordering::Relaxed);
            let writers = self.count_writer(backing, dirtier);
            if !snapshot.is_measured {
                if self
                    .pause_unmeasured(backing, dirtier, &snapshot, entered)
                    .await
                {
                    return;
                }
                continue;
            }
            self.global.advance_limit(
                snapshot.inputs.thresh,
                snapshot.inputs.dirty,
                snapshot.now_ms,
            );
            self.update_rates(backing, rate_view(backing, &snapshot, writers));
            if self.pause_measured(backing, dirtier, &snapshot).await || self.is_closing() {
                return;
            }
        }
    }

    /// One decision of the pause law. True if the writer may go on.
    async fn pause_measured(
        &self,
        backing: &Backing,
        dirtier: &Dirtier,
        snapshot: &Snapshot,
    ) -> bool {
        let inputs = &snapshot.inputs;
        let ratelimit = lock(&backing.rates).rate.ratelimit;
        let task = task_ratelimit(ratelimit, snapshot.position.ratio);
        let sizing = size_pause(
            inputs.average_pages_per_s,
            ratelimit,
            inputs.store_dirty,
            task,
        );
        let before = *lock(&dirtier.clock);
        let (decision, after) = decide_pause(before, &sizing, task, snapshot.now_ms);
        *lock(&dirtier.clock) = after;
        let PauseDecision::Sleep { pause_ms, .. } = decision else {
            return true;
        };
        self.note_pause(
            backing,
            snapshot,
            before,
            sizing,
            (ratelimit, task, pause_ms),
        );
        self.sleep_counted(Span::from_millis(pause_ms)).await;
        may_leave(task, inputs.store_dirty, 1)
    }

    /// Before the store's rate is known a writer is paced by the writes that end. True if it may
    /// go on.
    async fn pause_unmeasured(
        &self,
        backing: &Backing,
        dirtier: &Dirtier,
        snapshot: &Snapshot,
        entered: Instant,
    ) -> bool {
        let longest = Span::from_millis(MAX_PAUSE_MS);
        let began = self.rt.now();
        let deadline = began + longest;
        let listener = backing.write_ended.listen();
        self.update_bandwidth(backing);
        let ended = self.until(deadline, listener).await.is_some();
        self.update_bandwidth(backing);
        let now = self.rt.now();
        let paused = now.since(began);
        self.count(Counter::BalancePauses, 1);
        self.count(Counter::BalancePausedUs, paused.as_micros());
        let dirty = self.global.pages();
        let may_go = dirty < snapshot.position.setpoint
            || (!ended && dirty < snapshot.inputs.hard_limit)
            || (now.since(entered) >= longest && dirty < snapshot.inputs.hard_limit);
        if may_go {
            let inputs = &snapshot.inputs;
            *lock(&dirtier.clock) = freerun_clock(now.as_millis(), dirty, inputs.thresh);
        }
        may_go || self.is_closing()
    }

    fn snapshot(&self, backing: &Backing) -> Snapshot {
        let now_ms = self.now_ms();
        let limits = self.dirty_limits();
        let dirty = self.global.pages();
        let store_thresh = self.store_thresh(backing, limits.thresh);
        let rates = *lock(&backing.rates);
        let store_background = store_background(store_thresh, limits.thresh, limits.background);
        let inputs = PositionInputs {
            thresh: limits.thresh,
            background: limits.background,
            dirty,
            hard_limit: self.global.smoothed().hard_limit(limits.thresh),
            store_thresh,
            store_dirty: backing.dirty_pages(),
            average_pages_per_s: rates.bandwidth.average_pages_per_s,
            strict: backing.settings.strict_limit,
            store_background,
        };
        let exceeded = pause::dirty_exceeded(
            inputs.store_dirty,
            store_thresh,
            dirty,
            limits.thresh,
            inputs.strict,
        );
        let cpus = 2;
        let ratelimit = pause::ratelimit_pages(limits.thresh, cpus);
        self.global
            .ratelimit_pages
            .store(ratelimit, Ordering::Relaxed);
        Snapshot {
            now_ms,
            limits,
            inputs,
            position: position(&inputs),
            exceeded,
            is_measured: rates.samples > 0,
        }
    }

    fn wake_flusher_if_over(&self, backing: &Backing, snapshot: &Snapshot) {
        if self.global.dirty.load(Ordering::Relaxed) > snapshot.limits.background {
            backing.wake_for_background();
        }
    }

    fn count_writer(&self, backing: &Backing, dirtier: &Dirtier) -> u64 {
        if !dirtier.is_counted.swap(true, Ordering::Relaxed) {
            backing.writers_seen.fetch_add(1, Ordering::Relaxed);
        }
        backing.writers_seen.load(Ordering::Relaxed)
    }

    fn note_pause(
        &self,
        backing: &Backing,
        snapshot: &Snapshot,
        clock: DirtierClock,
        sizing: PauseSizing,
        (dirty_ratelimit, task_ratelimit, pause_ms): (u64, u64, u64),
    ) {
        let limit = match (task_ratelimit, snapshot.inputs.strict) {
            (0, _) => PauseLimit::Hard,
            (_, true) => PauseLimit::Store,
            (_, false) => PauseLimit::Global,
        };
        self.record(&Event::BalanceDirtyPages {
            bdi: backing.number,
            record: PauseRecord {
                limit,
                position: snapshot.inputs,
                setpoint: snapshot.position.setpoint,
                pos_ratio: snapshot.position.ratio,
                dirty_ratelimit,
                task_ratelimit,
                dirtied: clock.nr_dirtied,
                clock,
                sizing,
                now_ms: snapshot.now_ms,
                pause_ms,
            },
        });
    }

    async fn sleep_counted(&self, span: Span) {
        let began = self.rt.now();
        let _ = self.rt.timeout(span, self.closed.listen()).await;
        self.count(Counter::BalancePauses, 1);
        self.count(
            Counter::BalancePausedUs,
            self.rt.now().since(began).as_micros(),
        );
    }

    /// The level at which the laws hold the dirty pages, and the hard limit above it.
    pub(crate) fn dirty_setpoint(&self) -> (u64, u64) {
        let limits = self.dirty_limits();
        let hard = self.global.smoothed().hard_limit(limits.thresh);
        (setpoint(limits.freerun(), hard), hard)
    }
}

fn is_free_run(backing: &Backing, snapshot: &Snapshot) -> bool {
    let inputs = &snapshot.inputs;
    if backing.settings.strict_limit {
        return inputs.store_dirty <= u64::midpoint(inputs.store_thresh, inputs.store_background);
    }
    inputs.dirty <= snapshot.limits.freerun()
}

fn rate_view(backing: &Backing, snapshot: &Snapshot, writers: u64) -> RateView {
    let inputs = &snapshot.inputs;
    let (dirty, setpoint) = if backing.settings.strict_limit {
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
        writers,
    }
}
