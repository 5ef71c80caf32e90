//! How many pages may be dirty: in all, of a store, in a zone; and what follows from how many are.

use crate::parts::{Dirty, Pages};
use crate::state::backing::Backing;
use crate::state::zone::Zone;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_law::limits::{self, DirtyLimits, dirty_limits, setpoint};
use forebay_law::share::{ShareLimits, store_background, store_thresh};

/// This window is allowed however few frames there are.
const USUAL_READAHEAD_PAGES: u64 = 32;

/// So much is worth a write that shows how fast a store is: 4 MiB.
const MEASURED_PAGES: u64 = 1_024;

/// A store's part of the dirty limits, pages, and how its writers are judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePart {
    pub thresh: u64,
    pub(crate) background: u64,
    /// Its writers are stopped there, whatever else is dirty.
    pub(crate) is_strict: bool,
    /// It has a promise in seconds.
    pub(crate) has_promise: bool,
}

impl Pages {
    /// The longest window of a stream of which nothing is measured, pages. One stream never fills
    /// the cache with what it may not need. The usual window is always allowed.
    pub(crate) fn readahead_pages(&self) -> u64 {
        let limit_pages = (u64::from(self.memory.frames.len()) / 4).max(USUAL_READAHEAD_PAGES);
        self.knobs.readahead_pages().min(limit_pages)
    }

    /// The zone's part of the dirty limit, pages.
    pub(crate) fn zone_dirty_limit(&self, zone: &Zone) -> u64 {
        let dirtyable = self.memory.dirtyable_pages_of(zone);
        limits::zone_limit(
            dirtyable,
            || self.memory.dirtyable_pages(),
            &self.knobs.dirty(),
        )
    }
}

impl Pages {
    /// Whether the zone is below its part of the dirty limit (spec/reclaim.md 1.10).
    pub fn zone_is_ok(&self, zone: &Zone) -> bool {
        limits::zone_is_ok(zone.pages_pending(), self.zone_dirty_limit(zone))
    }
}

impl Dirty {
    /// The dirty limits of the whole cache. However they were set, a quarter of the memory stays
    /// clean, so that reclaim always finds something.
    pub fn dirty_limits(&self) -> DirtyLimits {
        let dirtyable = self.memory.dirtyable_pages();
        let mut limits = dirty_limits(dirtyable, &self.knobs.dirty());
        let cap = dirtyable - dirtyable / 4;
        limits.thresh = limits.thresh.min(cap);
        limits.background = limits.background.min(cap - cap / 8);
        limits
    }

    /// The level at which the laws keep the dirty pages, and the hard limit above it.
    pub(crate) fn dirty_setpoint(&self) -> (u64, u64) {
        let limits = self.dirty_limits();
        let hard = self.global.smoothed().hard_limit(limits.thresh);
        (setpoint(limits.freerun(), hard), hard)
    }

    /// This store's part of `thresh` (spec/writeback.md 2.5).
    pub(crate) fn store_thresh(&self, backing: &Backing, thresh: u64) -> u64 {
        let share = self.global.share(backing, self.accounts.now_ms());
        let limits = ShareLimits {
            min_percent: backing.knobs.min_ratio_percent(),
            max_percent: backing.knobs.max_ratio_percent(),
            min_percent_sum: self.stores.min_percent_sum(),
        };
        store_thresh(thresh, share, limits)
    }

    /// The part of `limits` that belongs to `backing`, if `dirty` pages are dirty in all. A promise
    /// gives a store a line of its own: a store that has written nothing yet has no share, and
    /// would otherwise stand still for that.
    pub fn store_part(&self, backing: &Backing, limits: &DirtyLimits, dirty: u64) -> StorePart {
        let shared = self.store_thresh(backing, limits.thresh);
        let is_strict = backing.knobs.strict_limit();
        let background = store_background(shared, limits.thresh, limits.background);
        if self.drain_of(backing).is_none() {
            return StorePart {
                thresh: shared,
                background,
                is_strict,
                has_promise: false,
            };
        }
        let most = if is_strict {
            shared
        } else {
            shared.max(limits.thresh.saturating_sub(dirty) / 8)
        };
        let thresh = lock(&backing.rates).drain.allowed_pages(most);
        let part = store_background(thresh, limits.thresh, limits.background);
        StorePart {
            thresh,
            background: part.min(thresh / 2),
            is_strict: true,
            has_promise: true,
        }
    }

    /// How many of the pages that could not be written the limit on dirty pages leaves out, of all
    /// stores and of `backing`: no writer should wait for pages that nothing makes clean. They may
    /// be as many as the limit again, within half of what is left beside it, so that memory stays
    /// reclaimable.
    pub(crate) fn set_aside(&self, backing: &Backing, thresh: u64) -> (u64, u64) {
        let all = self.global.failed.load(Ordering::Relaxed);
        if all == 0 {
            return (0, 0);
        }
        let frames = u64::from(self.memory.frames.len());
        let most = thresh.min(frames.saturating_sub(thresh) / 2);
        let aside = all.min(most);
        let of_store = backing.counts.failed_pages.load(Ordering::Relaxed);
        (aside, of_store.min(aside))
    }

