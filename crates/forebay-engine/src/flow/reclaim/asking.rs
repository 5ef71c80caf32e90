//! How a non-page cache is asked: in batches. What could not be asked stays owed.

use crate::counters::Counter;
use crate::marks::Mark;
use crate::parts::Reclaim;
use crate::shrinker::Shrinker;
use crate::state::shrinkers::Owed;
use forebay_law::shrink::{DEFAULT_SEEKS, Demand};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A cache as the law of demands sees it.
pub struct Asked {
    /// Objects that it could free.
    pub freeable: u64,
    /// Objects that earlier passes could not ask.
    pub deferred: u64,
    /// What one object costs to make again.
    pub seeks: u64,
}

impl Reclaim {
    /// Asks the program's own caches for what `demand` says. One that panics is asked no more: its
    /// state may be broken, and the task that asks, kswapd perhaps, has to go on.
    pub fn ask_shrinkers(&self, demand: impl Fn(&Asked) -> Demand) {
        for registered in self.capacity.shrinkers.all() {
            let Some(shrinker) = registered.shrinker() else {
                continue;
            };
            let asked = AssertUnwindSafe(|| ask_one(&*shrinker, &registered.owed, &demand));
            let Ok(offered) = catch_unwind(asked) else {
                self.capacity.shrinkers.remove(&registered);
                self.accounts.count(Counter::ShrinkerPanics, 1);
                self.accounts.mark(Mark::ShrinkerPanicked);
                forebay_rt::say("a shrinker panicked; reclaim asks it no more");
                continue;
            };
            self.accounts.count(Counter::SlabsScanned, offered);
        }
    }

    /// Asks for the memory of closed files without pages, which is of use to nobody else.
    pub fn ask_closed_files(&self, demand: impl Fn(&Asked) -> Demand) {
        let owed = &self.capacity.shrinkers.closed_files;
        let mut demand = demand(&Asked {
            freeable: self.pages.objects.closed_count(),
            deferred: owed.take(),
            seeks: DEFAULT_SEEKS,
        });
        while let Some(batch) = demand.next_batch() {
            self.capacity.forget_without_pages(batch);
        }
        owed.add(demand.owed());
        self.accounts.count(Counter::SlabsScanned, demand.offered());
    }
}

/// Asks `shrinker` for what `demand` says and returns how many objects it was offered.
fn ask_one(shrinker: &dyn Shrinker, owed: &Owed, demand: impl Fn(&Asked) -> Demand) -> u64 {
    let mut demand = demand(&Asked {
        freeable: shrinker.freeable(),
        deferred: owed.take(),
        seeks: shrinker.seeks(),
    });
    while let Some(batch) = demand.next_batch() {
        if shrinker.shrink(batch).is_break() {
            break;
        }
    }
    owed.add(demand.owed());
    demand.offered()
}
