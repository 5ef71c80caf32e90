//! Before 5.16: reclaimers that nap until no store is congested, or for a fixed time
//! (spec/reclaim.md 5.1 to 5.3, T0, T1, T3 and T4 of 3.5); and the first two versions of waiting
//! for events.

use crate::Older;
use crate::policy::ReclaimThrottle;
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::counters::Counter;
use forebay_engine::event::Event;
use forebay_engine::flow::reclaim::Steps;
use forebay_engine::lists::List;
use forebay_engine::memory::NodePolicy;
use forebay_engine::state::node::{Node, ReclaimFlags};
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::tally::Tally;
use forebay_engine::state::zone::Zone;
use forebay_law::history::{EarlyProgress, consider_throttle_early};
use forebay_law::throttle::{
    Progress, ThrottleReason, batch_waits_for_writeback, too_many_isolated,
};

/// The usual nap (HZ/10) and the allocator's (HZ/50).
const NAP: Span = Span::from_millis(100);
const SHORT_NAP: Span = Span::from_millis(20);
/// From this priority on a caller without progress naps.
const NAPS_FROM_PRIORITY: u32 = 9;

impl Older<'_> {
    /// Waits until a store ceases to be congested, or for `span`.
    pub(crate) async fn congestion_wait(&self, who: Who, span: Span) {
        let delayed_us = self.nap(span).await;
        self.reclaim.accounts.count(Counter::CongestionWaits, 1);
        self.reclaim
            .accounts
            .count(Counter::CongestionWaitedUs, delayed_us);
        self.reclaim
            .accounts
            .record(&Event::WritebackCongestionWait {
                usec_timeout: span.as_micros(),
                usec_delayed: delayed_us,
                is_kswapd: who == Who::Kswapd,
            });
    }

    /// The same, but only if a store is congested and reclaim of the zone or node has met that.
    pub(crate) async fn wait_iff_congested(&self, flags: &ReclaimFlags, who: Who, span: Span) {
        let is_congested = flags.congested.load(Ordering::Relaxed);
        let delayed_us = if is_congested && self.reclaim.congestion.is_anywhere() {
            self.nap(span).await
        } else {
            self.reclaim.rt.yield_now().await;
            0
        };
        self.reclaim.accounts.count(Counter::WaitIffCongested, 1);
        self.reclaim
            .accounts
            .count(Counter::WaitIffCongestedUs, delayed_us);
        self.reclaim
            .accounts
            .record(&Event::WritebackWaitIffCongested {
                usec_timeout: span.as_micros(),
                usec_delayed: delayed_us,
                is_kswapd: who == Who::Kswapd,
            });
    }

    async fn nap(&self, span: Span) -> u64 {
        let began = self.reclaim.rt.now();
        let _ = self
            .reclaim
            .rt
            .timeout(span, self.reclaim.congestion.over.listen())
            .await;
        self.reclaim.rt.now().since(began).as_micros()
    }

    /// Flags and naps after a batch (T0, T1 and T3).
    pub(crate) async fn nap_after_batch(
        &self,
        zone: &Zone,
        control: &ScanControl<'_>,
        batch: Tally,
    ) {
        let version = self.policy.reclaim_throttle;
        let flags = self.reclaim_flags(zone);
        if version <= ReclaimThrottle::Linux32 {
            if batch.dirty_met > 0 && batch.dirty_met == batch.gate_closed {
                flags.congested.store(true, Ordering::Relaxed);
            }
            let much = batch_waits_for_writeback(batch.writeback, batch.taken, control.priority);
            if version == ReclaimThrottle::Linux32 && much {
                self.wait_iff_congested(flags, control.who, NAP).await;
            }
        } else if version <= ReclaimThrottle::Linux411 {
            batch.raise(flags, batch.taken);
            if batch.immediate > 0 {
                self.congestion_wait(control.who, NAP).await;
            }
            if control.who == Who::Direct {
                self.wait_iff_congested(flags, control.who, NAP).await;
            }
        }
    }

    /// Naps after a zone was shrunk, while far more is under writeback than may be dirty. In one
    /// run it naps no longer than a store may be silent (promise 7). Linux naps on, forever if need
    /// be.
    pub(crate) async fn nap_after_zone(&self, control: &mut ScanControl<'_>) {
        if self.policy.reclaim_throttle > ReclaimThrottle::Linux32 {
            return;
        }
        let deadline =
            control.waits_until(self.reclaim.rt.now(), self.reclaim.settings.answer_timeout);
        while self.reclaim.rt.now() < deadline {
            let thresh = self.reclaim.dirty.dirty_limits().thresh;
            let writeback = self.reclaim.dirty.global.writeback.load(Ordering::Relaxed);
            if writeback <= thresh + thresh / 10 || self.reclaim.accounts.is_closing() {
                return;
            }
            self.congestion_wait(control.who, NAP).await;
        }
    }

    /// Waits after a pass over a node: T4, and T7 as it was first.
    pub(crate) async fn nap_after_pass(
        &self,
        steps: &impl Steps,
        node: &Node,
        control: &ScanControl<'_>,
    ) {
        let version = self.policy.reclaim_throttle;
        if version < ReclaimThrottle::Linux515 {
            return;
        }
        let events = version > ReclaimThrottle::Linux515;
        let is_congested = node.flags.congested.load(Ordering::Relaxed);
        match control.who {
            Who::Kswapd => {
                control.tally.raise(&node.flags, control.tally.file_taken);
                if control.tally.immediate > 0 && events {
                    let reason = ThrottleReason::Writeback;
                    steps.throttle(node, control.who, reason).await;
                } else if control.tally.immediate > 0 {
                    self.congestion_wait(control.who, NAP).await;
                }
            }
            Who::Direct if !is_congested => {}
            Who::Direct if events => {
                let reason = ThrottleReason::Writeback;
                steps.throttle(node, control.who, reason).await;
            }
            Who::Direct => self.wait_iff_congested(&node.flags, control.who, NAP).await,
        }
        if let (Some(version), Who::Direct) = (self.past.early_events, control.who) {
            self.wait_for_early_progress(steps, node, control, version)
                .await;
        }
    }

    /// Waits because nothing was freed, or ends such waits of others, as the first versions did.
    async fn wait_for_early_progress(
        &self,
        steps: &impl Steps,
        node: &Node,
        control: &ScanControl<'_>,
        version: EarlyProgress,
    ) {
        let ScanControl {
            reclaimed,
            scanned,
            priority,
            ..
        } = *control;
        match consider_throttle_early(reclaimed, scanned, priority, false, version) {
            Progress::Nothing => {}
            Progress::Wake if version == EarlyProgress::AnyPage => {}
            Progress::Wake => {
                node.queue(ThrottleReason::NoProgress).wake_all();
            }
            Progress::Sleep => {
                let reason = ThrottleReason::NoProgress;
                steps.throttle(node, Who::Direct, reason).await;
            }
        }
    }

    /// Naps at the end of a caller's pass that freed nothing (3.0 to 3.10).
    pub(crate) async fn nap_in_vain(&self, first: usize, control: &ScanControl<'_>) {
        if self.policy.reclaim_throttle <= ReclaimThrottle::Linux32
            && control.scanned > 0
            && control.priority <= NAPS_FROM_PRIORITY
        {
            let flags = self.preferred_flags(first);
            self.wait_iff_congested(flags, Who::Direct, NAP).await;
        }
    }

    /// Naps of an allocator before it tries again.
    pub(crate) async fn naps_before_retry(
        &self,
        version: ReclaimThrottle,
        node_policy: NodePolicy,
        reclaimed: u64,
    ) -> bool {
        if version <= ReclaimThrottle::Linux32 {
            let flags = self.preferred_flags(node_policy.node);
            self.wait_iff_congested(flags, Who::Direct, SHORT_NAP).await;
        } else if reclaimed == 0 && self.is_mostly_dirty(node_policy) {
            self.congestion_wait(Who::Direct, NAP).await;
        }
        true
    }

    /// The flags of the zone that node `first` prefers for its frames.
    fn preferred_flags(&self, first: usize) -> &ReclaimFlags {
        let zones = self.reclaim.memory.nodes[first].zones.clone();
        let mut zones = zones.rev().map(|zone| &self.reclaim.memory.zones[zone]);
        let preferred = zones.find(|zone| zone.managed_pages() > 0);
        preferred.map_or(&self.reclaim.memory.nodes[first].flags, |zone| {
            self.reclaim_flags(zone)
        })
    }

    fn is_mostly_dirty(&self, node_policy: NodePolicy) -> bool {
        self.reclaim
            .memory
            .zone_list(node_policy)
            .any(|(_, zone, _)| {
                2 * zone.pages_pending() > self.reclaim.memory.reclaimable_pages(zone)
            })
    }

    /// Naps of a caller while too much is off the lists. False if it gives up.
    pub(crate) async fn naps_while_isolated(&self, zone: &Zone, list: List) -> bool {
        let version = self.policy.reclaim_throttle;
        let may_io_and_fs = version > ReclaimThrottle::Linux32;
        let is_file = list.is_file();
        let lists = self.reclaim.memory.lists.of(zone.number);
        let too_many =
            || too_many_isolated(lists.isolated(is_file), lists.size(list), may_io_and_fs);
        while too_many() {
            if self.reclaim.accounts.is_closing() {
                return false;
            }
            self.congestion_wait(Who::Direct, NAP).await;
            if version == ReclaimThrottle::Linux515 {
                return !too_many();
            }
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
#[path = "naps_tests.rs"]
mod tests;
