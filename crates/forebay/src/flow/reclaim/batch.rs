//! One batch of a list: off the list, judged, and back or free.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::event::Event;
use crate::flow::reclaim::{ScanControl, Tally, Who};
use crate::policy::{ActiveReferences, KswapdBalance, ReclaimWriteback, ScanBalance};
use crate::state::flusher_requests::FlusherWork;
use crate::state::frame::flag;
use crate::state::zone::{Batch, List, Zone};
use forebay_base::sync::atomic::Ordering;
use forebay_rt::{Charge, Work};

/// Frames off their list. They go back to it if nothing else is made of them.
struct Isolated<'a> {
    engine: &'a Engine,
    zone: &'a Zone,
    is_file: bool,
    frames: Batch,
}

impl Isolated<'_> {
    /// Puts `kept` of the frames back; the others have been made blank.
    fn put_back(mut self, kept: &Batch) {
        let taken = std::mem::replace(&mut self.frames, Batch::new()).len();
        self.end(kept, taken);
    }

    fn end(&self, kept: &Batch, taken: usize) {
        let frames = &self.engine.memory.frames;
        let orphans = self.zone.put_back(frames, kept, self.is_file, taken);
        self.engine
            .memory
            .free_frames(self.zone, orphans.as_slice());
    }
}

impl Drop for Isolated<'_> {
    fn drop(&mut self) {
        if !self.frames.is_empty() {
            self.end(&self.frames, self.frames.len());
        }
    }
}

impl Engine {
    fn isolate<'a>(&'a self, zone: &'a Zone, list: List, wanted: u64) -> Isolated<'a> {
        Isolated {
            engine: self,
            zone,
            is_file: list.is_file(),
            frames: zone.isolate(&self.memory.frames, list, wanted as usize),
        }
    }

    /// Takes the processor time of looking at a batch, which on a simulated machine passes while
    /// its pages are off the list. The list's lock is the node's, or the zone's under the policies
    /// that balance zones.
    async fn charge_scan(&self, zone: &Zone, pages: usize) {
        let lock = match self.settings.policy.kswapd_balance {
            KswapdBalance::Node => zone.node,
            KswapdBalance::Zones => self.memory.nodes.len() + zone.number,
        };
        let pages = pages as u64;
        let charge = self.rt.charge(Work::Scan { pages });
        charge.under_lock(lock as u32, 1).await;
    }

    /// Deactivates up to `wanted` pages of an active list (spec/reclaim.md 2.6). Returns how many
    /// it looked at.
    pub(super) async fn shrink_active(
        &self,
        zone: &Zone,
        list: List,
        wanted: u64,
        priority: u32,
    ) -> u64 {
        let batch = self.isolate(zone, list, wanted);
        if batch.frames.is_empty() {
            return 0;
        }
        self.charge_scan(zone, batch.frames.len()).await;
        self.deactivate(batch, priority)
    }

    fn deactivate(&self, batch: Isolated<'_>, priority: u32) -> u64 {
        let (zone, taken) = (batch.zone, batch.frames);
        let is_file = batch.is_file;
        let (mut deactivated, mut spared) = (0, 0);
        for &frame in taken.as_slice() {
            if self.spares_active(frame) {
                spared += 1;
            } else {
                self.memory.frames.set(frame, flag::WORKINGSET);
                self.memory.frames.clear(frame, flag::ACTIVE);
                deactivated += 1;
            }
        }
        batch.put_back(&taken);
        let nr_taken = taken.len() as u64;
        let cost = self.reclaim_cost(0, spared);
        self.note_effort(zone, is_file, (nr_taken, spared), cost);
        self.count(Counter::Pgrefill, nr_taken);
        self.count(Counter::Pgdeactivate, deactivated);
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
        let word = self.memory.frames.word(frame);
        let touches = [flag::CONSTANT, flag::FREQUENT, flag::PROMOTE];
        let last_touch = touches.into_iter().find(|touch| word & touch != 0);
        if let Some(touch) = last_touch {
            self.memory.frames.clear(frame, touch);
        }
        last_touch.is_some()
    }

    /// What work on one kind of pages has cost: pages written, and pages put back.
    fn reclaim_cost(&self, written: u64, put_back: u64) -> u64 {
        match self.settings.policy.scan_balance {
            ScanBalance::IoCost => written,
            _ => 32 * written + put_back,
        }
    }

    /// Notes for the next scan how much of the work on one kind was in vain: pages looked at and
    /// put back, and what that cost.
    fn note_effort(&self, zone: &Zone, is_file: bool, (scanned, rotated): (u64, u64), cost: u64) {
        if self.settings.policy.scan_balance <= ScanBalance::Rotations {
            zone.note_rotations(is_file, scanned, rotated);
        }
        if is_file {
            zone.note_cost(0, cost);
        } else {
            zone.note_cost(cost, 0);
        }
    }

    /// Judges up to `wanted` pages of an inactive list (spec/reclaim.md 2.7 and 3.1). Returns what
    /// it met.
    pub(super) async fn shrink_inactive(
        &self,
        zone: &Zone,
        list: List,
        wanted: u64,
        control: &mut ScanControl,
    ) -> Tally {
        let batch = self.isolate(zone, list, wanted);
        if batch.frames.is_empty() {
            return Tally::default();
        }
        self.charge_scan(zone, batch.frames.len()).await;
        let (tally, charge) = self.settle_inactive(batch, control);
        charge.await;
        tally
    }

    /// Frees or puts back what was isolated. Returns what it met, and the processor time of it.
    fn settle_inactive(&self, batch: Isolated<'_>, control: &mut ScanControl) -> (Tally, Charge) {
        let (zone, taken, is_file) = (batch.zone, batch.frames, batch.is_file);
        let judged = self.judge_batch(zone, &taken, control, is_file);
        batch.put_back(&judged.kept);
        let (scanned, reclaimed) = (taken.len() as u64, judged.freed.len() as u64);
        let tally = judged.tally;
        let cost = self.reclaim_cost(judged.paged_out, scanned - reclaimed);
        self.note_effort(zone, is_file, (scanned, tally.activated), cost);
        zone.scanned_in_vain.fetch_add(scanned, Ordering::Relaxed);
        self.memory.free_frames(zone, judged.freed.as_slice());
        control.scanned += judged.looked_at;
        control.reclaimed += reclaimed;
        control.tally.add(tally);
        self.count_batch(control.who, is_file, scanned, reclaimed);
        self.count(Counter::Pgactivate, tally.activated);
        self.record(&Event::MmVmscanLruShrinkInactive {
            nid: zone.node,
            nr_scanned: judged.looked_at,
            nr_reclaimed: reclaimed,
            nr_dirty: tally.dirty,
            nr_writeback: tally.writeback,
            nr_immediate: tally.immediate,
            nr_activate: tally.activated,
            priority: control.priority,
            is_file,
        });
        self.kick_flushers_after(&tally);
        let freeing = self.rt.charge(Work::Free { pages: reclaimed });
        let written = judged.paged_out;
        let writing = freeing.and(Work::ReclaimWrite { pages: written });
        (tally, writing.and(Work::Request { count: written }))
    }

    /// A batch in which nothing was clean, and no flusher had any of it, asks the flushers.
    fn kick_flushers_after(&self, tally: &Tally) {
        let is_late =
            self.settings.policy.reclaim_writeback >= ReclaimWriteback::KswapdWhereMetTwice;
        if is_late && tally.unqueued_dirty > 0 && tally.unqueued_dirty == tally.taken {
            self.stores.ask_flushers(FlusherWork::ALL);
        }
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
}
