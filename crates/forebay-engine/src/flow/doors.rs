//! The doors at which the flows of an older kernel take the place of today's. No flow of today asks
//! which kernel it belongs to, and no flow of an older kernel is reached but through one of these.

use crate::flow::reclaim::Today;
use crate::memory::{FrameRequest, NodePolicy, Search};
use crate::parts::{Flusher, Pages, Reclaim, Throttle};
use crate::state::backing::Backing;
use crate::state::dirtier::Dirtier;
use crate::state::node::Node;
use crate::state::payer::{DirtiedPages, Payer};
use crate::state::scan_control::ScanControl;
use crate::state::waits::Waits;
use crate::state::zone::Zone;

impl Reclaim {
    /// Reclaims for a caller that found no frame. Returns the pages freed.
    pub(crate) async fn reclaim_for(&self, waits: &Waits, want: FrameRequest) -> u64 {
        match &self.kernel.flows {
            None => self.direct_reclaim(&Today(self), waits, want).await,
            Some(older) => older.reclaim_for(self, waits, want).await,
        }
    }

    /// Reclaims where `node_policy` says, as `control` says.
    pub(crate) async fn reclaim_near(
        &self,
        node_policy: NodePolicy,
        control: &mut ScanControl<'_>,
    ) {
        match &self.kernel.flows {
            None => {
                self.reclaim_for_caller(&Today(self), node_policy, control)
                    .await;
            }
            Some(older) => older.reclaim_near(self, node_policy, control).await,
        }
    }

    /// The life of the kswapd of `node`.
    pub(crate) async fn run_kswapd(&self, node: usize) {
        match &self.kernel.flows {
            None => self.kswapd(&Today(self), node).await,
            Some(older) => older.kswapd(self, node).await,
        }
    }

    /// Whether kswapd has nothing to do for a request of `class`.
    pub fn need_not_wake(&self, node: &Node, class: usize) -> bool {
        match &self.kernel.flows {
            None => self.memory.is_balanced(node, class),
            Some(older) => older.need_not_wake(self, node, class),
        }
    }

    /// Whether a caller tries once more after a run of reclaim. A caller of an older kernel naps
    /// first.
    pub(crate) async fn tries_again(&self, search: Search) -> bool {
        match &self.kernel.flows {
            None => search.fruitless < self.patience(),
            Some(older) => older.tries_again(self, search).await,
        }
    }
}

impl Flusher {
    /// How many pages a turn writes, if the round has `pages_left`.
    pub(crate) fn turn_pages(&self, backing: &Backing, pages_left: u64) -> u64 {
        match &self.kernel.flows {
            None => self.chunk_pages(backing, pages_left),
            Some(older) => older.turn_pages(self, backing, pages_left),
        }
    }
}

impl Pages {
    /// Whether a page may be dirtied in this zone (spec/reclaim.md 1.10).
    pub(crate) fn zone_takes_dirty(&self, zone: &Zone) -> bool {
        if self.memory.zones.len() == 1 {
            return true;
        }
        match &self.kernel.flows {
            None => self.zone_is_ok(zone),
            Some(older) => older.zone_takes_dirty(self, zone),
        }
    }
}

impl Throttle {
    /// Notes that a writer made clean pages dirty. True if it has to be evaluated. A call that ends
    /// is evaluated earlier than one that goes on, so that each call pays for itself.
    pub(crate) fn dirtied(&self, dirtied: &DirtiedPages<'_>) -> bool {
        dirtied.dirtier.count_dirtied(dirtied.pages);
        match &self.kernel.flows {
            None => self.note_dirtied(dirtied),
            Some(older) => older.note_dirtied(self, dirtied),
        }
    }

    /// Pages that a writer may make dirty before it has to be evaluated, at least 1. A write stops
    /// there, however long it is: pages past the quota would cost more than the longest pauses take
    /// back, and the base rate would have to fall for all.
    pub(crate) fn quota_left(&self, backing: &Backing, dirtier: &Dirtier) -> u64 {
        let left = match &self.kernel.flows {
            None => dirtier.left_pages(),
            Some(older) => older.quota_left(self, backing, dirtier),
        };
        left.max(1)
    }

    /// Lets a writer pay for what it dirtied.
    pub(crate) async fn throttle(&self, payer: Payer<'_>) {
        match &self.kernel.flows {
            None => self.balance_dirty_pages(payer).await,
            Some(older) => older.throttle(self, payer).await,
        }
    }
}
