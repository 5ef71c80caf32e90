//! Whether each store has the part of the dirty limit that follows from what stores have answered,
//! by the engine's own law (spec/writeback.md 2.5).
//!
//! The oracle counts the writes that stores took, below the cache. It finds a write that the engine
//! counts for no store, for another one, or twice, and a share that is not asked for. It does not
//! find a law that is wrong.
//!
//! The law's periods stop when everything has aged out, and start again at the next write. After a
//! rest of more than a period, when they stopped depends on when the law was last asked. After such
//! a rest the oracle no longer judges.

use super::super::verdict::{Oracle, Violation};
use super::observer::{Moment, Observer, SceneIo};
use super::plan::{SWAP, Scene, Site};
use forebay_law::share::{
    GlobalCompletions, ShareLimits, StoreCompletions, complete, share, store_thresh,
};

/// See above.
#[derive(Debug)]
pub(super) struct StoreShares {
    all: GlobalCompletions,
    stores: Vec<OfStore>,
    min_percent_sum: u64,
    /// Whether the engine's periods must be those of `all`.
    periods_known: bool,
}

#[derive(Debug)]
struct OfStore {
    completions: StoreCompletions,
    min_percent: u64,
    max_percent: u64,
}

impl StoreShares {
    pub(super) fn new(scene: &Scene) -> StoreShares {
        let of_site = |site: &Site| OfStore {
            completions: StoreCompletions::default(),
            min_percent: site.backing.min_ratio_percent,
            max_percent: site.backing.max_ratio_percent,
        };
        let stores: Vec<OfStore> = scene.sites.iter().map(of_site).collect();
        StoreShares {
            all: GlobalCompletions::default(),
            min_percent_sum: stores.iter().map(|store| store.min_percent).sum(),
            stores,
            periods_known: true,
        }
    }

    fn advance(&mut self, now_ms: u64) {
        let before = self.all.period;
        self.all = self.all.advanced(now_ms);
        if self.all.period > before + 1 && self.all.events <= 1 {
            self.periods_known = false;
        }
    }

    /// The part of `thresh` that belongs to store `number`.
    fn part_of(&mut self, number: usize, thresh: u64) -> u64 {
        let store = &mut self.stores[number];
        let limits = ShareLimits {
            min_percent: store.min_percent,
            max_percent: store.max_percent,
            min_percent_sum: self.min_percent_sum,
        };
        store_thresh(thresh, share(&self.all, &mut store.completions), limits)
    }
}

impl Observer for StoreShares {
    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        // Writes to swap count for no store: they are not the work of writers of files.
        if let SceneIo::RequestEnds(request, true) = io
            && let pages @ 1.. = request.written_pages()
            && request.is.object != SWAP
        {
            let now_ms = moment.now.as_millis();
            self.advance(now_ms);
            let store = &mut self.stores[request.store];
            let max_ratio_1024 = 1_024 * store.max_percent / 100;
            complete(
                &mut self.all,
                &mut store.completions,
                pages,
                max_ratio_1024,
                now_ms,
            );
        }
        None
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let (seen, now_ms) = (moment.statistics(), moment.now.as_millis());
        self.advance(now_ms);
        if !self.periods_known {
            return None;
        }
        for (number, store) in seen.backings.iter().enumerate() {
            // A promise in seconds has a limit of its own.
            if store.drain.is_some() {
                continue;
            }
            let expected = self.part_of(number, seen.nr_dirty_threshold);
            if store.dirty_thresh != expected {
                return Some(Oracle::Recomputed.finds(format!(
                    "at {now_ms} ms, store {number}: its part of the dirty limit of {} pages is \
                     {}; from the writes that stores took follow {expected}",
                    seen.nr_dirty_threshold, store.dirty_thresh
                )));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Span;

    #[test]
    fn a_store_has_the_part_of_the_limit_that_its_writes_earn() {
        let site = || Site::of(1_000, Vec::new());
        let scene = Scene::of(8 << 20, vec![site(), site()], Span::ZERO);
        let mut shares = StoreShares::new(&scene);
        for (store, pages) in [(0, 299), (1, 100)] {
            let completions = &mut shares.stores[store].completions;
            complete(&mut shares.all, completions, pages, 1_024, 10);
        }
        let parts = [0, 1].map(|store| shares.part_of(store, 4_000));
        assert_eq!(parts, [2_990, 1_000]);
    }
}
