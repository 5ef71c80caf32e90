//! What a pass asks of the caches beside the pages (spec/reclaim.md 2.11): those that programs
//! registered, the memory of closed files where objects take much of it and, up to 5.15, the pages
//! of files that nobody has open.

use crate::books::drop::is_idle;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::flow::reclaim::{ScanControl, Who};
use crate::policy::{ClosedFiles, ShrinkDemand};
use crate::state::object::ObjectState;
use crate::state::objects::Offered;
use forebay_base::sync::atomic::Ordering;
use forebay_law::history::{PagesLookedAt, demand_by_scan};
use forebay_law::shrink::{DEFAULT_SEEKS, Demand, ShrinkInputs, demand};
use forebay_rt::Work;
use std::sync::Arc;

impl Engine {
    /// Asks every cache beside the pages for its part, after a pass that looked at `part` of the
    /// pages. What closed files took with them counts as reclaimed.
    pub(crate) async fn shrink_caches(&self, part: PagesLookedAt, control: &mut ScanControl) {
        for registered in self.shrinkers.all() {
            let Some(shrinker) = registered.shrinker() else {
                continue;
            };
            let known = (shrinker.freeable(), registered.owed.take());
            let mut demand = self.demand(known, shrinker.seeks(), part, control.priority);
            while let Some(batch) = demand.next_batch() {
                if shrinker.shrink(batch).is_break() {
                    break;
                }
            }
            registered.owed.add(demand.owed());
            self.count(Counter::SlabsScanned, demand.offered());
        }
        if self.settings.policy.closed_files == ClosedFiles::Stripped {
            let pages = self.shrink_closed_files(part, control);
            self.rt.charge(Work::Free { pages }).await;
        } else if self.are_objects_charged() {
            self.shrink_objects(part, control);
        }
    }

    /// Asks for the memory of closed files without pages: it is of no use to anybody but them.
    fn shrink_objects(&self, part: PagesLookedAt, control: &ScanControl) {
        let owed = &self.shrinkers.closed_files;
        let known = (self.objects.closed_count(), owed.take());
        let mut demand = self.demand(known, DEFAULT_SEEKS, part, control.priority);
        while let Some(batch) = demand.next_batch() {
            self.forget_without_pages(batch);
        }
        owed.add(demand.owed());
        self.count(Counter::SlabsScanned, demand.offered());
    }

    fn demand(
        &self,
        (freeable, deferred): (u64, u64),
        seeks: u64,
        part: PagesLookedAt,
        priority: u32,
    ) -> Demand {
        match self.settings.policy.shrink_demand {
            ShrinkDemand::ByScan => demand_by_scan(freeable, deferred, seeks, part),
            ShrinkDemand::ByPriority => demand(&ShrinkInputs {
                freeable,
                deferred,
                seeks,
                priority,
            }),
        }
    }

    /// Returns the pages that became free.
    fn shrink_closed_files(&self, part: PagesLookedAt, control: &mut ScanControl) -> u64 {
        let owed = &self.shrinkers.unused_files;
        let known = (self.objects.unused_count(), owed.take());
        let mut demand = self.demand(known, DEFAULT_SEEKS, part, control.priority);
        let mut freed = 0;
        while let Some(batch) = demand.next_batch() {
            freed += self.strip_closed_files(batch);
        }
        owed.add(demand.owed());
        self.count(Counter::SlabsScanned, demand.offered());
        let steal = match control.who {
            Who::Kswapd => Counter::KswapdInodesteal,
            Who::Direct => Counter::Pginodesteal,
        };
        self.count(steal, freed);
        control.reclaimed += freed;
        self.charge_objects();
        freed
    }

    fn strip_closed_files(&self, offered: u64) -> u64 {
        let mut freed = 0;
        for _ in 0..offered {
            match self.objects.offer_unused() {
                Offered::Nothing => break,
                Offered::Spared => {}
                Offered::Due(file) => freed += self.strip(&file),
            }
        }
        freed
    }

    /// Drops the pages of a closed file. One that is dirty keeps them all: it is asked again.
    fn strip(&self, file: &Arc<ObjectState>) -> u64 {
        if !is_idle(file) {
            self.objects.keep_unused(file);
            return 0;
        }
        let place = file.closed_place.load(Ordering::Relaxed);
        let dropped = self.drop_file(file);
        if dropped.kept > 0 {
            self.objects.keep_unused(file);
        } else if self.are_objects_charged() && self.forget_object(file) {
            self.objects.remove_closed(file, place);
        }
        dropped.freed
    }
}
