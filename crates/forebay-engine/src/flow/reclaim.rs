//! One pass over the lists of a node, for kswapd or for a caller that needs a frame.
//!
//! Spec/reclaim.md 2.6, 2.10 and 3.8. A pass judges each page once and waits only between batches.
//! Frames that are off their lists go back by themselves, so a caller that gives up halfway leaves
//! nothing behind.

pub mod asking;
mod batch;
mod caches;
mod steps;
mod waits;

pub use self::steps::{Steps, Today};

use crate::counters::Counter;
use crate::event::Event;
use crate::lists::{List, Source};
use crate::memory::FrameRequest;
use crate::memory::NodePolicy;
use crate::parts::{Pages, Reclaim};
use crate::state::batch::Batch;
use crate::state::node::Node;
use crate::state::scan_control::{ScanControl, Who};
use crate::state::tally::Tally;
use crate::state::waits::Waits;
use crate::state::zone::Zone;
use forebay_law::blame::Cause;
use forebay_law::history::PagesLookedAt;
use forebay_law::scan::{ScanInputs, ScanTargets, TOP_PRIORITY, rebalance};

/// What is due from one list.
#[derive(Clone, Copy)]
struct Due {
    list: List,
    wanted: u64,
}

/// Pages that one poll of a run looks at, about a millisecond's worth. A reclaimer may be one task
/// among others, and each pass over a large memory with nothing to free looks at all of it.
const POLL_PAGES: u64 = 32_768;

impl Reclaim {
    /// Reclaims for a caller that found no frame. Returns the pages freed.
    pub async fn direct_reclaim(
        &self,
        steps: &impl Steps,
        waits: &Waits,
        want: FrameRequest,
    ) -> u64 {
        let node = want.node_policy.node;
        let _waiting = self.accounts.waiting(waits, Cause::DirectReclaim);
        self.accounts.count(Counter::Allocstall, 1);
        self.accounts
            .record(&Event::MmVmscanDirectReclaimBegin { nid: node });
        let mut reclaimed = 0;
        for force_deactivate in [false, true] {
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            control.own_store = want.own_store;
            control.waits = Some(waits);
            control.force_deactivate = force_deactivate;
            self.reclaim_for_caller(steps, want.node_policy, &mut control)
                .await;
            reclaimed = control.reclaimed;
            if reclaimed > 0 || !control.skipped_deactivate {
                break;
            }
        }
        self.memory.nodes[node].note_refaults();
        self.accounts.record(&Event::MmVmscanDirectReclaimEnd {
            nr_reclaimed: reclaimed,
        });
        reclaimed
    }

    pub async fn reclaim_for_caller(
        &self,
        steps: &impl Steps,
        node_policy: NodePolicy,
        control: &mut ScanControl<'_>,
    ) {
        let mut total_scanned = 0;
        for priority in (0..=TOP_PRIORITY).rev() {
            control.priority = priority;
            control.begin_pass();
            let nodes = &self.memory.nodes;
            for at in 0..node_policy.reach(nodes.len()) {
                let node = &nodes[(node_policy.node + at) % nodes.len()];
                self.shrink_node(steps, node, node.top_class(), control)
                    .await;
            }
            steps.after_pass(&nodes[node_policy.node], control).await;
            total_scanned += control.scanned;
            if control.reclaimed >= control.goal {
                return;
            }
            steps
                .after_failure(node_policy.node, control, total_scanned)
                .await;
        }
    }

    /// One pass over the zones of `node` up to `class`, with the waits that result from it.
    pub(crate) async fn shrink_node(
        &self,
        steps: &impl Steps,
        node: &Node,
        class: usize,
        control: &mut ScanControl<'_>,
    ) {
        let before = (control.reclaimed, control.tally, control.scanned);
        control.tally = Tally::default();
        let mut pages = 0;
        for zone in self.memory.zones_up_to(node, class) {
            let is_meant = !control.zones_over_only || zone.pages_over() > 0;
            if zone.managed_pages() > 0 && is_meant {
                pages += self.memory.reclaimable_pages(zone);
                self.shrink_zone(steps, zone, control).await;
            }
        }
        let looked_at = control.scanned - before.2;
        if looked_at > 0 || !control.zones_over_only {
            let part = PagesLookedAt { looked_at, pages };
            steps.shrink_caches(part, control).await;
        }
        if control.reclaimed > before.0 {
            node.note_progress();
        }
        steps.after_node(node, control).await;
        let tally = control.tally;
        control.tally = before.1;
        control.tally.add(tally);
    }

