//! How a cache beside the pages is asked: in batches. What could not be asked stays owed.

use crate::counters::Counter;
use crate::engine::Engine;
use forebay_law::shrink::{DEFAULT_SEEKS, Demand};

/// A cache as the law of demands sees it.
pub(crate) struct Asked {
    /// Objects that it could free.
    pub(crate) freeable: u64,
    /// Objects that earlier passes could not ask.
    pub(crate) deferred: u64,
    /// What one object costs to make again.
    pub(crate) seeks: u64,
}

impl Engine {
    /// Asks the program's own caches for what `demand` says.
    pub(crate) fn ask_shrinkers(&self, demand: impl Fn(&Asked) -> Demand) {
        for registered in self.shrinkers.all() {
            let Some(shrinker) = registered.shrinker() else {
                continue;
            };
            let mut demand = demand(&Asked {
                freeable: shrinker.freeable(),
                deferred: registered.owed.take(),
                seeks: shrinker.seeks(),
            });
            while let Some(batch) = demand.next_batch() {
                if shrinker.shrink(batch).is_break() {
                    break;
                }
            }
            registered.owed.add(demand.owed());
            self.count(Counter::SlabsScanned, demand.offered());
        }
    }

    /// Asks for the memory of closed files without pages, which is of use to nobody else.
    pub(crate) fn ask_closed_files(&self, demand: impl Fn(&Asked) -> Demand) {
        let owed = &self.shrinkers.closed_files;
        let mut demand = demand(&Asked {
            freeable: self.objects.closed_count(),
            deferred: owed.take(),
            seeks: DEFAULT_SEEKS,
        });
        while let Some(batch) = demand.next_batch() {
            self.forget_without_pages(batch);
        }
        owed.add(demand.owed());
        self.count(Counter::SlabsScanned, demand.offered());
    }
}
