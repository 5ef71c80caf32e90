//! Before 4.8: kswapd balances each zone separately (spec/reclaim.md 4.3, as in 3.0).

use crate::Older;
use forebay_base::Span;
use forebay_engine::counters::Counter;
use forebay_engine::flow::reclaim::Steps;
use forebay_engine::state::node::Node;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::zone::Zone;
use forebay_law::history::PagesLookedAt;
use forebay_law::scan::{SWAP_CLUSTER_MAX, TOP_PRIORITY};
use forebay_law::watermark::balance_gap;

/// The nap after a pass in trouble that was not enough.
const NAP: Span = Span::from_millis(100);
/// Passes from this priority on are in trouble.
const TROUBLE_PRIORITY: u32 = 9;

/// How a pass over the zones ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Balanced,
    /// Some zone is below its high mark; whether one is below its min mark.
    Short {
        is_urgent: bool,
    },
}

impl Older<'_> {
    /// Reclaims until every zone of the node is above its high mark or has nothing to give.
    pub(crate) async fn balance_zones(&self, node: &Node) {
        while !self.reclaim.accounts.is_closing() {
            self.reclaim.accounts.count(Counter::Pageoutrun, 1);
            if self.press_zones(node).await {
                return;
            }
            self.reclaim.rt.yield_now().await;
        }
    }

    /// One run through the priorities, up to the first that frees a batch. True if it is over.
    async fn press_zones(&self, node: &Node) -> bool {
        let mut control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
        control.goal = u64::MAX;
        let mut scanned = 0;
        for priority in (0..=TOP_PRIORITY).rev() {
            control.priority = priority;
            control.begin_pass();
            let Pass::Short { is_urgent } = self.shrink_short_zones(node, &mut control).await
            else {
                return true;
            };
            scanned += control.scanned;
            if control.scanned > 0 && priority <= TROUBLE_PRIORITY {
                if is_urgent {
                    self.reclaim
                        .accounts
                        .count(Counter::KswapdSkipCongestionWait, 1);
                } else {
                    self.congestion_wait(Who::Kswapd, NAP).await;
                }
            }
            if control.reclaimed >= SWAP_CLUSTER_MAX {
                return false;
            }
            if self.reclaim.accounts.is_closing() {
                return true;
            }
        }
        scanned == 0
    }

    /// Shrinks every zone up to the highest one that is short.
    async fn shrink_short_zones(&self, node: &Node, control: &mut ScanControl<'_>) -> Pass {
        let top = node.top_class();
        let is_short = |zone: &Zone| zone.free_pages() <= zone.marks().high;
        let candidates = || self.reclaim.memory.zones_up_to(node, top).enumerate();
        let is_candidate =
            |zone: &Zone| zone.managed_pages() > 0 && !self.is_hopeless(zone, control);
        let short = candidates().filter(|(_, zone)| is_candidate(zone) && is_short(zone));
        let Some(end) = short.map(|(class, _)| class).last() else {
            return Pass::Balanced;
        };
        self.reclaim.pages.age_active_anon(node, top, control).await;
        let (mut all_ok, mut is_urgent) = (true, false);
        for zone in self.reclaim.memory.zones_up_to(node, end) {
            if zone.managed_pages() == 0 || self.is_hopeless(zone, control) {
                continue;
            }
            let enough = zone.marks().high + zone.lowmem_reserve(end);
            let gap = balance_gap(zone.marks().low, zone.managed_pages());
            if zone.free_pages() <= enough + gap {
                let before = control.scanned;
                self.reclaim.shrink_zone(self, zone, control).await;
                let looked_at = control.scanned - before;
                let zones = self.reclaim.memory.zones_up_to(node, top);
                let pages = zones
                    .map(|zone| self.reclaim.memory.reclaimable_pages(zone))
                    .sum();
                self.shrink_caches(PagesLookedAt { looked_at, pages }, control)
                    .await;
            }
            if zone.free_pages() > enough {
                zone.flags.clear();
            } else if !self.is_hopeless(zone, control) {
                all_ok = false;
                is_urgent |= zone.free_pages() <= zone.marks().min + zone.lowmem_reserve(end);
            }
        }
        if all_ok {
            Pass::Balanced
        } else {
            Pass::Short { is_urgent }
        }
    }

    /// Whether a zone was scanned so often in vain that only gentle passes still look at it.
    fn is_hopeless(&self, zone: &Zone, control: &ScanControl<'_>) -> bool {
        control.priority < TOP_PRIORITY && self.reclaim.memory.is_unreclaimable(zone)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "zones_tests.rs"]
mod tests;