    pub async fn shrink_zone(
        &self,
        steps: &impl Steps,
        zone: &Zone,
        control: &mut ScanControl<'_>,
    ) {
        let inputs = self.pages.scan_inputs(zone, control);
        let is_kswapd = control.who == Who::Kswapd;
        let targets = self.memory.lists.targets(zone.number, &inputs, is_kswapd);
        let mut left = targets;
        let mut adjusted = false;
        let at_start = control.reclaimed;
        while left.inactive_anon > 0 || left.active_file > 0 || left.inactive_file > 0 {
            for list in List::ALL {
                let budget = budget_of(&mut left, list);
                let wanted = (*budget).min(Batch::LIMIT as u64);
                *budget -= wanted;
                if wanted > 0
                    && !self
                        .shrink_list(steps, zone, Due { list, wanted }, control)
                        .await
                {
                    *budget_of(&mut left, list) = 0;
                }
                control.unyielded += wanted;
            }
            if control.unyielded >= POLL_PAGES {
                control.unyielded = 0;
                self.rt.yield_now().await;
            }
            let reclaimed = control.reclaimed - at_start;
            let goes_on = control.who == Who::Direct && control.priority == TOP_PRIORITY;
            if reclaimed < control.goal || goes_on || adjusted {
                continue;
            }
            if left.inactive_file + left.active_file == 0
                || left.inactive_anon + left.active_anon == 0
            {
                break;
            }
            left = rebalance(targets, left);
            adjusted = true;
        }
        // Also if nothing of the inactive list was due: it may be empty, and all memory on the
        // active list.
        self.pages.age_active_anon_of(zone, control.priority).await;
        steps.after_zone(control).await;
    }

    /// Judges or ages up to `wanted` pages that are due from one list. False if the list has no
    /// more to give.
    async fn shrink_list(
        &self,
        steps: &impl Steps,
        zone: &Zone,
        Due { list, wanted }: Due,
        control: &mut ScanControl<'_>,
    ) -> bool {
        let Source { list, is_judged } = self.memory.lists.source(zone.number, list);
        if !is_judged {
            let inputs = self.pages.scan_inputs(zone, control);
            let may = if list.is_file() {
                inputs.may_deactivate_file
            } else {
                inputs.may_deactivate_anon
            };
            if !may {
                control.skipped_deactivate = true;
                return false;
            }
            let priority = control.priority;
            return self.pages.shrink_active(zone, list, wanted, priority).await > 0;
        }
        if control.who == Who::Direct {
            let passes = steps.passes_isolated(zone, list, control).await;
            if !passes {
                return false;
            }
        }
        let batch = self.memory.isolate(zone, list, wanted);
        let met = self.shrink_judged(steps, batch, control).await;
        steps.after_batch(zone, control, met).await;
        met.taken > 0
    }
}

impl Pages {
    pub fn scan_inputs(&self, zone: &Zone, control: &ScanControl<'_>) -> ScanInputs {
        let lists = self.memory.lists.of(zone.number);
        let sizes = lists.sizes();
        let node = &self.memory.nodes[zone.node];
        let gives_up = |is_file| {
            let refaulted = node.has_refaulted(is_file);
            control.force_deactivate || self.memory.lists.gives_up(is_file, &sizes, refaulted)
        };
        ScanInputs {
            sizes,
            priority: control.priority,
            swappiness: self.knobs.swappiness(),
            cost: lists.cost(),
            free_pages: zone.free_pages(),
            high_mark_sum: zone.marks().high,
            swap_has_room: self.memory.swap_has_room(),
            may_deactivate_anon: gives_up(false),
            may_deactivate_file: gives_up(true),
        }
    }

    /// Ages the active lists of anonymous memory a little while their inactive lists are short.
    pub async fn age_active_anon(&self, node: &Node, class: usize, control: &mut ScanControl<'_>) {
        for zone in self.memory.zones_up_to(node, class) {
            self.age_active_anon_of(zone, control.priority).await;
        }
    }

    async fn age_active_anon_of(&self, zone: &Zone, priority: u32) {
        let sizes = self.memory.lists.of(zone.number).sizes();
        if self.memory.lists.ages_anon(&sizes) && self.memory.swap_has_room() {
            let wanted = Batch::LIMIT as u64;
            self.shrink_active(zone, List::ActiveAnon, wanted, priority)
                .await;
        }
    }
}

fn budget_of(targets: &mut ScanTargets, list: List) -> &mut u64 {
    match list {
        List::InactiveAnon => &mut targets.inactive_anon,
        List::ActiveAnon => &mut targets.active_anon,
        List::InactiveFile => &mut targets.inactive_file,
        List::ActiveFile => &mut targets.active_file,
    }
}

#[cfg(all(test, not(loom)))]
#[path = "reclaim/active_tests.rs"]
mod active_tests;
