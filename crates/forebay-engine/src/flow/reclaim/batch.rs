//! One batch of a list: off the list, judged, and back or free.

use crate::counters::Counter;
use crate::event::Event;
use crate::flow::reclaim::Steps;
use crate::lists::{Effort, List};
use crate::memory::Isolated;
use crate::parts::{Pages, Reclaim};
use crate::state::flusher_requests::FlusherWork;
use crate::state::scan_control::{ScanControl, Who};
use crate::state::tally::Tally;
use crate::state::zone::Zone;
use forebay_base::sync::atomic::Ordering;
use forebay_rt::{Charge, Work};

impl Pages {
    /// Takes the processor time of looking at a batch. On a simulated machine it passes while the
    /// pages of the batch are off the list.
    async fn charge_scan(&self, zone: &Zone, pages: usize) {
        let lock = self.memory.lock_of_lists(zone);
        let pages = pages as u64;
        let charge = self.rt.charge(Work::Scan { pages });
        charge.under_lock(lock, 1).await;
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
        let batch = self.memory.isolate(zone, list, wanted);
        if batch.frames.is_empty() {
            return 0;
        }
        self.charge_scan(zone, batch.frames.len()).await;
        self.deactivate(batch, priority)
    }

    fn deactivate(&self, batch: Isolated<'_>, priority: u32) -> u64 {
        let (zone, taken) = (batch.zone, batch.frames);
        let is_file = batch.list.is_file();
        let (mut deactivated, mut spared) = (0, 0);
        for &frame in taken.as_slice() {
            if self.memory.lists.age_active(&self.memory.frames, frame) {
                spared += 1;
            } else {
                deactivated += 1;
            }
        }
        batch.put_back(&taken);
        let nr_taken = taken.len() as u64;
        let effort = Effort {
            scanned: nr_taken,
            rotated: spared,
            written: 0,
            put_back: spared,
        };
        self.memory.lists.note_effort(zone.number, is_file, effort);
        self.accounts.count(Counter::Pgrefill, nr_taken);
        self.accounts.count(Counter::Pgdeactivate, deactivated);
        self.accounts.record(&Event::MmVmscanLruShrinkActive {
            nid: zone.node,
            nr_taken,
            nr_deactivated: deactivated,
            priority,
        });
        nr_taken
    }
}

impl Reclaim {
    /// Judges the pages of `batch` (spec/reclaim.md 2.7 and 3.1). Returns what it met.
    pub(super) async fn shrink_judged(
        &self,
        steps: &impl Steps,
        batch: Isolated<'_>,
        control: &mut ScanControl<'_>,
    ) -> Tally {
        if batch.frames.is_empty() {
            return Tally::default();
        }
        self.pages.charge_scan(batch.zone, batch.frames.len()).await;
        let (tally, charge) = self.settle_judged(steps, batch, control);
        charge.await;
        tally
    }

    /// Frees or puts back what was isolated. Returns what it met, and its processor time.
    fn settle_judged(
        &self,
        steps: &impl Steps,
        batch: Isolated<'_>,
        control: &mut ScanControl<'_>,
    ) -> (Tally, Charge) {
        let judged = self.judge_batch(steps, &batch, control);
        let (zone, taken, is_file) = (batch.zone, batch.frames, batch.list.is_file());
        batch.put_back(&judged.kept);
        let (scanned, reclaimed) = (taken.len() as u64, judged.freed.len() as u64);
        let tally = judged.tally;
        let effort = Effort {
            scanned,
            rotated: tally.activated,
            written: judged.paged_out,
            put_back: scanned - reclaimed,
        };
        self.memory.lists.note_effort(zone.number, is_file, effort);
        zone.scanned_in_vain.fetch_add(scanned, Ordering::Relaxed);
        self.memory.free_evicted(zone, judged.freed.as_slice());
        control.scanned += judged.looked_at;
        control.reclaimed += reclaimed;
        control.tally.add(tally);
        self.count_batch(control.who, is_file, scanned, reclaimed);
        self.accounts.count(Counter::Pgactivate, tally.activated);
        self.accounts.record(&Event::MmVmscanLruShrinkInactive {
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
        // A batch in which nothing was clean and that no flusher had begun to write.
        let is_all_dirty = tally.unqueued_dirty > 0 && tally.unqueued_dirty == tally.taken;
        if is_all_dirty && steps.asks_flushers() {
            self.dirty.stores.ask_flushers(FlusherWork::ALL);
        }
        let freeing = self.rt.charge(Work::Free { pages: reclaimed });
        let written = judged.paged_out;
        let writing = freeing.and(Work::ReclaimWrite { pages: written });
        (tally, writing.and(Work::Request { count: written }))
    }

    fn count_batch(&self, who: Who, is_file: bool, scanned: u64, reclaimed: u64) {
        let (scan, steal) = match who {
            Who::Kswapd => (Counter::PgscanKswapd, Counter::PgstealKswapd),
            Who::Direct => (Counter::PgscanDirect, Counter::PgstealDirect),
        };
        self.accounts.count(scan, scanned);
        self.accounts.count(steal, reclaimed);
        self.accounts.count(
            if is_file {
                Counter::PgscanFile
            } else {
                Counter::PgscanAnon
            },
            scanned,
        );
    }
}
