//! The flows of an older kernel at the doors of the engine. Where it did what is done today, the
//! flow is today's.

use crate::past::Past;
use crate::policy::{DirtyThrottle, ZoneDirtyLimits};
use crate::{Foreground, Older, Policy};
use forebay_engine::memory::{FrameRequest, NodePolicy, Search};
use forebay_engine::parts::{Flow, Flusher, OlderFlows, Pages, Reclaim, Throttle};
use forebay_engine::state::backing::Backing;
use forebay_engine::state::dirtier::Dirtier;
use forebay_engine::state::node::Node;
use forebay_engine::state::payer::{DirtiedPages, Payer};
use forebay_engine::state::scan_control::ScanControl;
use forebay_engine::state::waits::Waits;
use forebay_engine::state::zone::Zone;
use forebay_law::blame::Cause;

/// The flows of the kernel that a policy names.
#[derive(Debug)]
pub(crate) struct FlowsOfPolicy {
    pub(crate) policy: Policy,
    pub(crate) past: Past,
}

impl FlowsOfPolicy {
    pub(crate) fn older<'a>(&'a self, reclaim: &'a Reclaim) -> Older<'a> {
        Older {
            reclaim,
            policy: &self.policy,
            past: &self.past,
        }
    }

    async fn balance(&self, past: DirtyThrottle, throttle: &Throttle, payer: Payer<'_>) {
        throttle.enter(payer).await;
        // What is not a nap of it is spent on writes that it waits for.
        let _waiting = throttle.accounts.waiting(payer.waits, Cause::SyncWrites);
        Foreground { throttle }.balance(past, payer).await;
    }
}

impl OlderFlows for FlowsOfPolicy {
    fn reclaim_for<'a>(
        &'a self,
        reclaim: &'a Reclaim,
        waits: &'a Waits,
        want: FrameRequest,
    ) -> Flow<'a, u64> {
        Box::pin(async move {
            reclaim
                .direct_reclaim(&self.older(reclaim), waits, want)
                .await
        })
    }

    fn reclaim_near<'a>(
        &'a self,
        reclaim: &'a Reclaim,
        node_policy: NodePolicy,
        control: &'a mut ScanControl<'_>,
    ) -> Flow<'a, ()> {
        Box::pin(async move {
            let steps = self.older(reclaim);
            reclaim
                .reclaim_for_caller(&steps, node_policy, control)
                .await;
        })
    }

    fn kswapd<'a>(&'a self, reclaim: &'a Reclaim, node: usize) -> Flow<'a, ()> {
        Box::pin(async move {
            let steps = self.older(reclaim);
            match self.past.kswapd {
                None => reclaim.kswapd(&steps, node).await,
                Some(past) => steps.past_kswapd(past, node).await,
            }
        })
    }

    fn need_not_wake(&self, reclaim: &Reclaim, node: &Node, class: usize) -> bool {
        match self.past.kswapd {
            None => reclaim.memory.is_balanced(node, class),
            Some(past) => self.older(reclaim).needed_no_wake(past, node, class),
        }
    }

    fn tries_again<'a>(&'a self, reclaim: &'a Reclaim, search: Search) -> Flow<'a, bool> {
        Box::pin(async move {
            let patience = reclaim.patience();
            let Some(past) = self.past.naps else {
                return search.fruitless < patience;
            };
            let in_time = reclaim.rt.now().since(search.began) < patience;
            let (node_policy, reclaimed) = (search.node_policy, search.reclaimed);
            in_time
                && (self.older(reclaim))
                    .naps_before_retry(past, node_policy, reclaimed)
                    .await
        })
    }

    fn turn_pages(&self, flusher: &Flusher, backing: &Backing, pages_left: u64) -> u64 {
        match self.past.turn_pages {
            None => flusher.chunk_pages(backing, pages_left),
            Some(fixed) => fixed.min(pages_left),
        }
    }

    fn zone_takes_dirty(&self, pages: &Pages, zone: &Zone) -> bool {
        match self.past.zone_limits {
            None => pages.zone_is_ok(zone),
            Some(ZoneDirtyLimits::Off) => true,
            Some(_) => {
                let node = &pages.memory.nodes[zone.node];
                pages.memory.node_takes_dirty(node, &pages.knobs.dirty())
            }
        }
    }

    fn note_dirtied(&self, throttle: &Throttle, dirtied: &DirtiedPages<'_>) -> bool {
        if self.past.writers.is_some() {
            Foreground { throttle }.note_dirtied(dirtied.backing, dirtied.dirtier, dirtied.pages)
        } else {
            throttle.note_dirtied(dirtied)
        }
    }

    fn quota_left(&self, throttle: &Throttle, backing: &Backing, dirtier: &Dirtier) -> u64 {
        if self.past.writers.is_some() {
            Foreground { throttle }.pages_until_asked(backing)
        } else {
            dirtier.left_pages()
        }
    }

    fn throttle<'a>(&'a self, throttle: &'a Throttle, payer: Payer<'a>) -> Flow<'a, ()> {
        match self.past.writers {
            None => Box::pin(async move { throttle.balance_dirty_pages(payer).await }),
            Some(past) => Box::pin(self.balance(past, throttle, payer)),
        }
    }
}
