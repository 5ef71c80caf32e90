//! Pages: which pages of an object may be resident, and how a page leaves the cache.

use crate::counters::Counter;
use crate::lists::Arrivals;
use crate::lists::Refault;
use crate::memory::Memory;
use crate::state::batch::Batch;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::index::{NEIGHBOURS, STRETCH, key, object_of, page_of};
use crate::state::object::ObjectState;
use crate::state::zone::Zone;
use forebay_store::PagePointer;
use std::ops::Range;

impl Memory {
    /// The frame that holds the page `key`, if the lookup met it ([`Index::find`]).
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        self.index.find(&self.frames, key)
    }

    /// The frame that holds the page `key`, for sure ([`Index::find_surely`]).
    pub(crate) fn find_surely(&self, key: u64) -> Option<u32> {
        self.index.find_surely(&self.frames, key)
    }

    /// As [`Memory::find`], for a caller that is about to use the page ([`Index::find_to_use`]).
    #[inline]
    pub(crate) fn find_to_use(&self, key: u64) -> Option<u32> {
        self.index.find_to_use(&self.frames, key)
    }

    /// The pages of a range that may be resident: among the pages that the object ever had
    /// (invariant O3), those in stretches that are not empty. If those stretches have more pages
    /// than there are frames, the pages that a walk over the frames finds.
    pub(crate) fn pages_to_visit(
        &self,
        object: &ObjectState,
        pages: Range<u64>,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let number = object.number;
        let pages = object.pages_had(&pages);
        let frames = u64::from(self.frames.len());
        let stretches =
            pages.start / STRETCH..pages.end.div_ceil(STRETCH).max(pages.start / STRETCH);
        let may_have =
            move |stretch: &u64| !self.index.is_stretch_empty(key(number, stretch * STRETCH));
        let length = pages.end.saturating_sub(pages.start);
        let walks_frames = length > frames
            && (length / STRETCH > frames
                || stretches.clone().filter(may_have).count() as u64 * STRETCH > frames);
        let (by_frame, by_stretch) = if walks_frames {
            (0..self.frames.len(), 0..0)
        } else {
            (0..0, stretches)
        };
        let wanted = pages.clone();
        let of_frames = by_frame.filter_map(move |frame| {
            let owner = self.frames.owner(frame);
            let is_of_object = owner != 0 && object_of(owner) == number;
            (is_of_object && wanted.contains(&page_of(owner))).then(|| page_of(owner))
        });
        let of_stretches = by_stretch.filter(may_have).flat_map(move |stretch| {
            let first = stretch * STRETCH;
            first.max(pages.start)..(first + STRETCH).min(pages.end)
        });
        of_frames.chain(of_stretches)
    }

    /// Fetches ahead what a write of the page `key` will touch: its frame, or what is remembered of
    /// it.
    #[inline]
    pub(crate) fn prefetch_write(&self, key: u64) {
        if let Some(frame) = self.index.candidate(key) {
            self.frames.prefetch_frame(frame);
        }
        self.lists.prefetch_shadow(key);
    }

    /// How many of `pages` are not there, from the first on, as far as the lookups show
    /// ([`Index::find`]).
    pub(crate) fn absent_pages(&self, object: u32, pages: Range<u64>) -> u64 {
        let keys = || pages.clone().map(|page| key(object, page));
        if pages.is_empty() || self.find(key(object, pages.start)).is_some() {
            return 0;
        }
        for key in keys().step_by(NEIGHBOURS as usize).skip(1) {
            self.index.prefetch(key);
        }
        keys().take_while(|&key| self.find(key).is_none()).count() as u64
    }

    /// Puts empty pages in, from `first` on, each into a frame of `run` and with `flags`. Frames
    /// whose pages are there already go back. Returns a bit for each page, from the lowest on: it
    /// is set if the page is in.
    pub(crate) fn put_in(&self, first: u64, run: &Batch, flags: u64) -> u32 {
        let placed = self
            .index
            .insert_run(&self.frames, first, run.as_slice(), flags);
        let is_in = |&at: &usize| placed & 1 << at != 0;
        let frames_at = |places: &mut dyn Iterator<Item = usize>| {
            let mut frames = Batch::new();
            places.for_each(|at| frames.push(run.as_slice()[at]));
            frames
        };
        let new = frames_at(&mut (0..run.len()).filter(is_in));
        self.list_new(new.as_slice());
        let unused = frames_at(&mut (0..run.len()).filter(|at| !is_in(at)));
        for &frame in unused.as_slice() {
            self.frames.adopt(frame).blank();
            self.free_frame(frame);
        }
        placed
    }

    /// Puts held pages of one zone that are new in the index on a list.
    pub(crate) fn list_new(&self, run: &[u32]) {
        let Some(&first) = run.first() else {
            return;
        };
        let zone = self.zone_of(first).number;
        let has_room = || self.swap_has_room();
        self.lists.arrive(
            &self.frames,
            Arrivals { zone, run },
            has_room,
            |hold, refault| {
                self.count_refault(hold.word() & flag::ANON == 0, refault);
            },
        );
    }

    fn count_refault(&self, is_file: bool, refault: Refault) {
        let [refaults, activations, restores] = if is_file {
            [
                Counter::WorkingsetRefaultFile,
                Counter::WorkingsetActivateFile,
                Counter::WorkingsetRestoreFile,
            ]
        } else {
            [
                Counter::WorkingsetRefaultAnon,
                Counter::WorkingsetActivateAnon,
                Counter::WorkingsetRestoreAnon,
            ]
        };
        self.counters.add(refaults, 1);
        if let Some(zone) = refault.activated_for {
            self.counters.add(activations, 1);
            self.nodes[self.zones[zone].node].note_refault(is_file);
        }
        if refault.is_restored {
            self.counters.add(restores, 1);
        }
    }

    /// Frees a clean page that reclaim has isolated, and remembers its eviction.
    pub(crate) fn evict(&self, zone: &Zone, hold: ExclusiveHold<'_>) -> u32 {
        let (owner, word) = (hold.owner(), hold.word());
        if word & flag::ANON != 0 {
            self.clean_anonymous_is_gone();
        }
        self.index.remove(&self.frames, &hold);
        self.lists.evicted(zone.number, owner, word);
        hold.blank()
    }

    /// Takes a clean page with its content out of the cache.
    pub(crate) fn release_clean(&self, hold: ExclusiveHold<'_>) {
        if hold.word() & flag::ANON != 0 {
            self.clean_anonymous_is_gone();
        }
        self.release_page(hold);
    }

    /// Takes a clean page out of the cache that its holder no longer wants.
    pub(crate) fn release_page(&self, hold: ExclusiveHold<'_>) {
        let zone = self.zone_of(hold.frame());
        self.index.remove(&self.frames, &hold);
        let lists = self.lists.of(zone.number);
        if let Some(frame) = lists.disown(&self.frames, hold) {
            self.free_frame(frame);
        }
    }

    /// Moves a page that reclaim marked to the old end of its list, before any waiter learns that
    /// its write ended (spec/reclaim.md 3.6).
    pub(crate) fn rotate_reclaimable(&self, frame: u32) -> bool {
        let word = self.frames.word(frame);
        if word & flag::RECLAIM == 0 {
            return false;
        }
        self.frames.clear(frame, flag::RECLAIM);
        word & (flag::DIRTY | flag::EXCLUSIVE) == 0
            && self
                .lists
                .of(self.zone_of(frame).number)
                .rotate(&self.frames, frame)
    }

    /// Notes that pages of a node were written, and wakes the callers that wait for that.
    pub(crate) fn note_written(&self, written: &[PagePointer]) {
        self.for_each_zone(written, |zone, pages| {
            let throttled = self.nodes[zone.node].note_written(pages);
            self.counters.add(Counter::NrThrottledWritten, throttled);
        });
    }
}

#[cfg(all(test, not(loom)))]
#[path = "pages_tests.rs"]
mod tests;