    /// Whether enough pages are dirty that they are written in the background (spec/writeback.md
    /// 7.3). Pages that wait for a commit count too, as they did in Linux up to 5.7: the caller
    /// that was about to ask for the commit may have given up, and then writers would wait for a
    /// commit that nobody asks for.
    pub(crate) fn is_over_background(&self, backing: &Backing) -> bool {
        let limits = self.dirty_limits();
        let uncommitted = backing.counts.uncommitted.load(Ordering::Relaxed);
        let (aside, of_store) = self.set_aside(backing, limits.thresh);
        let reclaimable = backing.counts.reclaimable.load(Ordering::Relaxed) + uncommitted;
        let reclaimable = reclaimable.saturating_sub(of_store);
        if reclaimable == 0 {
            return false;
        }
        if self.global.reclaimable().saturating_sub(aside) > limits.background {
            return true;
        }
        // Other stores have all the pages that may be dirty, and these are on their way. The
        // writers of this store are stopped, and nothing else would write the few pages that they
        // left here.
        let is_idle = backing.writes.pages_in_flight.load(Ordering::Acquire) == 0;
        let pages = self.global.pages().saturating_sub(aside);
        if is_idle && pages >= limits.thresh {
            return true;
        }
        // The writers of a store that was not measured yet wait for its writes, whichever store has
        // too many dirty pages.
        if is_idle && pages > limits.freerun() && !lock(&backing.rates).is_measured() {
            return true;
        }
        if is_idle && reclaimable >= MEASURED_PAGES && self.is_measured_early(backing) {
            return true;
        }
        let part = self.store_part(backing, &limits, pages);
        if part.has_promise {
            return reclaimable > part.background;
        }
        // A store that was idle has no share yet; it gets the starting share of the position law.
        // If it is strict, its writers are held at the share that it has, be it none, so all that
        // they left is due.
        let floor = if part.is_strict {
            0
        } else {
            limits.thresh.saturating_sub(pages) / 8
        };
        let of_store = part.thresh.max(floor);
        reclaimable > store_background(of_store, limits.thresh, limits.background)
    }

    /// Whether `backing` has something to write that would show how fast it is, which has to be
    /// known soon. The limits of an elastic cache fall as soon as another program takes memory, and
    /// writers above them would wait until the store is measured.
    pub(crate) fn is_measured_early(&self, backing: &Backing) -> bool {
        let may_fall = self.settings.elastic.is_some();
        let has_pages = backing.counts.reclaimable.load(Ordering::Relaxed) > 0;
        may_fall && has_pages && !lock(&backing.rates).is_measured()
    }

    /// Whether a store has refused many pages and takes nothing at all any more.
    pub(crate) fn store_is_lost(&self, backing: &Backing, thresh: u64) -> bool {
        let failed = backing.counts.failed_pages.load(Ordering::Relaxed);
        failed > thresh / 2 && backing.refuses_all(self.accounts.now_ms())
    }

    /// A writer over the limit wakes the flushers of all stores with pages that wait for a commit:
    /// the pages over the limit may all be those of another store.
    pub fn wake_for_commits(&self) {
        if self.global.uncommitted.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.stores.ask_for_commits();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::cache::Cache;
    use crate::settings::BackingSettings;
    use forebay_base::Span;
    use forebay_base::sync::lock;
    use forebay_law::drain::DrainLimit;
    use forebay_law::limits::DirtyLimits;
    use forebay_rt::{Virtual, VirtualSettings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    /// A store with a promise that has written nothing yet.
    #[test]
    fn a_promise_leaves_a_new_store_an_eighth_of_what_others_left() {
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        world.run(async move {
            let cache = Cache::small(&rt, 8);
            let promise = BackingSettings {
                drain: Some(Span::from_secs(1)),
                ..BackingSettings::default()
            };
            let store = cache.attach_with(Arc::new(MemoryStore::new()), promise);
            let store = store.expect("the store is well");
            let file = cache.open(&store, ObjectId(1), 0).expect("it opens");
            let (engine, backing) = (&file.handle.engine, &file.handle.backing);
            lock(&backing.rates).drain = DrainLimit::of(1_000);
            let limits = DirtyLimits {
                thresh: 4_000,
                background: 2_000,
            };
            let part_of = |dirty| engine.dirty.store_part(backing, &limits, dirty);
            assert_eq!(
                [3_200, 4_000, 4_400].map(|dirty| part_of(dirty).thresh),
                [100, 0, 0]
            );
            let part = part_of(0);
            assert_eq!((part.thresh, part.background), (500, 250));
            assert!(part.is_strict && part.has_promise);
        });
    }
}
