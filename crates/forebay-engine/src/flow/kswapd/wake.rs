//! How a caller that found a zone below its low mark wakes kswapd.

use crate::memory::NodePolicy;
use crate::parts::Reclaim;
use crate::state::node::Node;
use forebay_base::sync::atomic::Ordering;
use forebay_law::throttle::MAX_RECLAIM_RETRIES;

impl Reclaim {
    /// Wakes the kswapd of `node` for requests of `class`, if it has something to do.
    pub(crate) fn wake_kswapd(&self, node: &Node, class: usize) {
        node.request_class(class);
        if node.kswapd_sleeps.load(Ordering::Acquire)
            && node.failures.load(Ordering::Relaxed) < MAX_RECLAIM_RETRIES
            && !self.need_not_wake(node, class)
        {
            node.wake_kswapd.wake_all();
        }
    }

    /// Wakes the kswapds of all nodes that `node_policy` allows, the nearest first.
    pub(crate) fn wake_kswapds(&self, node_policy: NodePolicy) {
        for node in self.memory.nodes_from(node_policy) {
            self.wake_kswapd(node, node.top_class());
        }
    }
}
