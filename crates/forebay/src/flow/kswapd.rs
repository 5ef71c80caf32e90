//! A node's keeper: it sleeps by the rule by which it reclaims.
//!
//! Spec/reclaim.md 4.4 to 4.6: it runs until one zone that the requests may use is above its high
//! mark, and asks exactly that, for the highest class that was asked of it, before it sleeps.

mod rule;
mod wake;

use crate::counters::Counter;
use crate::engine::Engine;
use crate::event::Event;
use crate::flow::reclaim::{ScanControl, Who};
use crate::policy::{KswapdBalance, ReclaimThrottle};
use crate::state::node::Node;
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::scan::{TOP_PRIORITY, kswapd_goal};
use forebay_law::throttle::MAX_RECLAIM_RETRIES;

/// How long kswapd naps before it sleeps for good: a wake-up in this time says that it should not.
const NAP: Span = Span::from_millis(100);

impl Engine {
    /// The life of the kswapd of `node`.
    pub(crate) async fn kswapd(&self, node: usize) {
        let node = &self.memory.nodes[node];
        let mut class = node.top_class();
        while !self.is_closing() {
            class = self.class_before_sleep(node, class);
            self.try_to_sleep(node, class).await;
            if self.is_closing() {
                return;
            }
            class = self.class_after_sleep(node, class);
            if self.settings.policy.past_sleep().is_some() && self.has_no_zones(node, class) {
                self.rest_without_work(node).await;
                continue;
            }
            self.record(&Event::MmVmscanKswapdWake {
                nid: node.number,
                highest_zoneidx: class,
            });
            match self.settings.policy.kswapd_balance {
                KswapdBalance::Node => self.balance_node(node, class).await,
                KswapdBalance::Zones => self.balance_zones(node).await,
            }
        }
    }

    async fn try_to_sleep(&self, node: &Node, class: usize) {
        node.kswapd_sleeps.store(true, Ordering::Release);
        let nap = node.wake_kswapd.listen();
        if self.may_sleep(node, class) {
            let woken_early = self.rt.timeout(NAP, nap).await.is_ok();
            if woken_early {
                node.request_class(class);
                self.count(Counter::KswapdLowWmarkHitQuickly, 1);
            } else {
                let sleep = node.wake_kswapd.listen();
                if self.may_sleep(node, class) && !self.is_closing() {
                    self.record(&Event::MmVmscanKswapdSleep { nid: node.number });
                    sleep.await;
                } else {
                    self.count(Counter::KswapdHighWmarkHitQuickly, 1);
                }
            }
        } else {
            self.count(Counter::KswapdHighWmarkHitQuickly, 1);
        }
        node.kswapd_sleeps.store(false, Ordering::Release);
    }

    /// The sleep test; it alone clears the node's flags.
    fn may_sleep(&self, node: &Node, class: usize) -> bool {
        node.gate.wake_all();
        if node.failures.load(Ordering::Relaxed) >= MAX_RECLAIM_RETRIES {
            return true;
        }
        let balanced = self.is_balanced_to_sleep(node, class);
        if balanced {
            node.flags.clear();
        }
        balanced
    }

    /// Reclaims until a zone up to `class` is above its high mark, or nothing can be reclaimed.
    async fn balance_node(&self, node: &Node, class: usize) {
        self.count(Counter::Pageoutrun, 1);
        let mut control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
        let mut total = 0;
        while control.priority >= 1 && !self.is_closing() {
            let balanced = self.is_node_balanced(node, class);
            if self.settings.policy.past_sleep().is_some() {
                self.clear_on_any_check(node, balanced);
            }
            if balanced {
                node.note_refaults();
                return;
            }
            control.goal = kswapd_goal(
                self.memory
                    .zones_up_to(node, class)
                    .map(|zone| zone.marks().high),
            );
            control.begin_pass();
            self.age_active_anon(node, class, &mut control).await;
            self.shrink_node(node, class, &mut control).await;
            self.open_gate(node);
            let reclaimed = control.reclaimed - total;
            total = control.reclaimed;
            if control.scanned < control.goal || reclaimed == 0 {
                control.priority -= 1;
            }
            self.rt.yield_now().await;
        }
        node.note_refaults();
        let counts_failures = self.settings.policy.counts_failures();
        if total == 0 && counts_failures && !self.is_node_balanced(node, class) {
            node.failures.fetch_add(1, Ordering::Relaxed);
            self.rest_after_nothing().await;
        }
    }

    /// What a run found in use may be free a tick later. Without a rest all the runs that make a
    /// node hopeless could fall into one instant, in which its pages are being read. Linux goes on
    /// at once, and so do the policies that repeat what it did.
    async fn rest_after_nothing(&self) {
        if self.settings.policy.reclaim_throttle == ReclaimThrottle::Events {
            self.rest(self.settings.tick).await;
        }
    }

    fn open_gate(&self, node: &Node) {
        if self.memory.is_gate_open(node) {
            node.gate.wake_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "kswapd/sleep_tests.rs"]
mod sleep_tests;
