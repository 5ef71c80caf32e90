//! Before 3.2: a writer that dirties too fast writes its store's pages itself, and naps ever longer
//! (spec/writeback.md 6).

use crate::policy::DirtyThrottle;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::{Instant, Span};
use forebay_engine::counters::Counter;
use forebay_engine::event::Event;
use forebay_engine::parts::Throttle;
use forebay_engine::state::backing::Backing;
use forebay_engine::state::dirtier::Dirtier;
use forebay_engine::state::payer::Payer;
use forebay_engine::state::waits::Waits;
use forebay_law::blame::Cause;
use forebay_law::history::{
    TaskLimits, foreground_chunk, foreground_ratelimit, next_nap_ms, task_limits,
};
use forebay_law::limits::DirtyLimits;
use std::sync::Arc;

/// After this long a writer leaves if its store is well below its part of the limit (3.1).
const LONGEST_STALL: Span = Span::from_millis(200);

/// The numbers that a writer judges by.
#[derive(Clone, Copy, Debug)]
struct View {
    limits: DirtyLimits,
    dirty: u64,
    store_thresh: u64,
    store_dirty: u64,
    store_reclaimable: u64,
    task: TaskLimits,
}

impl View {
    fn is_exceeded(&self) -> bool {
        self.store_dirty > self.task.task_thresh || self.dirty > self.limits.thresh
    }

    fn is_clearable(&self) -> bool {
        self.store_dirty <= self.task.clear_thresh && self.dirty <= self.limits.thresh
    }
}

/// Writers that write and nap themselves.
pub(crate) struct Foreground<'a> {
    pub(crate) throttle: &'a Throttle,
}

