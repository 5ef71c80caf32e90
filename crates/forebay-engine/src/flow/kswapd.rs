//! A node's keeper: it sleeps by the same rule by which it reclaims.
//!
//! Spec/reclaim.md 4.4 to 4.6: it runs until one zone that the requests may use is above its high
//! mark. Before it sleeps it checks exactly that, for the highest class that a request named.

mod wake;

use crate::counters::Counter;
use crate::event::Event;
use crate::flow::reclaim::Steps;
use crate::parts::{Pages, Reclaim};
use crate::state::node::Node;
use crate::state::scan_control::{ScanControl, Who};
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::scan::{TOP_PRIORITY, kswapd_goal, kswapd_presses_harder};
use forebay_law::throttle::MAX_RECLAIM_RETRIES;
use forebay_rt::Work;

/// How long kswapd naps before it sleeps for good: a wake-up in this time means that it should not.
const NAP: Span = Span::from_millis(100);

impl Reclaim {
    /// The life of the kswapd of `node`.
    pub async fn kswapd(&self, steps: &impl Steps, node: usize) {
        let node = &self.memory.nodes[node];
        let mut class = node.top_class();
        while !self.accounts.is_closing() {
            class = node.requested_class().unwrap_or(class);
            let is_balanced = || self.memory.is_balanced(node, class);
            self.try_to_sleep(node, class, is_balanced).await;
            if self.accounts.is_closing() {
                return;
            }
            class = node.take_request().unwrap_or(class);
            self.accounts.record(&Event::MmVmscanKswapdWake {
                nid: node.number,
                highest_zoneidx: class,
            });
            self.balance_node(steps, node, class).await;
        }
    }

    /// Lets kswapd sleep while `is_balanced` says so.
    pub async fn try_to_sleep(&self, node: &Node, class: usize, is_balanced: impl Fn() -> bool) {
        node.kswapd_sleeps.store(true, Ordering::Release);
        let nap = node.wake_kswapd.listen();
        if may_sleep(node, &is_balanced) {
            let woken_early = self.rt.timeout(NAP, nap).await.is_ok();
            if woken_early {
                node.request_class(class);
                self.accounts.count(Counter::KswapdLowWmarkHitQuickly, 1);
            } else {
                let sleep = node.wake_kswapd.listen();
                if may_sleep(node, &is_balanced) && !self.accounts.is_closing() {
                    self.accounts
                        .record(&Event::MmVmscanKswapdSleep { nid: node.number });
                    sleep.await;
                } else {
                    self.accounts.count(Counter::KswapdHighWmarkHitQuickly, 1);
                }
            }
        } else {
            self.accounts.count(Counter::KswapdHighWmarkHitQuickly, 1);
        }
        node.kswapd_sleeps.store(false, Ordering::Release);
        // On a busy machine it waits for a processor first.
        self.rt.charge(Work::Switch).await;
    }

    /// Reclaims until a zone up to `class` is above its high mark, or nothing can be reclaimed.
    async fn balance_node(&self, steps: &impl Steps, node: &Node, class: usize) {
        let is_balanced = || self.memory.is_balanced(node, class);
        let reclaimed = self.reclaim_until(steps, node, class, is_balanced).await;
        if reclaimed == Some(0) && !is_balanced() {
            node.failures.fetch_add(1, Ordering::Relaxed);
            // Pages that a run found in use may be free a tick later. Without a rest, all the runs
            // that make a node hopeless could happen in one instant, while its pages are being
            // read. Linux goes on at once.
            self.accounts.rest(self.settings.tick).await;
        }
    }

    /// One run for `class`. Returns the pages that it freed: none if it ended because of
    /// `is_balanced`.
    pub async fn reclaim_until(
        &self,
        steps: &impl Steps,
        node: &Node,
        class: usize,
        is_balanced: impl Fn() -> bool,
    ) -> Option<u64> {
        self.accounts.count(Counter::Pageoutrun, 1);
        let mut control = ScanControl::new(Who::Kswapd, TOP_PRIORITY);
        let mut total = 0;
        while control.priority >= 1 && !self.accounts.is_closing() {
            if is_balanced() {
                node.note_refaults();
                return None;
            }
            control.goal = kswapd_goal(
                self.memory
                    .zones_up_to(node, class)
                    .map(|zone| zone.marks().high),
            );
            control.begin_pass();
            self.pages.age_active_anon(node, class, &mut control).await;
            self.shrink_node(steps, node, class, &mut control).await;
            self.pages.open_gate(node);
            let reclaimed = control.reclaimed - total;
            total = control.reclaimed;
            if kswapd_presses_harder(control.scanned, control.goal, reclaimed) {
                control.priority -= 1;
            }
            self.rt.yield_now().await;
        }
        node.note_refaults();
        Some(total)
    }
}

impl Pages {
    fn open_gate(&self, node: &Node) {
        if self.memory.is_gate_open(node) {
            node.gate.wake_all();
        }
    }
}

/// The sleep test; it alone clears the node's flags.
fn may_sleep(node: &Node, is_balanced: impl Fn() -> bool) -> bool {
    node.gate.wake_all();
    if node.failures.load(Ordering::Relaxed) >= MAX_RECLAIM_RETRIES {
        return true;
    }
    let balanced = is_balanced();
    if balanced {
        node.flags.clear();
    }
    balanced
}
