//! One pass over the lists of a node, for kswapd or for a caller that needs a frame.
//!
//! Spec/reclaim.md 2.6, 2.10 and 3.8. A pass judges each page once and waits only between
//! batches, never while frames are off their lists: a caller that gives up half-way leaves
//! nothing behind.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::event::Event;
use crate::policy::{ActiveReferences, InactiveShare};
use crate::state::backing::FlusherWork;
use crate::state::frame::flag;
use crate::state::node::Node;
use crate::state::zone::{Batch, List, Zone};
use forebay_base::sync::atomic::Ordering;
use forebay_law::scan::{
    ListSizes, ScanInputs, ScanTargets, TOP_PRIORITY, inactive_is_low, inactive_is_under_tenth,
    rebalance, scan_targets,
};
use forebay_law::throttle::{Progress, ThrottleReason, consider_throttle, too_many_isolated};
use forebay_rt::Work;

/// Who reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Kswapd,
    Direct,
}

/// The intent of one run of reclaim and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanControl {
    pub(crate) who: Who,
    pub(crate) priority: u32,
    /// Pages to free.
    pub(crate) goal: u64,
    /// Both types may be deactivated whatever the lists look like.
    pub(crate) force_deactivate: bool,
    pub(crate) skipped_deactivate: bool,
    /// Pages judged in this pass.
    pub(crate) scanned: u64,
    /// Pages freed in this run.
    pub(crate) reclaimed: u64,
    pub(crate) tally: Tally,
}

/// What a pass met (spec/reclaim.md 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) taken: u64,
    pub(crate) file_taken: u64,
    pub(crate) dirty: u64,
    pub(crate) unqueued_dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) immediate: u64,
    pub(crate) congested: u64,
    pub(crate) activated: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.taken += other.taken;
        self.file_taken += other.file_taken;
        self.dirty += other.dirty;
        self.unqueued_dirty += other.unqueued_dirty;
        self.writeback += other.writeback;
        self.immediate += other.immediate;
        self.congested += other.congested;
        self.activated += other.activated;
    }
}

/// Goal of a caller that reclaims for itself.
const DIRECT_GOAL: u64 = 32;

impl ScanControl {
    pub(crate) fn new(who: Who, priority: u32) -> ScanControl {
        ScanControl {
            who,
            priority,
            goal: DIRECT_GOAL,
            force_deactivate: false,
            skipped_deactivate: false,
            scanned: 0,
            reclaimed: 0,
            tally: Tally::default(),
        }
    }

    pub(crate) fn begin_pass(&mut self) {
        self.scanned = 0;
        self.tally = Tally::default();
    }
}

impl Engine {
    /// Reclaims for a caller that found no frame. Returns the pages freed.
    pub(crate) async fn direct_reclaim(&self, node: usize) -> u64 {
        self.count(Counter::Allocstall, 1);
        self.record(&Event::MmVmscanDirectReclaimBegin { nid: node });
        let mut reclaimed = 0;
        for force_deactivate in [false, true] {
            let mut control = ScanControl::new(Who::Direct, TOP_PRIORITY);
            control.force_deactivate = force_deactivate;
            self.reclaim_for_caller(node, &mut control).await;
            reclaimed = control.reclaimed;
            if reclaimed > 0 || !control.skipped_deactivate {
                break;
            }
        }
        self.nodes[node].note_refaults();
        self.record(&Event::MmVmscanDirectReclaimEnd {
            nr_reclaimed: reclaimed,
        });
        reclaimed
    }

    async fn reclaim_for_caller(&self, first: usize, control: &mut ScanControl) {
        for priority in (0..=TOP_PRIORITY).rev() {
            control.priority = priority;
            control.begin_pass();
            for at in 0..self.nodes.len() {
                let node = &self.nodes[(first + at) % self.nodes.len()];
                self.shrink_node(node, node.top_class(), control).await;
            }
            let node = &self.nodes[first];
            match consider_throttle(control.reclaimed, control.scanned, priority, false) {
                Progress::Nothing => {}
                Progress::Wake => {
                    node.queue(ThrottleReason::NoProgress).wake_all();
                }
                Progress::Sleep => {
                    self.reclaim_throttle(node, Who::Direct, ThrottleReason::NoProgress)
                        .await;
                }
            }
            if control.reclaimed >= control.goal {
                return;
            }
        }
    }

    /// One pass over the zones of `node` up to `class`, with the waits that follow from it.
    pub(crate) async fn shrink_node(&self, node: &Node, class: usize, control: &mut ScanControl) {
        let before = (control.reclaimed, control.tally);
        control.tally = Tally::default();
        for zone in self.zones_up_to(node, class) {
            if zone.managed_pages > 0 {
                self.shrink_zone(zone, control).await;
            }
        }
        if control.reclaimed > before.0 {
            node.failures.store(0, Ordering::Relaxed);
        }
        self.throttle_after_pass(node, control).await;
        let tally = control.tally;
        control.tally = before.1;
        control.tally.add(tally);
    }

