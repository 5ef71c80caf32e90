//! Before 5.3: when kswapd slept, and for which zones it worked (spec/reclaim.md 4.2, 4.6, 4.7).

use crate::Older;
use crate::past::PastKswapd;
use crate::policy::KswapdSleep;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::flow::reclaim::Steps;
use forebay_engine::state::node::Node;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::zone::Zone;
use forebay_law::history::PagesLookedAt;
use forebay_law::scan::TOP_PRIORITY;

impl PastKswapd {
    /// The class for which kswapd checked whether it may sleep.
    pub(crate) fn class_before_sleep(self, node: &Node, previous: usize) -> usize {
        let asked = node.requested_class();
        match self.sleep {
            None => asked.unwrap_or(previous),
            Some(KswapdSleep::EveryZone) => node.top_class(),
            Some(KswapdSleep::ForClassZero | KswapdSleep::AnyZone | KswapdSleep::Clear) => {
                asked.unwrap_or(0)
            }
            Some(_) => asked.map_or(previous, |asked| asked.max(previous)),
        }
    }

    /// The class for which it reclaimed after it slept, or after it could not sleep.
    pub(crate) fn class_after_sleep(self, node: &Node, previous: usize) -> usize {
        let asked = node.take_request();
        match self.sleep {
            None => asked.unwrap_or(previous),
            Some(KswapdSleep::EveryZone) => node.top_class(),
            Some(_) => asked.unwrap_or(0),
        }
    }

    /// Up to 4.11 a caller that found one zone balanced took the whole node for balanced, and
    /// cleared its flags.
    pub(crate) fn clear_on_any_check(self, node: &Node, found_balanced: bool) {
        let clears = matches!(
            self.sleep,
            Some(KswapdSleep::ForClassZero | KswapdSleep::AnyZone)
        );
        if clears && found_balanced {
            node.flags.clear();
        }
    }
}

impl Older<'_> {
    /// Whether the node was balanced by the rule of kswapd's sleep test.
    pub(crate) fn was_balanced_to_sleep(
        &self,
        past: PastKswapd,
        node: &Node,
        class: usize,
    ) -> bool {
        match past.sleep {
            Some(KswapdSleep::EveryZone) => self.is_every_zone_high(node),
            Some(KswapdSleep::ForClassZero) => self.is_every_zone_balanced(past, node, class),
            _ => self.was_node_balanced(past, node, class),
        }
    }

    /// Whether kswapd had nothing to do for a request of `class`.
    pub(crate) fn needed_no_wake(&self, past: PastKswapd, node: &Node, class: usize) -> bool {
        if past.sleep == Some(KswapdSleep::EveryZone) {
            let mut zones = self.managed_zones(node, class);
            return zones.all(|zone| zone.free_pages() > zone.marks().low);
        }
        let balanced = self.was_node_balanced(past, node, class);
        past.clear_on_any_check(node, balanced);
        balanced
    }

    /// Whether a run for `class` would find nothing to look at although the node is not balanced.
    pub(crate) fn has_no_zones(&self, past: PastKswapd, node: &Node, class: usize) -> bool {
        !past.balances_without_zones() && self.managed_zones(node, class).next().is_none()
    }

    /// A node that has no zone for a class has no page to reclaim for it. Caches beside the pages
    /// are asked, whatever they are worth to the node. Linux kept a processor busy by finding this
    /// out again and again. Here a tick passes first, or a caller asks.
    pub(crate) async fn rest_without_work(&self, node: &Node) {
        let nothing = PagesLookedAt {
            looked_at: 0,
            pages: 0,
        };
        let mut control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
        self.shrink_caches(nothing, &mut control).await;
        node.kswapd_sleeps.store(true, Ordering::Release);
        let asked = node.wake_kswapd.listen();
        let _ = self
            .reclaim
            .rt
            .timeout(self.reclaim.settings.tick, asked)
            .await;
        node.kswapd_sleeps.store(false, Ordering::Release);
    }

    /// Whether kswapd was done with a node.
    pub(crate) fn was_node_balanced(&self, past: PastKswapd, node: &Node, class: usize) -> bool {
        !self.has_no_zones(past, node, class) && self.reclaim.memory.is_balanced(node, class)
    }

    fn is_every_zone_balanced(&self, past: PastKswapd, node: &Node, class: usize) -> bool {
        let mut zones = self.managed_zones(node, class);
        let is_balanced = |zone: &Zone| {
            let balanced = zone.free_pages() > zone.marks().high + zone.lowmem_reserve(class);
            past.clear_on_any_check(node, balanced);
            balanced
        };
        zones.all(is_balanced)
    }

    fn is_every_zone_high(&self, node: &Node) -> bool {
        let mut zones = self.managed_zones(node, node.top_class());
        zones.all(|zone| {
            zone.free_pages() > zone.marks().high || self.reclaim.memory.is_unreclaimable(zone)
        })
    }

    fn managed_zones(&self, node: &Node, class: usize) -> impl Iterator<Item = &Zone> {
        let zones = self.reclaim.memory.zones_up_to(node, class);
        zones.filter(|zone| zone.managed_pages() > 0)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "sleep_tests.rs"]
mod tests;
