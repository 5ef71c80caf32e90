//! Before 5.16, the pages of closed files go with the files. Before 4.16, the part of a cache that
//! reclaim asks for is as large as the part of the pages that it looked at (spec/reclaim.md 2.11
//! and 8.1).

use crate::Older;
use crate::policy::{ClosedFiles, ShrinkDemand};
use forebay_base::sync::atomic::Ordering;
use forebay_engine::accounting::drop::is_idle;
use forebay_engine::counters::Counter;
use forebay_engine::flow::reclaim::asking::Asked;
use forebay_engine::kernel::InodeCache;
use forebay_engine::state::object::{ObjectState, Origin};
use forebay_engine::state::objects::Offered;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_law::history::{PagesLookedAt, demand_by_scan};
use forebay_law::shrink::{DEFAULT_SEEKS, Demand, ShrinkInputs, demand};
use forebay_rt::Work;
use std::sync::Arc;

impl Older<'_> {
    /// Asks every non-page cache by the older rules. The pages that went with closed files
    /// count as reclaimed.
    pub(crate) async fn past_shrink_caches(
        &self,
        part: PagesLookedAt,
        control: &mut ScanControl<'_>,
    ) {
        let priority = control.priority;
        let demand = |asked: &Asked| self.past_demand(asked, part, priority);
        self.reclaim.ask_shrinkers(demand);
        if self.policy.closed_files <= ClosedFiles::Stripped {
            let pages = self.shrink_closed_files(demand, control).await;
            self.reclaim.rt.charge(Work::Free { pages }).await;
        } else if self.reclaim.pages.are_objects_charged() {
            self.reclaim.ask_closed_files(demand);
        }
    }

    fn past_demand(&self, asked: &Asked, part: PagesLookedAt, priority: u32) -> Demand {
        let &Asked {
            freeable,
            deferred,
            seeks,
        } = asked;
        match self.policy.shrink_demand {
            ShrinkDemand::ByScan => demand_by_scan(freeable, deferred, seeks, part),
            ShrinkDemand::ByScanToTheLast => {
                demand_by_scan(freeable, deferred, seeks, part).to_the_last()
            }
            ShrinkDemand::ByPriority => demand(&ShrinkInputs {
                freeable,
                deferred,
                seeks,
                priority,
            }),
        }
    }

    /// Asks for closed files with their pages, and for the inodes of those that have none any more,
    /// each for its part. Returns the pages that became free.
    async fn shrink_closed_files(
        &self,
        demand: impl Fn(&Asked) -> Demand,
        control: &mut ScanControl<'_>,
    ) -> u64 {
        let owed = &self.reclaim.capacity.shrinkers.unused_files;
        let inodes = self.inode_caches();
        let retired: u64 = inodes.iter().map(|cache| cache.unused()).sum();
        let freeable = self.reclaim.pages.objects.unused_count() + retired;
        let mut demand = demand(&Asked {
            freeable,
            deferred: owed.take(),
            seeks: DEFAULT_SEEKS,
        });
        let mut freed = 0;
        while let Some(batch) = demand.next_batch() {
            let part = (batch * retired).div_ceil(freeable.max(1));
            freed += self.strip_closed_files(batch - part);
            self.give_up_inodes(&inodes, part, control).await;
        }
        owed.add(demand.owed());
        self.reclaim
            .accounts
            .count(Counter::SlabsScanned, demand.offered());
        let steal = match control.who {
            Who::Kswapd => Counter::KswapdInodesteal,
            Who::Direct => Counter::Pginodesteal,
        };
        self.reclaim.accounts.count(steal, freed);
        control.reclaimed += freed;
        self.reclaim.capacity.charge_objects();
        freed
    }

    fn inode_caches(&self) -> Vec<Arc<dyn InodeCache>> {
        if !self.policy.awaits_inodes() {
            return Vec::new();
        }
        let backings = self.reclaim.dirty.stores.all();
        backings
            .iter()
            .filter_map(|it| it.older.inodes.clone())
            .collect()
    }

    /// Asks `caches` for `count` inodes. One that is not yet written is waited for.
    async fn give_up_inodes(
        &self,
        caches: &[Arc<dyn InodeCache>],
        count: u64,
        control: &mut ScanControl<'_>,
    ) {
        let mut left = count;
        for cache in caches {
            while left > 0 {
                let given = cache.give_up(left);
                left -= given.gone.min(left);
                let Some(writing) = given.writing else {
                    break;
                };
                if !self.reclaim.wait_for_inode(&writing, control).await {
                    return;
                }
            }
        }
    }

    fn strip_closed_files(&self, offered: u64) -> u64 {
        let mut freed = 0;
        for _ in 0..offered {
            match self.reclaim.pages.objects.offer_unused() {
                Offered::Nothing => break,
                Offered::Spared => {}
                Offered::Due(file) => freed += self.strip(&file),
            }
        }
        freed
    }

    /// Drops the pages of a closed file. A dirty page keeps all of them: the file is asked again.
    fn strip(&self, file: &Arc<ObjectState>) -> u64 {
        if !is_idle(file) {
            self.reclaim.pages.objects.keep_unused(file);
            return 0;
        }
        let place = file.opened.closed_place.load(Ordering::Relaxed);
        let dropped = self.reclaim.pages.drop_file(file);
        if dropped.kept > 0 {
            self.reclaim.pages.objects.keep_unused(file);
            return dropped.freed;
        }
        self.retire_inode(file);
        if self.reclaim.pages.are_objects_charged() && self.reclaim.capacity.forget_object(file) {
            self.reclaim.pages.objects.remove_closed(file, place);
        }
        dropped.freed
    }

    /// The inode of a file without pages is of no use to the cache.
    fn retire_inode(&self, file: &ObjectState) {
        if let Origin::File { object, .. } = file.origin
            && let Some(inodes) = &self.reclaim.dirty.backing_of(file).older.inodes
        {
            inodes.retire(object);
        }
    }
}