impl Foreground<'_> {
    /// Notes that a writer made `pages` clean pages dirty. True if it has to be evaluated. Linux
    /// counts on each processor. One common count evaluates as often.
    pub(crate) fn note_dirtied(&self, backing: &Backing, dirtier: &Dirtier, pages: u64) -> bool {
        let now_ms = self.throttle.accounts.now_ms();
        self.throttle
            .dirty
            .global
            .note_dirtied(&dirtier.dirtied_lately, pages, now_ms);
        let unseen = self
            .throttle
            .dirty
            .global
            .unevaluated
            .fetch_add(pages, Ordering::Relaxed)
            + pages;
        if unseen < self.foreground_ratelimit(backing) {
            return false;
        }
        self.throttle
            .dirty
            .global
            .unevaluated
            .store(0, Ordering::Relaxed);
        lock(&dirtier.state).clock.nr_dirtied = unseen;
        true
    }

    /// What the common count leaves for the next writer.
    pub(crate) fn pages_until_asked(&self, backing: &Backing) -> u64 {
        let unseen = self
            .throttle
            .dirty
            .global
            .unevaluated
            .load(Ordering::Relaxed);
        self.foreground_ratelimit(backing).saturating_sub(unseen)
    }

    fn foreground_ratelimit(&self, backing: &Backing) -> u64 {
        let is_exceeded = backing.writers.exceeded.load(Ordering::Relaxed);
        foreground_ratelimit(u64::from(self.throttle.memory.frames.len()), 1, is_exceeded)
    }

    /// Lets a writer write and nap until the dirty pages are within the limit, or it has done its
    /// part.
    pub(crate) async fn balance(&self, past: DirtyThrottle, payer: Payer<'_>) {
        let Payer {
            backing, dirtier, ..
        } = payer;
        let dirtied = lock(&dirtier.state).clock.nr_dirtied;
        let ratelimit =
            foreground_ratelimit(u64::from(self.throttle.memory.frames.len()), 1, false);
        let chunk = foreground_chunk(dirtied, ratelimit);
        let last = match past {
            DirtyThrottle::ForegroundPerStore => self.balance_store(payer, chunk).await,
            _ => self.balance_task(payer, chunk).await,
        };
        if last.is_clearable() {
            backing.writers.exceeded.store(false, Ordering::Relaxed);
        }
        if self.throttle.dirty.global.dirty.load(Ordering::Relaxed) > last.limits.background {
            backing.flushing.requests.ask_for_background();
        }
    }

    /// As in 3.1 (spec/writeback.md 6.3).
    async fn balance_task(&self, payer: Payer<'_>, chunk: u64) -> View {
        let Payer {
            backing,
            dirtier,
            waits,
            ..
        } = payer;
        let entered = self.throttle.rt.now();
        let tick = self.throttle.kernel.values.pause_tick;
        let (mut nap_ms, mut written) = (tick.ms(), 0);
        loop {
            let view = self.view(backing, dirtier);
            if view.dirty <= view.limits.freerun()
                || !view.is_exceeded()
                || self.throttle.accounts.is_closing()
            {
                return view;
            }
            self.mark_exceeded(backing, &view);
            if view.store_reclaimable > view.task.task_thresh {
                written += self.write(backing, chunk).await;
                if written >= chunk {
                    return view;
                }
            }
            self.nap(backing, waits, nap_ms, written).await;
            if self.has_stalled_enough(&view, entered) {
                return view;
            }
            nap_ms = next_nap_ms(nap_ms, tick);
        }
    }

    fn has_stalled_enough(&self, view: &View, entered: Instant) -> bool {
        let hard = self
            .throttle
            .dirty
            .global
            .smoothed()
            .hard_limit(view.limits.thresh);
        let middle = u64::midpoint(view.task.task_thresh, view.store_thresh);
        view.dirty < hard
            && view.store_dirty < middle
            && self.throttle.rt.now().since(entered) > LONGEST_STALL
    }

    /// As in 2.6.32 (spec/writeback.md 6.5).
    async fn balance_store(&self, payer: Payer<'_>, chunk: u64) -> View {
        let Payer {
            backing,
            dirtier,
            waits,
            ..
        } = payer;
        let tick = self.throttle.kernel.values.pause_tick;
        let (mut nap_ms, mut written) = (tick.ms(), 0);
        loop {
            let mut view = self.view_clipped(backing, dirtier);
            if view.store_dirty <= view.task.task_thresh
                || view.dirty < view.limits.freerun()
                || self.throttle.accounts.is_closing()
            {
                return view;
            }
            self.mark_exceeded(backing, &view);
            if view.store_reclaimable > view.task.task_thresh {
                written += self.write(backing, chunk).await;
                view = self.view_clipped(backing, dirtier);
            }
            if view.store_dirty <= view.task.task_thresh || written >= chunk {
                return view;
            }
            self.nap(backing, waits, nap_ms, written).await;
            nap_ms = next_nap_ms(nap_ms, tick);
        }
    }

    fn view(&self, backing: &Backing, dirtier: &Dirtier) -> View {
        let limits = self.throttle.dirty.dirty_limits();
        let store_thresh = self
            .throttle
            .dirty
            .store_part(backing, &limits, self.throttle.dirty.global.pages())
            .thresh;
        let part = self
            .throttle
            .dirty
            .global
            .dirtied_part(&dirtier.dirtied_lately, self.throttle.accounts.now_ms());
        View {
            limits,
            dirty: self.throttle.dirty.global.pages(),
            store_thresh,
            store_dirty: backing.dirty_pages(),
            store_reclaimable: backing.counts.reclaimable.load(Ordering::Relaxed),
            task: task_limits(store_thresh, part.numerator, part.denominator),
        }
    }

    /// The same, with a store's part that never lets the whole limit be passed.
    fn view_clipped(&self, backing: &Backing, dirtier: &Dirtier) -> View {
        let mut view = self.view(backing, dirtier);
        let room = view.limits.thresh.saturating_sub(view.dirty);
        let clipped = view.store_thresh.min(room + view.store_dirty);
        let part = self
            .throttle
            .dirty
            .global
            .dirtied_part(&dirtier.dirtied_lately, self.throttle.accounts.now_ms());
        view.task = task_limits(clipped, part.numerator, part.denominator);
        view.store_thresh = clipped;
        view
    }

    fn mark_exceeded(&self, backing: &Backing, view: &View) {
        backing.writers.exceeded.store(true, Ordering::Relaxed);
        self.throttle.dirty.update_bandwidth(backing);
        let now_ms = self.throttle.accounts.now_ms();
        self.throttle
            .dirty
            .global
            .advance_limit(view.limits.thresh, view.dirty, now_ms);
    }

    async fn write(&self, backing: &Arc<Backing>, chunk: u64) -> u64 {
        let written = self.throttle.flusher.write_for_writer(backing, chunk).await;
        self.throttle
            .accounts
            .count(Counter::BalanceForegroundWrites, written);
        written
    }

    async fn nap(&self, backing: &Backing, waits: &Waits, nap_ms: u64, pages_written: u64) {
        self.throttle.dirty.wake_for_commits();
        let nap = Span::from_millis(nap_ms);
        self.throttle.accounts.record(&Event::BalanceForeground {
            bdi: backing.number,
            caller: waits.caller,
            pages_written,
            nap_us: nap.as_micros(),
        });
        self.throttle
            .accounts
            .sleep_counted(waits, Cause::OwnRate, nap)
            .await;
    }
}
