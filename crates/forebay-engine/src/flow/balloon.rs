//! A budget that changes while the cache runs.
//!
//! The memory taken at start is the most that there is. A smaller budget is met as Linux meets one
//! for a virtual machine: free frames go into a balloon, reclaim makes more of them, and held or
//! dirty pages follow when they can. Marks, reserves and dirty limits are those of the smaller
//! cache at once. A task of its own does this, so that a caller that gives up stops nothing.

use crate::counters::Counter;
use crate::error::MemoryError;
use crate::memory::NodePolicy;
use crate::parts::Reclaim;
use crate::state::flusher_requests::FlusherWork;
use crate::state::scan_control::{ScanControl, Who};
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::scan::TOP_PRIORITY;
use std::sync::Arc;

/// First sleep of the task after a run that freed nothing, and the longest, ms.
const REST_MS: (u64, u64) = (100, 5_000);
/// The task looks no more often than this while writes end.
const LEAST_REST: Span = Span::from_millis(5);

impl Reclaim {
    /// Makes the cache as large as `memory_bytes` allow. Returns the pages that it still has over
    /// that: none, unless the wait for them took too long.
    pub(crate) async fn set_memory(&self, memory_bytes: u64) -> Result<u64, MemoryError> {
        if self.accounts.is_closing() {
            return Err(MemoryError::Closed);
        }
        self.budget.check(&self.settings, memory_bytes)?;
        self.accounts
            .incidents
            .resized(self.rt.now(), self.pages.memory_bytes(), memory_bytes);
        self.capacity.resize(Some(memory_bytes));
        if self.memory.pages_over() == 0 && !self.pages.objects.is_over_room(0) {
            return Ok(0);
        }
        for backing in self.dirty.stores.all() {
            // The limits are lower now.
            backing.flushing.requests.ask_for_background();
        }
        self.start_filling();
        // The task goes on with that if the caller gives up.
        while self.capacity.forget_over_room() {
            self.rt.yield_now().await;
        }
        Ok(self.balloons_fill().await)
    }

    /// Makes the cache as large as `memory_bytes` allow, in the background.
    pub(crate) fn budget_becomes(&self, memory_bytes: u64) {
        self.capacity.resize(Some(memory_bytes));
        if self.memory.pages_over() > 0 || self.pages.objects.is_over_room(0) {
            for backing in self.dirty.stores.all() {
                // The limits are lower now.
                backing.flushing.requests.ask_for_background();
            }
            self.start_filling();
        }
    }

    /// Waits until the budget is met, no longer than a caller would wait for a frame.
    async fn balloons_fill(&self) -> u64 {
        let began = self.rt.now();
        loop {
            let listener = self.pages.balloon.changed.listen();
            let over = self.memory.pages_over();
            let deadline = began + self.patience();
            if over == 0 || self.accounts.is_closing() || self.rt.now() >= deadline {
                return over;
            }
            // Whatever ended the wait, the next look shows how far the task has come.
            let _ = self.accounts.until(deadline, listener).await;
        }
    }

    /// Puts free frames into the balloons of zones that are too large. Returns how many.
    fn fill_balloons(&self) -> u64 {
        let mut filled = 0;
        for zone in &self.memory.zones {
            loop {
                let taken = zone.fill_balloon(&self.memory.frames);
                if taken == 0 {
                    break;
                }
                filled += taken;
            }
        }
        self.accounts.count(Counter::BalloonInflate, filled);
        if filled > 0 {
            self.pages.balloon.changed.wake_all();
        }
        filled
    }

    /// Starts the task that fills the balloons, unless it runs already.
    pub(crate) fn start_filling(&self) {
        if !self.pages.balloon.is_filling.swap(true, Ordering::SeqCst) {
            let reclaim = self.shared();
            self.rt.spawn("balloon", async move {
                let filling = reclaim.clone().fill_until_met();
                if reclaim.accounts.watched("balloon", filling).await.is_none() {
                    // The next caller that needs it starts another one.
                    reclaim
                        .pages
                        .balloon
                        .is_filling
                        .store(false, Ordering::SeqCst);
                }
            });
        }
    }

    /// A file that could not be forgotten while it was open can be forgotten now.
    pub(crate) fn file_closed(&self) {
        if self.pages.objects.is_over_room(0) && !self.accounts.is_closing() {
            self.start_filling();
        }
    }

    async fn fill_until_met(self: Arc<Self>) {
        let mut rest_ms = REST_MS.0;
        loop {
            // Each forgotten object makes the part of the pages larger: first forget all that may
            // go.
            if self.capacity.forget_over_room() && !self.accounts.is_closing() {
                self.rt.yield_now().await;
                continue;
            }
            let filled = self.fill_balloons();
            if self.memory.pages_over() == 0 || self.accounts.is_closing() {
                self.pages.balloon.is_filling.store(false, Ordering::SeqCst);
                // A budget that became smaller just before found the task at work.
                if self.memory.pages_over() > 0 && !self.accounts.is_closing() {
                    self.start_filling();
                }
                return;
            }
            let reclaimed = self.reclaim_over().await;
            if filled + reclaimed > 0 {
                rest_ms = REST_MS.0;
                self.rt.yield_now().await;
            } else {
                // All that is left is held, or dirty, or has nowhere to go. Pages that become clean
                // end the wait, but not each of them, because a look costs a scan.
                let listener = self.pages.slab.freed.listen();
                self.dirty.stores.ask_flushers(FlusherWork::ALL);
                self.accounts.rest(LEAST_REST).await;
                let _ = self.rt.timeout(Span::from_millis(rest_ms), listener).await;
                rest_ms = (rest_ms * 2).min(REST_MS.1);
            }
        }
    }

    /// Reclaims as a caller does, only from the zones that are too large. Returns the pages freed.
    async fn reclaim_over(&self) -> u64 {
        let Some(zone) = self.memory.zones.iter().find(|zone| zone.pages_over() > 0) else {
            return 0;
        };
        for force_deactivate in [false, true] {
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            control.zones_over_only = true;
            control.force_deactivate = force_deactivate;
            self.reclaim_near(NodePolicy::near(zone.node), &mut control)
                .await;
            if control.reclaimed > 0 {
                return control.reclaimed;
            }
        }
        0
    }
}
