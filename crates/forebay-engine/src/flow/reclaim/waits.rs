//! What throttles a reclaimer (spec/reclaim.md 3.5, T7, and 5.4 to 5.6): it waits for an event that
//! shows progress of others, or for room in a store's queue. What slows a writer is in
//! `flow/pause.rs`.

use crate::accounting::calls::Waiting;
use crate::counters::Counter;
use crate::event::Event;
use crate::flow::reclaim::Steps;
use crate::lists::List;
use crate::parts::Reclaim;
use crate::state::backing::Backing;
use crate::state::node::Node;
use crate::state::scan_control::{ScanControl, Who};
use crate::state::zone::Zone;
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::blame::Cause;
use forebay_law::scan::SWAP_CLUSTER_MAX;
use forebay_law::throttle::{Progress, ThrottleReason, consider_throttle, too_many_isolated};
use forebay_rt::wait::Gate;

impl Reclaim {
    /// Raises flags and waits by what the pass met (spec/reclaim.md 3.5, T7).
    pub async fn throttle_after_pass(
        &self,
        steps: &impl Steps,
        node: &Node,
        control: &ScanControl<'_>,
    ) {
        let tally = &control.tally;
        let (who, reason) = match control.who {
            Who::Kswapd => {
                tally.raise(&node.flags, tally.file_taken);
                if tally.immediate == 0 {
                    return;
                }
                (Who::Kswapd, ThrottleReason::Writeback)
            }
            Who::Direct if !node.flags.congested.load(Ordering::Relaxed) => return,
            Who::Direct => (Who::Direct, ThrottleReason::Congested),
        };
        let _waiting = self.waits_for_reason(control, reason);
        steps.throttle(node, who, reason).await;
    }

    /// The wait of a caller for what `reason` names.
    fn waits_for_reason<'a>(
        &'a self,
        control: &'a ScanControl<'_>,
        reason: ThrottleReason,
    ) -> Option<Waiting<'a>> {
        let waits = control.waits?;
        let cause = match reason {
            ThrottleReason::Writeback => Cause::ReclaimWriteback,
            ThrottleReason::Isolated => Cause::ReclaimIsolated,
            ThrottleReason::NoProgress => Cause::ReclaimNoProgress,
            ThrottleReason::Congested => Cause::ReclaimCongested,
        };
        Some(self.accounts.waiting(waits, cause))
    }

    /// Waits because nothing was freed, or ends such waits of others (spec/reclaim.md 5.6).
    pub async fn wait_for_progress(
        &self,
        steps: &impl Steps,
        node: &Node,
        control: &ScanControl<'_>,
    ) {
        let ScanControl {
            reclaimed,
            scanned,
            priority,
            ..
        } = *control;
        match consider_throttle(reclaimed, scanned, priority, false) {
            Progress::Nothing => {}
            Progress::Wake => {
                node.queue(ThrottleReason::NoProgress).wake_all();
            }
            Progress::Sleep => {
                let reason = ThrottleReason::NoProgress;
                let _waiting = self.waits_for_reason(control, reason);
                steps.throttle(node, Who::Direct, reason).await;
            }
        }
    }

    /// Lets a caller wait once while too many pages are off the lists already. False if it gives
    /// up.
    pub async fn passes_isolated(
        &self,
        steps: &impl Steps,
        zone: &Zone,
        list: List,
        control: &ScanControl<'_>,
    ) -> bool {
        let node = &self.memory.nodes[zone.node];
        let is_file = list.is_file();
        let lists = self.memory.lists.of(zone.number);
        let too_many = || too_many_isolated(lists.isolated(is_file), lists.size(list), true);
        if too_many() {
            let reason = ThrottleReason::Isolated;
            let _waiting = self.waits_for_reason(control, reason);
            steps.throttle(node, Who::Direct, reason).await;
            if too_many() {
                return false;
            }
        }
        node.queue(ThrottleReason::Isolated).wake_all();
        true
    }

    /// Lets a reclaimer that paged out wait while the queue of swap is full. Memory that was
    /// submitted and is not yet written is of use to nobody, and a read has to pass all of it.
    /// Pages of a batch lie side by side in swap, so the store makes one request of them.
    pub(super) async fn wait_for_swap_queue(&self, control: &mut ScanControl<'_>) {
        let Some(swap) = self.memory.swap.get() else {
            return;
        };
        let requests = swap.backing.settings.queue_requests;
        let room = requests.saturating_mul(SWAP_CLUSTER_MAX as u32);
        self.wait_for_room(&swap.backing, [room; 2], control).await;
    }

    /// Waits until `backing` has fewer writes under way than the first of `rooms`, or than the
    /// second once a write has ended meanwhile.
    pub async fn wait_for_room(
        &self,
        backing: &Backing,
        rooms: [u32; 2],
        control: &mut ScanControl<'_>,
    ) {
        let deadline = control.waits_until(self.rt.now(), self.settings.answer_timeout);
        let _waiting = self.waits_for_reason(control, ThrottleReason::Writeback);
        let [mut most, after_waiting] = rooms;
        while self.rt.now() < deadline {
            let listener = backing.writes.ended.listen();
            let queued = backing.writes.in_flight.load(Ordering::Acquire);
            if queued < most || self.accounts.is_closing() {
                return;
            }
            if self.accounts.until(deadline, listener).await.is_none() {
                self.accounts
                    .overdue("room in the queue of a store", self.settings.answer_timeout);
            }
            most = after_waiting;
        }
    }

    /// Lets a reclaimer wait until the file system has written an inode that it gives up. False if
    /// that takes too long.
    pub async fn wait_for_inode(&self, writing: &Gate, control: &mut ScanControl<'_>) -> bool {
        let deadline = control.waits_until(self.rt.now(), self.settings.answer_timeout);
        let _waiting = self.waits_for_reason(control, ThrottleReason::Writeback);
        let is_written = self
            .accounts
            .until(deadline, writing.wait())
            .await
            .is_some();
        if !is_written {
            self.accounts
                .overdue("the write of an inode", self.settings.answer_timeout);
        }
        is_written && !self.accounts.is_closing()
    }

    /// Waits for the event of `reason` on `node` (spec/reclaim.md 5.4), or for `timeout`.
    pub async fn wait_for_reason(
        &self,
        node: &Node,
        who: Who,
        reason: ThrottleReason,
        timeout: Span,
    ) {
        let is_writeback = reason == ThrottleReason::Writeback;
        let listener = node.queue(reason).listen();
        let waiting = is_writeback.then(|| node.wait_for_writeback());
        let began = self.rt.now();
        let _ = self.rt.timeout(timeout, listener).await;
        drop(waiting);
        let delayed_us = self.rt.now().since(began).as_micros();
        self.accounts.count(throttle_counter(reason), 1);
        self.accounts.count(Counter::ThrottledUs, delayed_us);
        self.accounts.record(&Event::MmVmscanThrottled {
            nid: node.number,
            usec_timeout: timeout.as_micros(),
            usec_delayed: delayed_us,
            reason,
            is_kswapd: who == Who::Kswapd,
        });
    }
}

fn throttle_counter(reason: ThrottleReason) -> Counter {
    match reason {
        ThrottleReason::Writeback => Counter::ThrottledWriteback,
        ThrottleReason::Isolated => Counter::ThrottledIsolated,
        ThrottleReason::NoProgress => Counter::ThrottledNoProgress,
        ThrottleReason::Congested => Counter::ThrottledCongested,
    }
}
