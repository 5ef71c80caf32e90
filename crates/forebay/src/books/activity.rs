//! What is at work for a store, and which writers pause for it. The rate of the store is measured
//! from this, and it shows when the store stood idle without need.

use crate::engine::Engine;
use crate::state::activity::Part;
use crate::state::backing::Backing;
use forebay_base::sync::atomic::Ordering;
use forebay_store::FinishedIo;

/// A part of a store's activity, until it is dropped.
#[derive(Debug)]
pub(crate) struct AtWork<'a> {
    engine: &'a Engine,
    backing: &'a Backing,
    part: Part,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.engine.activity_ends(self.backing, self.part);
    }
}

impl Engine {
    /// Counts how long the store took.
    pub(crate) fn note_answer(&self, backing: &Backing, io: &FinishedIo) {
        if let Some(submitted) = io.submitted {
            let took = self.rt.now().since(submitted);
            backing.times.note(io.request.kind, took);
        }
    }

    /// Counts `part` among what happens to a store for as long as the result lives.
    pub(crate) fn at_work<'a>(&'a self, backing: &'a Backing, part: Part) -> AtWork<'a> {
        self.activity_begins(backing, part);
        AtWork {
            engine: self,
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
        let failed = backing.failed_pages.load(Ordering::Relaxed);
        let has_pages = backing.reclaimable.load(Ordering::Relaxed) > failed;
        let has_work = has_pages && self.is_over_background(backing);
        backing.activity.note_work(has_work);
    }
}
