//! When kswapd may sleep, and for which zones it works: one zone that the requests may use is
//! above its high mark, by the test that ends its runs (spec/reclaim.md 4.4 to 4.6).

use crate::engine::Engine;
use crate::flow::history::sleep::{past_class_after_sleep, past_class_before_sleep};
use crate::state::node::Node;

impl Engine {
    /// The class for which kswapd asks whether it may sleep: the highest that was asked of it.
    pub(super) fn class_before_sleep(&self, node: &Node, previous: usize) -> usize {
        match self.settings.policy.past_sleep() {
            Some(past) => past_class_before_sleep(past, node, previous),
            None => node.requested_class().unwrap_or(previous),
        }
    }

    /// The class for which it reclaims after it slept, or could not.
    pub(super) fn class_after_sleep(&self, node: &Node, previous: usize) -> usize {
        match self.settings.policy.past_sleep() {
            Some(past) => past_class_after_sleep(past, node),
            None => node.take_request().unwrap_or(previous),
        }
    }

    /// Whether kswapd is balanced by the rule of its sleep test.
    pub(super) fn is_balanced_to_sleep(&self, node: &Node, class: usize) -> bool {
        match self.settings.policy.past_sleep() {
            Some(past) => self.was_balanced_to_sleep(past, node, class),
            None => self.is_node_balanced(node, class),
        }
    }

    /// Whether kswapd has nothing to do for a request of `class`.
    pub(super) fn need_not_wake(&self, node: &Node, class: usize) -> bool {
        match self.settings.policy.past_sleep() {
            Some(past) => self.needed_no_wake(past, node, class),
            None => self.is_node_balanced(node, class),
        }
    }

    /// Whether kswapd is done with a node.
    pub(super) fn is_node_balanced(&self, node: &Node, class: usize) -> bool {
        let without_zones = self.settings.policy.balances_without_zones();
        self.memory.is_balanced(node, class, without_zones)
    }
}
