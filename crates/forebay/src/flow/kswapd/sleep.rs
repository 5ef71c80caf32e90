//! Before 5.3: when kswapd slept, and for which zones it worked (spec/reclaim.md 4.2, 4.6, 4.7).

use crate::engine::Engine;
use crate::policy::KswapdSleep;
use crate::state::node::Node;
use crate::state::zone::Zone;

impl Engine {
    /// The class for which kswapd asks whether it may sleep.
    pub(super) fn class_before_sleep(&self, node: &Node, previous: usize) -> usize {
        let asked = node.requested_class();
        match self.settings.policy.kswapd_sleep {
            KswapdSleep::EveryZone => node.top_class(),
            KswapdSleep::ForClassZero | KswapdSleep::AnyZone | KswapdSleep::Clear => {
                asked.unwrap_or(0)
            }
            KswapdSleep::KeepAwake => asked.map_or(previous, |asked| asked.max(previous)),
            KswapdSleep::ForRequestedClass => asked.unwrap_or(previous),
        }
    }

    /// The class for which it reclaims after it slept, or could not.
    pub(super) fn class_after_sleep(&self, node: &Node, previous: usize) -> usize {
        let asked = node.take_request();
        match self.settings.policy.kswapd_sleep {
            KswapdSleep::EveryZone => node.top_class(),
            KswapdSleep::ForClassZero
            | KswapdSleep::AnyZone
            | KswapdSleep::Clear
            | KswapdSleep::KeepAwake => asked.unwrap_or(0),
            KswapdSleep::ForRequestedClass => asked.unwrap_or(previous),
        }
    }

    /// Whether kswapd is balanced by the rule of its sleep test.
    pub(super) fn is_balanced_to_sleep(&self, node: &Node, class: usize) -> bool {
        match self.settings.policy.kswapd_sleep {
            KswapdSleep::EveryZone => self.is_every_zone_high(node),
            KswapdSleep::ForClassZero => self.is_every_zone_balanced(node, class),
            _ => self.is_node_balanced(node, class),
        }
    }

    /// Whether kswapd has nothing to do for a request of `class`.
    pub(super) fn need_not_wake(&self, node: &Node, class: usize) -> bool {
        if self.settings.policy.kswapd_sleep == KswapdSleep::EveryZone {
            let mut zones = self.managed_zones(node, class);
            return zones.all(|zone| zone.free_pages() > zone.marks().low);
        }
        let balanced = self.is_node_balanced(node, class);
        self.clear_on_any_check(node, balanced);
        balanced
    }

    /// Up to 4.11 whoever found a zone balanced took that for the whole node and cleared its flags.
    pub(super) fn clear_on_any_check(&self, node: &Node, found_balanced: bool) {
        let clears = matches!(
            self.settings.policy.kswapd_sleep,
            KswapdSleep::ForClassZero | KswapdSleep::AnyZone
        );
        if clears && found_balanced {
            node.flags.clear();
        }
    }

    /// Whether a run for `class` would find nothing to look at, and yet not be balanced.
    pub(super) fn has_no_zones(&self, node: &Node, class: usize) -> bool {
        let mut zones = self.managed_zones(node, class);
        !self.settings.policy.balances_without_zones() && zones.next().is_none()
    }

    /// Whether fruitless runs make a node hopeless (4.12 and later).
    pub(super) fn counts_failures(&self) -> bool {
        self.settings.policy.kswapd_sleep >= KswapdSleep::KeepAwake
    }

    /// Whether kswapd is done with a node, as its policy sees it.
    pub(super) fn is_node_balanced(&self, node: &Node, class: usize) -> bool {
        let without_zones = self.settings.policy.balances_without_zones();
        self.memory.is_balanced(node, class, without_zones)
    }

    fn is_every_zone_balanced(&self, node: &Node, class: usize) -> bool {
        let mut zones = self.managed_zones(node, class);
        let is_balanced = |zone: &Zone| {
            let balanced = zone.free_pages() > zone.marks().high + zone.lowmem_reserve(class);
            self.clear_on_any_check(node, balanced);
            balanced
        };
        zones.all(is_balanced)
    }

    fn is_every_zone_high(&self, node: &Node) -> bool {
        let mut zones = self.managed_zones(node, node.top_class());
        zones
            .all(|zone| zone.free_pages() > zone.marks().high || self.memory.is_unreclaimable(zone))
    }

    fn managed_zones(&self, node: &Node, class: usize) -> impl Iterator<Item = &Zone> {
        let zones = self.memory.zones_up_to(node, class);
        zones.filter(|zone| zone.managed_pages() > 0)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "sleep_tests.rs"]
mod tests;
