//! A frame, or a run of them: a free one, or with kswapd's help, or by reclaiming, or not at all.
//!
//! Spec/reclaim.md 1.7 and 1.8. The fast path checks the low marks and wakes nobody. Below them
//! kswapd is woken, and below the min marks the caller reclaims for itself. A caller never writes
//! another's page (promise 4): when only dirty pages are left it waits for the flusher.

use crate::accounting::calls::Call;
use crate::counters::Counter;
use crate::error::AccessError;
use crate::marks::Mark;
use crate::memory::{FrameRequest, FreshFrame, FreshRun, NodePolicy, Search, Swap};
use crate::parts::Reclaim;
use crate::state::node::Node;
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::blame::Cause;
use forebay_law::throttle::MAX_RECLAIM_RETRIES;
use forebay_law::watermark::{MarkRelief, Watermarks, is_above};

/// Longest sleep between two tries of a caller that can reclaim nothing.
const RETRY_SPAN: Span = Span::from_millis(100);

/// Runs of reclaim since the last one that freed something.
#[derive(Default)]
struct Fruitless {
    loops: u64,
    span: Span,
}

impl Fruitless {
    fn note(&mut self, reclaimed: u64, run: Span, patience: Span) {
        if reclaimed > 0 {
            *self = Fruitless::default();
            return;
        }
        self.loops += 1;
        // A caller that is not polled makes a run look long although nothing was wrong.
        let most = Span::from_nanos(patience.as_nanos() / 2);
        self.span += run.min(most);
    }
}

impl Reclaim {
    /// A frame without waiting, above the low marks, if there is one.
    fn try_frame(&self, want: FrameRequest) -> Option<FreshFrame<'_>> {
        let mut skipped_dirty = false;
        for (_, zone, class) in self.memory.zone_list(want.node_policy) {
            if want.to_write && !self.pages.zone_takes_dirty(zone) {
                skipped_dirty = true;
                continue;
            }
            if !is_above(
                zone.free_pages(),
                zone.marks().low,
                zone.lowmem_reserve(class),
                MarkRelief::default(),
            ) {
                continue;
            }
            if let Some(fresh) = self.memory.take_frame(zone) {
                return Some(fresh);
            }
        }
        if skipped_dirty {
            self.accounts.count(Counter::AllocDirtyFallback, 1);
        }
        None
    }

    /// A frame without waiting, above the min marks; kswapd is woken to make up for it.
    fn try_reserve(&self, want: FrameRequest) -> Option<FreshFrame<'_>> {
        self.wake_kswapds(want.node_policy);
        self.memory.frame_above_min(want.node_policy)
    }

    /// A frame without waiting, from the reserve if need be.
    pub(crate) fn frame_at_once(&self, want: FrameRequest) -> Option<FreshFrame<'_>> {
        self.try_frame(want).or_else(|| self.try_reserve(want))
    }

    /// Up to `wanted` frames of one zone to read pages into, without waiting: as many as the same
    /// number of calls of [`Reclaim::frame_at_once`] would take from it.
    pub(crate) fn run_at_once(
        &self,
        node_policy: NodePolicy,
        wanted: usize,
    ) -> Option<FreshRun<'_>> {
        let run_above =
            |mark: fn(Watermarks) -> u64| self.memory.run_above(node_policy, wanted, mark);
        run_above(|marks| marks.low).or_else(|| {
            self.wake_kswapds(node_policy);
            run_above(|marks| marks.min)
        })
    }

    /// A frame for `call`, whatever it takes except writing another's page.
    pub(crate) async fn frame(
        &self,
        call: &Call<'_>,
        want: FrameRequest,
    ) -> Result<FreshFrame<'_>, AccessError> {
        if let Some(fresh) = self.try_frame(want) {
            return Ok(fresh);
        }
        let _waiting = self
            .accounts
            .waiting(&call.waits, Cause::NoFrames)
            .counted(Counter::AllocstallUs);
        let began = self.rt.now();
        let mut fruitless = Fruitless::default();
        loop {
            if let Some(fresh) = self.try_reserve(want) {
                return Ok(fresh);
            }
            if self.accounts.is_closing() {
                self.accounts.mark(Mark::AllocClosed);
                return Err(AccessError::Closed);
            }
            self.pass_gate(&self.memory.nodes[want.node_policy.node])
                .await;
            // On the heap, once for each run of reclaim: otherwise every read and every write would
            // be as large as this, and each caller moves them.
            let run_began = self.rt.now();
            let reclaimed = Box::pin(self.reclaim_for(&call.waits, want)).await;
            if let Some(fresh) = self.memory.frame_above_min(want.node_policy) {
                return Ok(fresh);
            }
            fruitless.note(reclaimed, self.rt.now().since(run_began), self.patience());
            let has_tries = fruitless.loops <= MAX_RECLAIM_RETRIES;
            let may_succeed = has_tries && self.memory.may_succeed(want.node_policy);
            if may_succeed
                && self
                    .tries_again(Search {
                        node_policy: want.node_policy,
                        began,
                        fruitless: fruitless.span,
                        reclaimed,
                    })
                    .await
            {
                self.rt.yield_now().await;
                continue;
            }
            // Where the kernel would now kill a process, the caller waits for an event: a write
            // that ends, a guard that is dropped. It gets an error if no event comes in time.
            let waited = self.rt.now().since(began);
            if waited >= self.patience() {
                self.accounts.mark(Mark::AllocNoFrames);
                return Err(AccessError::NoFrames {
                    waited,
                    held_pages: self.memory.held_pages(),
                    dirty_pages: self.dirty.global.pages(),
                });
            }
            let listener = self.memory.nodes[want.node_policy.node].freed.listen();
            if self.memory.frame_above_min(want.node_policy).is_none() {
                self.accounts.mark(Mark::AllocWaited);
                let _ = self.rt.timeout(RETRY_SPAN, listener).await;
            }
            fruitless.loops = 0;
        }
    }

    /// Lets a caller wait while kswapd refills a reserve that is half gone (spec/reclaim.md 6.2).
    async fn pass_gate(&self, node: &Node) {
        const LONGEST: Span = Span::from_secs(1);
        let is_open = || {
            node.failures.load(Ordering::Relaxed) >= MAX_RECLAIM_RETRIES
                || self.memory.is_gate_open(node)
        };
        if is_open() {
            return;
        }
        self.accounts.count(Counter::PgscanDirectThrottle, 1);
        let listener = node.gate.listen();
        self.wake_kswapd(node, node.top_class());
        if !is_open() {
            let _ = self.rt.timeout(LONGEST, listener).await;
        }
    }

    /// How long a caller waits for a frame: long while a store may still answer, short when only
    /// guards stand in the way.
    pub fn patience(&self) -> Span {
        let is_swap_put_off = || self.memory.swap.get().is_some_and(Swap::is_put_off);
        if self.dirty.global.pages() > 0 || is_swap_put_off() {
            self.settings.answer_timeout
        } else {
            self.settings.held_timeout
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "alloc_tests.rs"]
mod tests;
