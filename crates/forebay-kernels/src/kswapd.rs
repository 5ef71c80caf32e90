//! Before 5.3, or before 4.8, or without a rest: the life of a kswapd unlike today's.
//!
//! It sleeps by the rules of `sleep`, and balances the node, or each zone as `zones` does.

use crate::Older;
use crate::past::PastKswapd;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::event::Event;
use forebay_engine::state::node::Node;

impl Older<'_> {
    /// The life of the kswapd of `node`.
    pub(crate) async fn past_kswapd(&self, past: PastKswapd, node: usize) {
        let node = &self.reclaim.memory.nodes[node];
        let mut class = node.top_class();
        while !self.reclaim.accounts.is_closing() {
            class = past.class_before_sleep(node, class);
            let is_balanced = || self.was_balanced_to_sleep(past, node, class);
            self.reclaim.try_to_sleep(node, class, is_balanced).await;
            if self.reclaim.accounts.is_closing() {
                return;
            }
            class = past.class_after_sleep(node, class);
            if self.has_no_zones(past, node, class) {
                self.rest_without_work(node).await;
                continue;
            }
            self.reclaim.accounts.record(&Event::MmVmscanKswapdWake {
                nid: node.number,
                highest_zoneidx: class,
            });
            if past.balances_zones {
                self.balance_zones(node).await;
            } else {
                self.balance_past_node(past, node, class).await;
            }
        }
    }

    /// Reclaims until the node is balanced, or nothing can be reclaimed.
    async fn balance_past_node(&self, past: PastKswapd, node: &Node, class: usize) {
        let is_balanced = || {
            let balanced = self.was_node_balanced(past, node, class);
            past.clear_on_any_check(node, balanced);
            balanced
        };
        let reclaimed = self
            .reclaim
            .reclaim_until(self, node, class, is_balanced)
            .await;
        if reclaimed == Some(0)
            && past.counts_failures()
            && !self.was_node_balanced(past, node, class)
        {
            node.failures.fetch_add(1, Ordering::Relaxed);
            if past.rests {
                self.reclaim.accounts.rest(self.reclaim.settings.tick).await;
            }
        }
    }
}