    /// Flags and waits by what the pass met (spec/reclaim.md 3.5, T7).
    async fn throttle_after_pass(&self, node: &Node, control: &ScanControl) {
        let tally = &control.tally;
        let congested = tally.dirty > 0 && tally.dirty == tally.congested;
        if control.who == Who::Kswapd {
            if tally.writeback > 0 && tally.writeback == tally.taken {
                node.flags.writeback.store(true, Ordering::Relaxed);
            }
            if tally.unqueued_dirty > 0 && tally.unqueued_dirty == tally.file_taken {
                node.flags.dirty.store(true, Ordering::Relaxed);
            }
            if congested {
                node.flags.congested.store(true, Ordering::Relaxed);
            }
            if tally.immediate > 0 {
                self.reclaim_throttle(node, Who::Kswapd, ThrottleReason::Writeback)
                    .await;
            }
        } else if node.flags.congested.load(Ordering::Relaxed) {
            self.reclaim_throttle(node, Who::Direct, ThrottleReason::Congested)
                .await;
        }
    }

    async fn shrink_zone(&self, zone: &Zone, control: &mut ScanControl) {
        let inputs = self.scan_inputs(zone, control);
        let targets = scan_targets(&inputs);
        let mut left = targets;
        let mut adjusted = false;
        let at_start = control.reclaimed;
        while left.inactive_anon > 0 || left.active_file > 0 || left.inactive_file > 0 {
            for list in List::ALL {
                let budget = budget_of(&mut left, list);
                let wanted = (*budget).min(Batch::LIMIT as u64);
                *budget -= wanted;
                if wanted > 0 && !self.shrink_list(zone, list, wanted, control).await {
                    *budget_of(&mut left, list) = 0;
                }
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
    }

    fn scan_inputs(&self, zone: &Zone, control: &ScanControl) -> ScanInputs {
        let node = &self.nodes[zone.node];
        let sizes = zone.sizes();
        let refaulted = |at: usize| {
            let noted = node.refaults_noted[at].load(Ordering::Relaxed);
            node.refaults[at].load(Ordering::Relaxed) != noted
        };
        // With a counted active list a refault that was activated shortens the inactive list's
        // part by itself; only the older rule needs telling.
        let by_refaults = self.settings.policy.inactive_share == InactiveShare::SquareRoot;
        ScanInputs {
            sizes,
            priority: control.priority,
            swappiness: self.settings.swappiness,
            cost: zone.cost(),
            free_pages: zone.free_pages(),
            high_mark_sum: zone.marks.high,
            swap_has_room: self.swap_has_room(),
            may_deactivate_anon: control.force_deactivate
                || refaulted(0)
                || inactive_is_low(sizes.inactive_anon, sizes.active_anon),
            may_deactivate_file: control.force_deactivate
                || self.inactive_file_is_low(&sizes)
                || (by_refaults && refaulted(1)),
        }
    }

    /// Judges up to `wanted` pages of one list. False if the list has no more to give.
    async fn shrink_list(
        &self,
        zone: &Zone,
        list: List,
        wanted: u64,
        control: &mut ScanControl,
    ) -> bool {
        if list.is_active() {
            let inputs = self.scan_inputs(zone, control);
            let may = if list.is_file() {
                inputs.may_deactivate_file
            } else {
                inputs.may_deactivate_anon
            };
            if !may {
                control.skipped_deactivate = true;
                return false;
            }
            let taken = self.shrink_active(zone, list, wanted, control.priority);
            self.rt.charge(Work::Scan { pages: taken }).await;
            return taken > 0;
        }
        if control.who == Who::Direct && !self.passes_isolated(zone, list).await {
            return false;
        }
        let before = control.scanned;
        let taken = self.shrink_inactive(zone, list, wanted, control);
        self.rt
            .charge(Work::Scan {
                pages: control.scanned - before,
            })
            .await;
        taken > 0
    }

    /// Lets a caller wait once while too many pages are off the lists already.
    async fn passes_isolated(&self, zone: &Zone, list: List) -> bool {
        let node = &self.nodes[zone.node];
        let is_file = list.is_file();
        let too_many = || too_many_isolated(zone.isolated(is_file), zone.size(list), true);
        if too_many() {
            self.reclaim_throttle(node, Who::Direct, ThrottleReason::Isolated)
                .await;
            if too_many() {
                return false;
            }
        }
        node.queue(ThrottleReason::Isolated).wake_all();
        true
    }

    /// Ages the active list of anonymous memory a little while its inactive list is short.
    pub(crate) async fn age_active_anon(
        &self,
        node: &Node,
        class: usize,
        control: &mut ScanControl,
    ) {
        if !self.swap_has_room() {
            return;
        }
        for zone in self.zones_up_to(node, class) {
            let ListSizes {
                inactive_anon,
                active_anon,
                ..
            } = zone.sizes();
            if inactive_is_low(inactive_anon, active_anon) {
                let wanted = Batch::LIMIT as u64;
                let taken = self.shrink_active(zone, List::ActiveAnon, wanted, control.priority);
                self.rt.charge(Work::Scan { pages: taken }).await;
            }
        }
    }

    /// Deactivates up to `wanted` pages of an active list (spec/reclaim.md 2.6).
    fn shrink_active(&self, zone: &Zone, list: List, wanted: u64, priority: u32) -> u64 {
        let batch = zone.isolate(&self.frames, list, wanted as usize);
        let (mut deactivated, mut spared) = (0, 0);
        for &frame in batch.as_slice() {
            if self.spares_active(frame) {
                spared += 1;
            } else {
                self.frames.set(frame, flag::WORKINGSET);
                self.frames.clear(frame, flag::ACTIVE);
                deactivated += 1;
            }
        }
        let orphans = zone.put_back(&self.frames, &batch, list.is_file(), batch.len());
        self.free_in(zone, &orphans);
        let (anon, file) = if list.is_file() {
            (0, spared)
        } else {
            (spared, 0)
        };
        zone.note_cost(anon, file);
        self.count(Counter::Pgrefill, batch.len() as u64);
        self.count(Counter::Pgdeactivate, deactivated);
        let nr_taken = batch.len() as u64;
        self.record(&Event::MmVmscanLruShrinkActive {
            nid: zone.node,
            nr_taken,
            nr_deactivated: deactivated,
            priority,
        });
        nr_taken
    }

    /// Whether an active page was touched often enough to stay; one touch is used up.
    fn spares_active(&self, frame: u32) -> bool {
        if self.settings.policy.active_references == ActiveReferences::Ignored {
            return false;
        }
        let word = self.frames.word(frame);
        let touches = [flag::CONSTANT, flag::FREQUENT, flag::PROMOTE];
        let last_touch = touches.into_iter().find(|touch| word & touch != 0);
        if let Some(touch) = last_touch {
            self.frames.clear(frame, touch);
        }
        last_touch.is_some()
    }

    fn inactive_file_is_low(&self, sizes: &ListSizes) -> bool {
        match self.settings.policy.inactive_share {
            InactiveShare::Tenth => inactive_is_under_tenth(sizes.inactive_file, sizes.active_file),
            InactiveShare::SquareRoot => inactive_is_low(sizes.inactive_file, sizes.active_file),
        }
    }

    /// Judges up to `wanted` pages of an inactive list (spec/reclaim.md 2.7 and 3.1).
    fn shrink_inactive(
        &self,
        zone: &Zone,
        list: List,
        wanted: u64,
        control: &mut ScanControl,
    ) -> usize {
        let taken = zone.isolate(&self.frames, list, wanted as usize);
        if taken.is_empty() {
            return 0;
        }
        let is_file = list.is_file();
        let judged = self.judge_batch(zone, &taken, control.who, is_file);
        let orphans = zone.put_back(&self.frames, &judged.kept, is_file, taken.len());
        self.free_in(zone, &judged.freed);
        self.free_in(zone, &orphans);
        let reclaimed = judged.freed.len() as u64;
        let rotations = taken.len() as u64 - reclaimed;
        let cost = 32 * judged.paged_out + rotations;
        zone.note_cost(
            if is_file { 0 } else { cost },
            if is_file { cost } else { 0 },
        );
        control.scanned += judged.looked_at;
        control.reclaimed += reclaimed;
        control.tally.add(judged.tally);
        if judged.tally.unqueued_dirty > 0 && judged.tally.unqueued_dirty == judged.tally.taken {
            self.kick_flushers();
        }
        self.count_batch(control.who, is_file, taken.len() as u64, reclaimed);
        self.count(Counter::Pgactivate, judged.tally.activated);
        self.record(&Event::MmVmscanLruShrinkInactive {
            nid: zone.node,
            nr_scanned: judged.looked_at,
            nr_reclaimed: reclaimed,
            nr_dirty: judged.tally.dirty,
            nr_writeback: judged.tally.writeback,
            nr_immediate: judged.tally.immediate,
            nr_activate: judged.tally.activated,
            priority: control.priority,
            is_file,
        });
        taken.len()
    }

    fn count_batch(&self, who: Who, is_file: bool, scanned: u64, reclaimed: u64) {
        let (scan, steal) = match who {
            Who::Kswapd => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            Who::Direct => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.count(scan, scanned);
        self.count(steal, reclaimed);
        self.count(
            if is_file {
                Counter::PgscanFile
            } else {
                Counter::PgscanAnon
            },
            scanned,
        );
    }

    fn free_in(&self, zone: &Zone, blank: &Batch) {
        if !blank.is_empty() {
            zone.put_free(&self.frames, blank.as_slice());
            self.count(Counter::Pgfree, blank.len() as u64);
            self.nodes[zone.node].freed.wake_all();
        }
    }

    /// Asks every flusher to write all it has: reclaim met nothing but dirty pages.
    fn kick_flushers(&self) {
        for backing in self.backings() {
            if backing.reclaimable.load(Ordering::Relaxed) > 0 {
                backing.request(FlusherWork {
                    background: false,
                    all: true,
                });
            }
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
