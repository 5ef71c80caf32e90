//! What is at work for a store, and which writers pause for it. The rate of the store is measured
//! from this, and it shows when the store stood idle without need.

use crate::marks::Mark;
use crate::parts::{Accounts, Dirty};
use crate::state::activity::Part;
use crate::state::backing::Backing;
use forebay_base::sync::atomic::Ordering;
use forebay_store::{Failure, FinishedIo, IoKind, StoreError};

/// A part of a store's activity, until it is dropped.
pub(crate) struct AtWork<'a> {
    dirty: &'a Dirty,
    backing: &'a Backing,
    part: Part,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.dirty.activity_ends(self.backing, self.part);
    }
}

impl Accounts {
    /// Counts how long the store took, and whether it refused.
    pub(crate) fn note_answer(&self, backing: &Backing, io: &FinishedIo) {
        if let Some(submitted) = io.submitted {
            let took = self.rt.now().since(submitted);
            backing.answers.times.note(io.request.kind, took);
        }
        self.note_outcome(backing, io.request.kind, &io.result);
    }

    /// Counts what the store refuses, and notes when it does no more: every answer to a request
    /// comes here once.
    pub(crate) fn note_outcome(
        &self,
        backing: &Backing,
        kind: IoKind,
        result: &Result<(), StoreError>,
    ) {
        let Err(StoreError { failure, .. }) = *result else {
            return backing.failing.refusals.went_well(kind);
        };
        // What is the fault of the store's program, and not of its medium.
        if matches!(failure, Failure::Dropped | Failure::Panicked) {
            self.mark(Mark::StoreDropped);
        }
        let (now, kept) = (
            self.rt.now(),
            backing.counts.failed_pages.load(Ordering::Relaxed),
        );
        backing.failing.refusals.refused(kind, failure, kept, now);
        self.incidents.refused(now, backing.number, kind, failure);
    }
}

impl Dirty {
    /// Counts `part` among what happens to a store for as long as the result lives.
    pub(crate) fn at_work<'a>(&'a self, backing: &'a Backing, part: Part) -> AtWork<'a> {
        self.activity_begins(backing, part);
        AtWork {
            dirty: self,
            backing,
            part,
        }
    }

    pub(crate) fn activity_begins(&self, backing: &Backing, part: Part) {
        if backing.activity.begins(part, self.rt.now()) {
            self.note_work(backing);
        }
    }

    pub(crate) fn activity_ends(&self, backing: &Backing, part: Part) {
        if backing.activity.ends(part, self.rt.now()) {
            self.note_work(backing);
        }
    }

    /// A store is idle although one of its writers is paused: that is right only if there is
    /// nothing to write in the background. Pages that failed wait until their retry is due.
    fn note_work(&self, backing: &Backing) {
        let failed = backing.counts.failed_pages.load(Ordering::Relaxed);
        let has_pages = backing.counts.reclaimable.load(Ordering::Relaxed) > failed;
        let has_work = has_pages && self.is_over_background(backing);
        backing.activity.note_work(has_work);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::cache::Cache;
    use crate::state::activity::Part;
    use forebay_base::Span;
    use forebay_base::sync::atomic::Ordering;
    use forebay_rt::{Virtual, VirtualSettings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    /// The flusher never lets this happen, so the pages are only counted, and not there.
    #[test]
    fn a_store_idles_without_need_if_a_writer_pauses_and_pages_are_due() {
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        world.run(async move {
            let cache = Cache::small(&rt, 8);
            let store = cache.attach(Arc::new(MemoryStore::new()));
            let store = store.expect("the store is well");
            let file = cache.open(&store, ObjectId(1), 0).expect("it opens");
            let (engine, backing) = (&file.handle.engine, &file.handle.backing);
            let idle_ms = || {
                let times = backing.activity.times(rt.now());
                times.idle_while_throttled.as_millis()
            };
            let pause = engine.dirty.at_work(backing, Part::Pause);
            rt.sleep(Span::from_millis(100)).await;
            assert_eq!(idle_ms(), 0, "there is nothing to write");
            drop(pause);
            for dirty in [&engine.dirty.global.dirty, &backing.counts.reclaimable] {
                dirty.fetch_add(1_000, Ordering::Relaxed);
            }
            let pause = engine.dirty.at_work(backing, Part::Pause);
            rt.sleep(Span::from_millis(100)).await;
            assert_eq!(idle_ms(), 100);
            // It has a request: then it is not idle.
            let request = engine.dirty.at_work(backing, Part::Request);
            rt.sleep(Span::from_millis(100)).await;
            assert_eq!(idle_ms(), 100);
            // Pages whose write failed are not due.
            backing
                .counts
                .failed_pages
                .fetch_add(1_000, Ordering::Relaxed);
            drop(request);
            rt.sleep(Span::from_millis(100)).await;
            assert_eq!(idle_ms(), 100);
            drop(pause);
            backing
                .counts
                .failed_pages
                .fetch_sub(1_000, Ordering::Relaxed);
            for dirty in [&engine.dirty.global.dirty, &backing.counts.reclaimable] {
                dirty.fetch_sub(1_000, Ordering::Relaxed);
            }
        });
    }
}
